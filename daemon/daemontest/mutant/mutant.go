// Package mutant lays edits over the sources of this module for a second build of a test: ways to get it wrong, which
// the test has to notice. The code itself knows nothing of them. The package imports nothing but the standard library,
// so that the tests of every package may import it.
package mutant

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Variable is the environment variable that says which mutant a second build is, by its index; without it, it is none.
const Variable = "REFITD_MUTANT"

// An Edit is a way to get it wrong: Old, which File has once, becomes New, and MUTANT in it whether this mutant is the
// one. The zero value edits nothing.
type Edit struct{ File, Old, New string }

// Overlay writes the sources below root with all the edits, and returns the file for the flag -overlay of go build. It
// fails the test where an edit does not fit.
func Overlay(t *testing.T, root string, edits []Edit) string {
	t.Helper()
	dir, replace, edited := t.TempDir(), map[string]string{}, map[string]string{}
	for i, e := range edits {
		if e.File == "" {
			continue
		}
		text, ok := edited[e.File]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			t.Fatalf("%d times in %s: %s", n, e.File, e.Old)
		}
		edited[e.File] = strings.Replace(text, e.Old,
			strings.ReplaceAll(e.New, "MUTANT", fmt.Sprintf("(mutated == %q)", fmt.Sprint(i))), 1)
	}
	lay := func(file, text string) {
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, file)] = to
	}
	clause := regexp.MustCompile(`(?m)^package (\w+)$`)
	for file, text := range edited {
		lay(file, text)
		lay(
			filepath.Join(filepath.Dir(file), "mutated.go"),
			fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar mutated = os.Getenv(%q)\n",
				clause.FindStringSubmatch(text)[1], Variable),
		)
	}
	text, err := json.Marshal(struct{ Replace map[string]string }{replace})
	name := filepath.Join(dir, "overlay.json")
	if err == nil {
		err = os.WriteFile(name, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}
