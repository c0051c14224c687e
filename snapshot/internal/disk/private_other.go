//go:build !unix

package disk

import (
	"fmt"
	"io/fs"
)

// checkPrivate cannot look at access lists; it asks for a regular file only.
func checkPrivate(st fs.FileInfo, err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", ErrKey, err)
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%w: not a regular file", ErrKey)
	}
	return nil
}
