package statedir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// exchange swaps two names of a directory at once. The error wraps errors.ErrUnsupported where the kernel or the file
// system cannot.
func exchange(parent *os.Root, a, b string) error {
	dir, err := parent.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	err = unix.Renameat2(int(dir.Fd()), a, int(dir.Fd()), b, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return errors.ErrUnsupported
	}
	return err
}
