package model

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/curves"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/model/state"
	"github.com/refitd/refitd/snapshot/durable"
)

const (
	recordEvery = 2 * time.Second // between two points of the curves
	keepEvery   = time.Minute     // between two times that they are written to the state directory, if anything happened
)

// openCurves returns the curves that are kept in the directory of the state, with the start of this run.
func openCurves(o *part.Options, state *state.State) *curves.Ring {
	ring := curves.Open(filepath.Join(state.Dir, config.CurvesFile), o.Log)
	text := "started with an empty state"
	if !state.Empty {
		text = "started: continuing with the state of an earlier run"
	}
	ring.Mark(time.Now(), curves.Started, 0, text)
	return ring
}

// recordCurves adds points to the curves and keeps them, until ctx is done. They are for people: what goes wrong with
// them is logged and ends nothing.
func (m *Model) recordCurves(ctx context.Context) {
	tick := time.NewTicker(recordEvery)
	defer tick.Stop()
	kept, keptCopies := time.Now(), time.Now()
	var copies lateCopies
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		m.curves.Add(m.point(time.Now()))
		if ctx.Err() != nil || time.Since(kept) >= keepEvery && m.curves.Moved() {
			m.keepCurves()
			kept = time.Now()
		}
		if ctx.Err() == nil && time.Since(keptCopies) >= keepEvery {
			copies.take(m.cycle.KeepCopies(), m.keepCopies)
			keptCopies = time.Now()
		}
	}
}

// point is how the model does now.
func (m *Model) point(now time.Time) curves.Point {
	n, metric, losses := m.cycle.WindowLosses()
	p := curves.Point{At: now, Events: n, Lag: m.Lag(), Metric: metric, Losses: curves.NoLosses(),
		Recalls: curves.NoRecalls()}
	if of := m.ranking.Status(); of != nil {
		p.Recalls[0], p.Recalls[1] = float32(*of.Published.Recall10), float32(*of.Popularity.Recall10)
	}
	for i, role := range curves.Roles {
		if loss, ok := losses[role]; ok && !math.IsInf(loss, 0) {
			p.Losses[i] = float32(loss)
		}
	}
	return p
}

// keepCurves writes the curves, unless the disk's reserve is not for them.
func (m *Model) keepCurves() {
	if m.state.Guard.Reason() != "" {
		return
	}
	if err := m.curves.Save(); err != nil {
		m.log.Warn("curves not kept", "error", err)
	}
}

// restoreCopies takes up which events an earlier run has had. Where it cannot be read copies of them are new events.
func restoreCopies(state *state.State, learning *cycle.Cycle, log *slog.Logger) {
	if state.Empty {
		return // it was made anew: all its events are
	}
	path := filepath.Join(state.Dir, config.CopiesFile)
	b, err := os.ReadFile(path)
	if err == nil {
		err = learning.RestoreCopies(b)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("events of earlier runs cannot be read", "note", "copies of them are learned", "path", path, "error", err)
	}
}

// lateCopies are written as they were a minute ago, unless they were written before: what came by then is stored by
// now.
type lateCopies struct{ last, written []byte }

func (c *lateCopies) take(now []byte, write func([]byte) bool) {
	if c.last != nil && !bytes.Equal(c.last, c.written) && write(c.last) {
		c.written = c.last
	}
	c.last = now
}

// keepCopies writes which events there were, unless the disk's reserve is not for them, and reports whether it did.
func (m *Model) keepCopies(b []byte) bool {
	if b == nil || m.state.Guard.Reason() != "" {
		return false
	}
	err := durable.WriteFile(filepath.Join(m.state.Dir, config.CopiesFile), 0o600, durable.Bytes(b))
	if err != nil {
		m.log.Warn("events that came not kept", "note", "a restart learns copies of them", "error", err)
	}
	return err == nil
}
