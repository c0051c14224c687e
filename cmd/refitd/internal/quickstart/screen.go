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

// NewScreen returns a screen that names the page and the file of the log.
func NewScreen(w io.Writer, page, log string) *Screen { return &Screen{terminal.New(w, page, log)} }

// Tick draws the newest state in the place of the one before.
func (s *Screen) Tick(k *report.Tick) error { return s.Draw(linesOf(k)) }

// linesOf is the state as of a tick.
func linesOf(k *report.Tick) []string {
	version := "no version yet"
	if k.Version != nil {
		version = fmt.Sprintf("version %d (%s)", *k.Version, k.Form)
	}
	if k.SinceRefitSeconds != nil {
		version += fmt.Sprintf(", last refit %s ago", seconds(float64(*k.SinceRefitSeconds)))
	}
	w, b := &k.Progressive.Window, &k.Progressive.Baselines
	cells := func(texts ...string) string {
		line := ""
		for _, text := range texts {
			line += fmt.Sprintf("%-13s", text)
		}
		return strings.TrimRight(line, " ")
	}
	return []string{
		fmt.Sprintf("%s: %d events, %s a second, %d to do", seconds(float64(k.ElapsedSeconds)), k.Events, number(float64(k.EventsPerSecond), 'f', 0), k.Lag),
		version,
		cells("rmse of", "published", "live", "sgd_bias", "item_mean", "global_mean"),
		cells("the window", loss(w.Published), loss(w.Live), loss(b.SGDBias), loss(b.ItemMean), loss(b.GlobalMean)),
	}
}
