// Package offlinetest is what the tests of the packages below daemon/offline share: files of ratings, and the lines
// that a verb emits. It imports none of those packages.
package offlinetest
