//go:build failpoint

package failpoint

// hook is what Intercept was given.
var hook func(site string) error

// Intercept makes f answer for every site before FAIL does, nil for none: a simulation decides there where its process
// dies. It is to be called while nothing passes a site.
func Intercept(f func(site string) error) { hook = f }
