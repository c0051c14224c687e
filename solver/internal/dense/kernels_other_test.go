//go:build !amd64

package dense

import "testing"

// forEachLevel runs f: there is one form.
func forEachLevel(t *testing.T, f func(t *testing.T)) { f(t) }
