package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/refitd/refitd/cmd/refitd/internal/terminal"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/statuspage"
)

// TestRunScreen: each model has a line of 80 columns at most, what keeps one from its work is below it, and there are
// never more lines than a terminal has.
func TestRunScreen(t *testing.T) {
	s := statuspage.Status{Started: time.Unix(1000, 0), Now: time.Unix(1010, 0)}
	for i := range 30 {
		m := statuspage.ModelStatus{
			Name:    fmt.Sprintf("model-%02d-%s", i, strings.Repeat("long", i)),
			Applied: 1_000_000_000,
			Lag:     7,
		}
		if i > 0 {
			m.Champion = &report.Version{Version: 123_456}
			m.LastRefit = time.Unix(990, 0)
			m.Progressive.Window = report.Scores{
				Published: &report.Metrics{Loss: report.Some(0.25)},
				Live:      &report.Metrics{RMSE: report.Some(0.5)},
			}
		}
		s.Models = append(s.Models, m)
	}
	s.Models[2].NotReady = []statuspage.Reason{{Text: "partition 3 of t halted at 17"}}
	r := &runScreen{}
	r.lines(&s, terminal.Columns)
	s.Now = s.Now.Add(2 * time.Second)
	s.Models[0].Applied += 500
	lines := r.lines(&s, terminal.Columns)
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > terminal.Columns {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	for _, width := range []int{60, 40} {
		narrow := r.lines(&s, width)
		if text := strings.Join(narrow, "\n"); !strings.Contains(text, "model-01-long") ||
			!strings.Contains(text, "0.2500    0.5000") && width == 40 {
			t.Errorf("%d columns lack a name or its losses:\n%s", width, text)
		}
		for _, line := range narrow {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("%d characters on %d columns: %s", n, width, line)
			}
		}
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{"12s: 30000000500 events, 250 a second, 210 to do",
		"model-00-            1000000500     none        -",
		"123456  22s ago loss     0.2500    0.5000", "  ! partition 3 of t halted at 17", "… and 18 more"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if len(lines) > 18 {
		t.Errorf("%d lines", len(lines))
	}
	if notes := continuing(&s); len(notes) != 30 ||
		notes[0] != "continuing: model-00- has learned from 1000000500 events" {
		t.Errorf("%q", notes[:1])
	}
	s.Models[0].Applied = 0
	if notes := continuing(&s); len(notes) != 29 {
		t.Error("a new model continues")
	}
}
