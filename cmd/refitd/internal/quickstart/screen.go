package quickstart

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/refitd/refitd/cmd/refitd/internal/terminal"
	"github.com/refitd/refitd/daemon/report"
)

// display shows ticks and notes to people.
type display interface {
	Tick(k *report.Tick) error
	Note(elapsed time.Duration, text string) error
}

// Screen shows the newest tick at the end of a terminal, redrawn in place, and notes above it.
type Screen struct{ *terminal.Screen }

// NewScreen returns a screen that names the page and the file of the log, as wide as terminal.New says.
func NewScreen(w io.Writer, page, log string, width func() int) *Screen {
	return &Screen{terminal.New(w, page, log, width)}
}

// Tick draws the newest state in the place of the one before.
func (s *Screen) Tick(k *report.Tick) error { return s.Draw(linesOf(k, s.Width())) }

// wideWidth is the width from which the losses share one line, and lossWidth the width of each of them there.
const (
	wideWidth = 76
	lossWidth = 13
)

// linesOf is the state at a tick, for a terminal of so many columns.
func linesOf(k *report.Tick, width int) []string {
	version := "no version yet"
	if k.Version != nil {
		version = fmt.Sprintf("version %d (%s)", *k.Version, k.Form)
	}
	if k.SinceRefitSeconds != nil {
		version += fmt.Sprintf(", last refit %s ago", seconds(float64(*k.SinceRefitSeconds)))
	}
	w, b := &k.Progressive.Window, &k.Progressive.Baselines
	first := fmt.Sprintf("%s: %s, %s a second, %d to do", seconds(float64(k.ElapsedSeconds)),
		report.Count(k.Events, "event"), number(float64(k.EventsPerSecond), 'f', 0), k.Lag)
	names := []string{"published", "live", "sgd_bias", "item_mean", "global_mean"}
	losses := []string{loss(w.Published), loss(w.Live), loss(b.SGDBias), loss(b.ItemMean), loss(b.GlobalMean)}
	if width >= wideWidth {
		return []string{first, version, cells("rmse of", names), cells("the window", losses)}
	}
	lines := append(terminal.Wrap(first, width), terminal.Wrap(version, width)...)
	lines = append(lines, "rmse of the window:")
	for i, name := range names {
		lines = append(lines, fmt.Sprintf("  %-11s %s", name, losses[i]))
	}
	return lines
}

func cells(head string, texts []string) string {
	line := fmt.Sprintf("%-*s", lossWidth, head)
	for _, text := range texts {
		line += fmt.Sprintf("%-*s", lossWidth, text)
	}
	return strings.TrimRight(line, " ")
}
