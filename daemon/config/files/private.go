package files

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/refitd/refitd/daemon/config/strictyaml"
)

// errNotPrivate is the complaint about a secret that others may read.
var errNotPrivate = errors.New("other users may read it")

// CheckPrivate returns an error unless path is a regular file that belongs to this user or to root, and that only its
// owner may read (mode 0600 or 0400).
func CheckPrivate(path string) error {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case st.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s has mode %04o: %w; run chmod 600 on it", path, st.Mode().Perm(), errNotPrivate)
	}
	if user, others := owner(st); others {
		return fmt.Errorf("%s belongs to user %d, not to user %d that runs this program: chown it", path, user,
			os.Geteuid())
	}
	return nil
}

// ReadPrivate returns the text of a file with a secret in it without the last line end.
func ReadPrivate(name string) (string, error) {
	if err := CheckPrivate(name); err != nil {
		return "", err
	}
	text, err := os.ReadFile(name)
	return strings.TrimRight(strings.TrimPrefix(string(text), strictyaml.ByteOrderMark), "\r\n"), err
}
