//go:build unix

package disk

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkPrivate returns ErrKey unless a file belongs to this user or to root and nobody but its owner may read it.
func checkPrivate(st fs.FileInfo, err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", ErrKey, err)
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%w: not a regular file", ErrKey)
	}
	if mode := st.Mode().Perm(); mode != 0o600 && mode != 0o400 {
		return fmt.Errorf("%w: mode %#o lets others in: chmod 600", ErrKey, mode)
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && sys.Uid != 0 && int(sys.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: it belongs to user %d, not to user %d that runs this program: chown it", ErrKey, sys.Uid,
			os.Geteuid())
	}
	return nil
}
