package report

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestErrorsNameNoPackage: what people see of an error, as text and as JSON, has no name of a package before it.
func TestErrorsNameNoPackage(t *testing.T) {
	for text, want := range map[string]string{
		"offline: file.csv: no such file":                                  "file.csv: no such file",
		"sketch: open state: offline: damaged":                             "open state: damaged",
		"offline: snapshot: open m alias champion: bad":                    "open m alias champion: bad",
		"a.yaml:3:4: kafka.group_id: missing":                              "a.yaml:3:4: kafka.group_id: missing",
		"the shard: 3 is not there":                                        "the shard: 3 is not there",
		"begin t/0 at 0: model: state is empty":                            "begin t/0 at 0: state is empty",
		"config: open a.yaml: no such file":                                "open a.yaml: no such file",
		errors.Join(errors.New("web: a"), errors.New("sketch: b")).Error(): "a\nb",
	} {
		line := ErrorOf(Exit(ExitState, fmt.Errorf("%s", text)))
		var out bytes.Buffer
		if err := line.WriteText(&out); err != nil || line.Message != want ||
			!strings.HasSuffix(out.String(), want+"\n") {
			t.Errorf("%q: %q, %q, want %q", text, line.Message, &out, want)
		}
	}
}

// TestEveryPrefixIsKnown: whatever package an error names before its text, nobody gets to see the name.
func TestEveryPrefixIsKnown(t *testing.T) {
	prefix := regexp.MustCompile(`(?:Errorf|errors\.New)\(\s*"([a-z]+): `)
	root, known := filepath.Join("..", ".."), 0
	for _, tree := range []string{"cmd/refitd", "consumer", "daemon", "sketch", "snapshot", "solver"} {
		err := filepath.WalkDir(filepath.Join(root, tree), func(path string, e fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			rooms := strings.Split(filepath.ToSlash(filepath.Dir(path)), "/")
			for _, m := range prefix.FindAllStringSubmatch(string(text), -1) {
				if !slices.Contains(rooms, m[1]) {
					continue
				}
				if known++; WithoutPackages(m[1]+": text") != "text" {
					t.Errorf("%s: an error is shown with the name of its package, %s", path, m[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if known < 100 {
		t.Errorf("%d errors that name a package: the test does not see them", known)
	}
}
