//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package disk

import (
	"context"
	"errors"
	"os"
)

// Lock refuses to publish where the standard library has no file locks; such systems can read snapshots.
func Lock(context.Context, *os.Root, string) (unlock func() error, err error) {
	return nil, errors.ErrUnsupported
}
