package configs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestLinks: each link of a document to a file of the repository, or to a place in one, leads there.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^()\s]+)\)`)
	anchors := map[string][]string{}
	links := 0
	for _, file := range sourcesUnder(t, "..", ".md") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(prose(string(content)), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			links++
			path, place, _ := strings.Cut(m[1], "#")
			target := file
			if path != "" {
				target = filepath.Join(filepath.Dir(file), path)
			}
			info, err := os.Stat(target)
			if err != nil {
				t.Errorf("%s links to %s, which there is not", file, m[1])
				continue
			}
			if place == "" || info.IsDir() {
				continue
			}
			if anchors[target] == nil {
				b, err := os.ReadFile(target)
				if err != nil {
					t.Fatal(err)
				}
				anchors[target] = anchorsOf(string(b))
			}
			if !slices.Contains(anchors[target], place) {
				t.Errorf("%s links to %s, and there is no such heading", file, m[1])
			}
		}
	}
	if links == 0 {
		t.Error("no document has a link")
	}
}

// prose is a Markdown text without its blocks and spans of code.
func prose(text string) string {
	var b strings.Builder
	fence := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "```"):
			fence = !fence
		case !fence && !strings.HasPrefix(line, "    "):
			b.WriteString(line)
		}
	}
	return regexp.MustCompile("`[^`\n]*`").ReplaceAllString(b.String(), "code")
}

// anchorsOf returns the places of a Markdown text that a link can name: its headings, and ids. Of equal headings the
// later ones are numbered.
func anchorsOf(text string) (list []string) {
	for _, m := range regexp.MustCompile(`<a id="([^"]+)"></a>`).FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	fence := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fence = !fence
		}
		heading := strings.TrimLeft(line, "#")
		if fence || heading == line || !strings.HasPrefix(heading, " ") {
			continue
		}
		name := anchor(strings.TrimSpace(heading))
		first := name
		for n := 1; slices.Contains(list, name); n++ {
			name = first + "-" + strconv.Itoa(n)
		}
		list = append(list, name)
	}
	return list
}
