// Package modeltest has what tests of several rooms of a model share. It is for tests alone.
package modeltest
