package configs_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const maxLineRunes = 160 // two files side by side on a wide screen

var generatedMark = regexp.MustCompile(`(?m)^(//|<!--) Code generated `)

// TestLinesAreShort: no line of Go or Markdown is longer than maxLineRunes. Generated files, testdata, what the repository ignores and the
// rows of Markdown tables are left out.
func TestLinesAreShort(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct{ name, ext string }{{"go", ".go"}, {"markdown", ".md"}} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			files := sourcesUnder(t, "..", kind.ext)
			if len(files) == 0 {
				t.Fatal("no files")
			}
			for _, file := range files {
				content, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if generatedMark.Match(content) {
					continue
				}
				number := 0
				for line := range bytes.Lines(content) {
					number++
					line = bytes.TrimRight(line, "\r\n")
					if kind.ext == ".md" && bytes.HasPrefix(line, []byte("|")) {
						continue
					}
					if n := utf8.RuneCount(line); n > maxLineRunes {
						t.Errorf("%s:%d: %d characters, at most %d", strings.TrimPrefix(filepath.ToSlash(file), "../"), number, n, maxLineRunes)
					}
				}
			}
		})
	}
}

// sourcesUnder returns the files with an extension below root, but for those of testdata and of directories that .gitignore names.
func sourcesUnder(t *testing.T, root, ext string) []string {
	t.Helper()
	ignored, err := os.ReadFile(filepath.Join(root, ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	skipped := []string{filepath.Join(root, ".git")}
	for line := range strings.Lines(string(ignored)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "/") && strings.HasSuffix(line, "/") {
			skipped = append(skipped, filepath.Join(root, line))
		}
	}
	var files []string
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || slices.Contains(skipped, path)):
			return filepath.SkipDir
		case entry.Type().IsRegular() && filepath.Ext(path) == ext:
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
