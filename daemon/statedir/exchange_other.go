//go:build !linux

package statedir

import (
	"errors"
	"os"
)

// exchange swaps two names of a directory at once, which this system is not asked for.
func exchange(*os.Root, string, string) error { return errors.ErrUnsupported }
