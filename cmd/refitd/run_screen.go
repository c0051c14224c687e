package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/refitd/refitd/cmd/refitd/internal/terminal"
	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/statuspage"
)

// runScreen shows the state of a daemon on a terminal: redrawn each second, what happens above it, the log in a file.
type runScreen struct {
	*terminal.Screen           // nil before show
	out              io.Writer // the terminal
	log              *os.File
	events           int64 // applied, at the last drawing
	drawn            time.Time
}

// openRunLog opens the file that the log goes to while the terminal shows the state: in the directory of the states.
func (a *app) openRunLog(dir string) (*os.File, *slog.Logger, error) {
	f, err := terminal.OpenLog(dir)
	if err != nil {
		return nil, nil, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "storage.path", Path: dir}
	}
	return f, a.logTo(f), nil
}

// Write writes whole lines above the state, if there is one yet.
func (r *runScreen) Write(text []byte) (int, error) {
	if r.Screen == nil {
		return r.out.Write(text)
	}
	return r.Screen.Write(text)
}

// continuing says which models continue from an earlier run.
func continuing(s *statuspage.Status) (notes []string) {
	for i := range s.Models {
		if m := &s.Models[i]; m.Applied > 0 {
			notes = append(notes, fmt.Sprintf("continuing: %s has learned from %s", m.Name, report.Count(m.Applied, "event")))
		}
	}
	return notes
}

// watch redraws the state of the daemon until ctx is done, once more then.
func (r *runScreen) watch(ctx context.Context, d *daemon.Daemon) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		s := d.Status()
		_ = r.Draw(r.lines(&s, r.Width())) // nothing depends on its being seen
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Where the screen ends, and what is left out of long texts.
const (
	mostModels = 12
	nameWidth  = 20
)

// lines are the state on a terminal of so many columns: a line for each model and for what keeps it from its work.
// A narrow terminal has fewer columns.
func (r *runScreen) lines(s *statuspage.Status, width int) []string {
	applied, lag := int64(0), int64(0)
	for i := range s.Models {
		applied, lag = applied+s.Models[i].Applied, lag+s.Models[i].Lag
	}
	rate := "-"
	if gone := s.Now.Sub(r.drawn); !r.drawn.IsZero() && gone > 0 {
		rate = strconv.FormatFloat(float64(applied-r.events)/gone.Seconds(), 'f', 0, 64)
	}
	r.events, r.drawn = applied, s.Now
	first := fmt.Sprintf("%.0fs: %s, %s a second, %d to do", s.Now.Sub(s.Started).Seconds(),
		report.Count(applied, "event"), rate, lag)
	lines := append(terminal.Wrap(first, width),
		rowOf(width, "model", "events", "version", "refit", "", "published", "live"))
	for i := range s.Models {
		if i == mostModels {
			lines = append(lines, fmt.Sprintf("… and %d more, on the page", len(s.Models)-mostModels))
			break
		}
		m := &s.Models[i]
		version, age := "none", "-"
		if m.Champion != nil {
			version = strconv.FormatInt(m.Champion.Version, 10)
		}
		if !m.LastRefit.IsZero() {
			age = fmt.Sprintf("%.0fs ago", s.Now.Sub(m.LastRefit).Seconds())
		}
		w := &m.Progressive.Window
		of, published := windowLoss(w.Published)
		ofLive, live := windowLoss(w.Live)
		if of == "" {
			of = ofLive
		}
		lines = append(lines, rowOf(width, m.Name, strconv.FormatInt(m.Applied, 10), version, age, of, published, live))
		for _, reason := range m.NotReady {
			lines = append(lines, terminal.Trouble+reason.Text)
		}
	}
	return lines
}

// rowOf is a line of the table in as many columns as there is room for: without events and refit below 80, without the
// version below 54.
func rowOf(width int, name, events, version, refit, of, published, live string) string {
	room := nameWidth
	rest := fmt.Sprintf(" %10s %8s %8s %-5s %9s %9s", events, version, refit, of, published, live)
	switch {
	case width < 54:
		room, rest = width-20, fmt.Sprintf(" %9s %9s", published, live)
	case width < 80:
		room, rest = width-34, fmt.Sprintf(" %7s %-5s %9s %8s", version, of, published, live)
	}
	runes := []rune(name)
	if len(runes) > room {
		runes = append(runes[:max(0, room-1)], '…')
	}
	return fmt.Sprintf("%-*s%s", room, string(runes), rest)
}

// windowLoss returns the error of numbers or the loss of classes, and which of them it is.
func windowLoss(m *report.Metrics) (name, value string) {
	if m == nil {
		return "", "-"
	}
	name, v := "rmse", m.RMSE
	if v == nil {
		name, v = "loss", m.Loss
	}
	if v == nil || math.IsNaN(float64(*v)) {
		return "", "-"
	}
	return name, strconv.FormatFloat(float64(*v), 'f', 4, 64)
}

// show draws the state of the daemon until stop is called.
func (r *runScreen) show(ctx context.Context, d *daemon.Daemon, dir string) (stop func()) {
	r.Screen = terminal.New(r.out, "http://"+d.Addr()+"/", r.log.Name(), nil)
	s := d.Status()
	for _, note := range continuing(&s) {
		_ = r.Note(0, note+", in "+dir)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.watch(ctx, d)
	}()
	return func() {
		cancel()
		<-done
	}
}
