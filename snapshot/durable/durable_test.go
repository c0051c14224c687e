package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestWriteFile: a file is made or replaced as a whole; what fails leaves the old one, and nothing else in the
// directory.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	check := func(want string) {
		t.Helper()
		b, err := os.ReadFile(path)
		entries, dirErr := os.ReadDir(dir)
		must(t, err, dirErr)
		if string(b) != want || len(entries) != 1 {
			t.Errorf("content %q with %d files, want %q", b, len(entries), want)
		}
	}
	must(t, WriteFile(path, 0o600, Bytes([]byte("old"))))
	check("old")
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	failure := errors.New("no more")
	err := WriteFile(path, 0o600, func(w io.Writer) error {
		_, err := io.WriteString(w, "half")
		check2, _ := os.ReadFile(path)
		if string(check2) != "old" {
			t.Errorf("content %q while it is written", check2)
		}
		return errors.Join(err, failure)
	})
	if !errors.Is(err, failure) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
	check("old")
	must(t, WriteFile(path, 0o600, Bytes(nil)))
	check("")
	if err := WriteFile(filepath.Join(dir, "none", "f"), 0o600, Bytes(nil)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want that there is no such directory", err)
	}
	must(t, os.Remove(path), os.MkdirAll(filepath.Join(path, "full"), 0o700))
	if err := WriteFile(path, 0o600, Bytes(nil)); err == nil {
		t.Error("a directory was replaced")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%d files are left, %v", len(entries), err)
	}
}

// TestNobodyElse: no other code of the product replaces files by hand.
func TestNobodyElse(t *testing.T) {
	must(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, "../durable") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, by := range []string{"os.CreateTemp(", "os.Rename("} {
			if strings.Contains(string(b), by) {
				t.Errorf("%s: %s", path, by)
			}
		}
		return err
	}))
}
