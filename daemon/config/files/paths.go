package files

import (
	"os"
	"path/filepath"
)

// MaxPathBytes is the longest path that systems take (PATH_MAX of Linux).
const MaxPathBytes = 4096

// Overlap says how the directory a lies to b, both as realPath returns them; it is empty if they are apart.
func Overlap(a, b string) string {
	switch {
	case a == "" || b == "":
		return ""
	case a == b:
		return "is"
	case Within(a, b):
		return "is inside"
	case Within(b, a):
		return "contains"
	}
	return ""
}

func Within(path, dir string) bool {
	relative, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(relative)
}

// maxLinks bounds the symbolic links that are followed one after the other, as systems do.
const maxLinks = 40

// Real returns a path as it is without symbolic links, also where its end does not exist yet; it is empty if it is
// no path.
func Real(path string) string {
	if len(path) > MaxPathBytes {
		return ""
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	for range maxLinks {
		dir, rest := path, ""
		for {
			if found, err := filepath.EvalSymlinks(dir); err == nil {
				return filepath.Join(found, rest)
			}
			if link, err := os.Readlink(dir); err == nil { // to what does not exist yet
				if !filepath.IsAbs(link) {
					link = filepath.Join(filepath.Dir(dir), link)
				}
				path = filepath.Join(link, rest)
				break
			}
			if dir == filepath.Dir(dir) {
				return path
			}
			dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest)
		}
	}
	return path
}
