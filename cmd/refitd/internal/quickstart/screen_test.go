package quickstart

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/refitd/refitd/cmd/refitd/internal/terminal"
	"github.com/refitd/refitd/daemon/report"
)

// shown is what a terminal shows after a text, without the lines that were gone up over and cleared.
func shown(t *testing.T, text string) (lines []string) {
	t.Helper()
	for part := range strings.SplitSeq(text, "\x1b[") {
		if up := 0; len(lines) > 0 && strings.HasSuffix(part, "A\r") {
			if _, err := fmt.Sscanf(part, "%dA", &up); err != nil || up >= len(lines) {
				t.Fatalf("%q goes up over %d of %d lines", part, up, len(lines))
			}
			lines = append(lines[:len(lines)-1-up], "") // the cursor is on an empty line
			continue
		}
		part = strings.TrimPrefix(part, "J")
		added := strings.Split(part, "\n")
		if len(lines) > 0 {
			lines[len(lines)-1] += added[0]
			added = added[1:]
		}
		lines = append(lines, added...)
	}
	return lines
}

// The state is shown once, at the end, whatever ticks and notes there were. The notes stay in their order, and no
// line wraps, however narrow the terminal is.
func TestScreenIsRedrawnInPlace(t *testing.T) {
	for _, width := range []int{200, terminal.Columns, 60, 40} {
		t.Run(fmt.Sprint(width), func(t *testing.T) { redrawn(t, width) })
	}
}

func redrawn(t *testing.T, width int) {
	var out strings.Builder
	s := NewScreen(&out, "http://127.0.0.1:8080/", "/tmp/"+strings.Repeat("long/", 30)+"refitd.log",
		func() int { return width })
	version := int64(7)
	for i := range 5 {
		k := &report.Tick{
			ElapsedSeconds:    report.Number(i),
			Events:            int64(1_000_000 * i),
			EventsPerSecond:   2000,
			Version:           &version,
			Form:              "variational",
			SinceRefitSeconds: report.Some(123),
		}
		if err := s.Tick(k); err != nil {
			t.Fatal(err)
		}
		if err := s.Note(time.Duration(i)*time.Second, fmt.Sprintf("note %d %s", i, strings.Repeat("word ",
			40))); err != nil {
			t.Fatal(err)
		}
	}
	lines := shown(t, out.String())
	for _, line := range lines {
		if utf8.RuneCountInString(line) > min(width, terminal.Columns) {
			t.Errorf("%d characters: %s", utf8.RuneCountInString(line), line)
		}
	}
	text := strings.Join(lines, "\n")
	if width <= 40 { // the line of the state is two
		text = strings.ReplaceAll(text, ",\n", ", ")
	}
	for what, n := range map[string]int{"page http://127.0.0.1:8080/": 1, "rmse of": 1,
		"note ": 5, "4s: 4000000 events, 2000 a second": 1, "0s: 0 events": 0, "refitd.log": 1} {
		if got := strings.Count(text, what); got != n {
			t.Errorf("%q is there %d times, want %d:\n%s", what, got, n, text)
		}
	}
	at := func(what string) int {
		return slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, what) })
	}
	if !(at("note 0") < at("note 4") && at("note 4") < at("page http")) {
		t.Errorf("out of order:\n%s", text)
	}
}
