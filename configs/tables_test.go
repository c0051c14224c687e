package configs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTables: each row of a table has as many cells as its head, so that readers of Markdown show it as a row.
func TestTables(t *testing.T) {
	rule := regexp.MustCompile(`^\|(\s*:?-+:?\s*\|)+$`)
	tables := 0
	for _, file := range sourcesUnder(t, "..", ".md") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		fence, cells, before := false, 0, ""
		for i, line := range strings.Split(string(content), "\n") {
			if strings.HasPrefix(line, "```") {
				fence = !fence
			}
			switch {
			case fence:
			case rule.MatchString(line):
				tables++
				cells = cellsOf(line)
				if n := cellsOf(before); n != cells {
					t.Errorf("%s:%d: the head of the table has %d cells, its rule %d", file, i, n, cells)
				}
			case cells == 0 && strings.HasPrefix(before, "|") && line == "":
				t.Errorf("%s:%d: a row without a head", file, i)
			case cells > 0 && line != "":
				if n := cellsOf(line); n != cells {
					t.Errorf("%s:%d: the row has %d cells, its head %d", file, i+1, n, cells)
				}
			default:
				cells = 0
			}
			before = line
		}
	}
	if tables == 0 {
		t.Error("no document has a table")
	}
}

// cellsOf counts the cells of a row of a table, 0 of another line. Bars that are escaped do not part cells.
func cellsOf(line string) int {
	line = strings.ReplaceAll(strings.TrimSpace(line), `\|`, "")
	if len(line) < 2 || !strings.HasPrefix(line, "|") || !strings.HasSuffix(line, "|") {
		return 0
	}
	return strings.Count(line, "|") - 1
}
