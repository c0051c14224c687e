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

// TestWords: no line of Go has a word that is unwanted. Generated files are left out.
func TestWords(t *testing.T) {
	t.Parallel()
	files := sourcesUnder(t, "..", ".go")
	if len(files) == 0 {
		t.Fatal("no files")
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if generatedMark.Match(content) || filepath.Base(file) == "words_test.go" {
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
