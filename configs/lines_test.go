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

// maxLineRunes are the characters of a line of Go or Markdown at most.
var maxLineRunes = map[string]int{".go": 120, ".md": 160}

var generatedMark = regexp.MustCompile(`(?m)^(//|<!--) Code generated `)

// unbreakable are the lines of Go that cannot be broken: with a back-quoted string, as tags of fields are, of one,
// or of a
// table in a comment.
var unbreakable = regexp.MustCompile("`|^\\s*//(\t|  )|https?://")

// TestLinesAreShort: no line of Go or Markdown is longer than maxLineRunes. Generated files, testdata, what the
// repository ignores, lines of Go that are unbreakable and the rows of Markdown tables are left out.
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
				number, inString := 0, false // within a back-quoted string of several lines
				for line := range bytes.Lines(content) {
					number++
					line = bytes.TrimRight(line, "\r\n")
					if kind.ext == ".md" && bytes.HasPrefix(line, []byte("|")) {
						continue
					}
					quotes := bytes.Count(line, []byte("`"))
					if inString = kind.ext == ".go" && inString != (quotes%2 == 1); inString || kind.ext == ".go" &&
						unbreakable.Match(line) {
						continue
					}
					if n := utf8.RuneCount(line); n > maxLineRunes[kind.ext] {
						t.Errorf("%s:%d: %d characters, at most %d", strings.TrimPrefix(filepath.ToSlash(file), "../"),
							number, n, maxLineRunes[kind.ext])
					}
				}
			}
		})
	}
}

// sourcesUnder returns the files with an extension below root, but for those of testdata and of directories that
// .gitignore names.
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
