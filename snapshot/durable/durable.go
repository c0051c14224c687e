// Package durable writes files so that a crash leaves the old content or the new one, never a part of it. It imports
// the standard library only and may be imported by every other package.
package durable

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// WriteFile makes or replaces the file at path, with permissions perm before umask, of what write writes. The new
// file is durable when WriteFile returns without an error; with one, the old file is still there unless only its
// directory could not be synced. A crash can leave a file .tmp-* in its directory.
func WriteFile(path string, perm fs.FileMode, write func(io.Writer) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	temporary := ".tmp-" + rand.Text()
	defer dir.Remove(temporary) // nothing is left to remove once renamed
	if err := Create(dir, temporary, perm, write); err != nil {
		return err
	}
	return Rename(dir, temporary, filepath.Base(path))
}

// Bytes writes b; for WriteFile and Create.
func Bytes(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

// Create makes a file in dir, or empties the one there is, of what write writes. Its content is durable when Create
// returns, its name once dir is synced.
func Create(dir *os.Root, name string, perm fs.FileMode, write func(io.Writer) error) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Sync(), f.Close())
}

// Rename gives a file or directory in dir another name, in the place of a file that has it. It is durable when Rename
// returns.
func Rename(dir *os.Root, from, to string) error {
	if err := dir.Rename(from, to); err != nil {
		return err
	}
	return SyncDir(dir)
}

// SyncDir makes the names in dir durable: what was made, renamed and removed. Where directories cannot be synced it
// does nothing.
func SyncDir(dir *os.Root) error {
	if slices.Contains([]string{"js", "plan9", "wasip1", "windows"}, runtime.GOOS) {
		return nil
	}
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
