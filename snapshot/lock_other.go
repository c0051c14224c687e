//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package snapshot

import (
	"context"
	"errors"
	"os"
)

// lock refuses to publish where the standard library has no file locks; such systems can read snapshots.
func lock(context.Context, *os.Root, string) (unlock func() error, err error) {
	return nil, errors.ErrUnsupported
}
