package configs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// unwanted are idioms that readers from outside stumble over. A sentence says instead what happens: who logs, returns,
// continues or counts what.
var unwanted = regexp.MustCompile(`\b(told|tells?|beside|stands|goes on|go on|as of|there is none|there are none|` +
	`of its own|of their own|meanwhile|by itself|whoever|of now)\b`)

// TestWords: no line of Go or Markdown has a word that is unwanted. Generated files are left out, and release notes.
func TestWords(t *testing.T) {
	t.Parallel()
	code, documents := sourcesUnder(t, "..", ".go"), sourcesUnder(t, "..", ".md")
	if len(code) == 0 || len(documents) == 0 {
		t.Fatal("no files")
	}
	for _, file := range append(code, documents...) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		switch name := filepath.Base(file); {
		case generatedMark.Match(content), name == "words_test.go", name == "CHANGELOG.md", name == "THIRD_PARTY.md":
			continue
		}
		number := 0
		for line := range bytes.Lines(content) {
			number++
			if word := unwanted.Find(line); word != nil {
				t.Errorf("%s:%d: %q: say what happens", strings.TrimPrefix(filepath.ToSlash(file), "../"), number, word)
			}
		}
	}
}
