package statuspage

import (
	"strings"
	"testing"
)

// TestEveryFileIsServed: each file of static is the page, or a part of what a browser asks for after it.
func TestEveryFileIsServed(t *testing.T) {
	files, err := static.ReadDir("static")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		text, err := static.ReadFile("static/" + f.Name())
		served := statusHTML + string(StyleSheet.Content) + string(Script.Content) + string(Icon.Content)
		if err != nil || len(text) == 0 || !strings.Contains(served, string(text)) {
			t.Errorf("%s is in no list of assets.go: %v", f.Name(), err)
		}
	}
}
