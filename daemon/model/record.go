package model

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/curves"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web"
)

const (
	recordEvery = 2 * time.Second // between two points of the curves
	keepEvery   = time.Minute     // between two times that they are written to the state directory, if anything happened
)

// openCurves returns the curves that are kept in the directory of the state, with the start of this run.
func openCurves(o *Options, state *State) *curves.Ring {
	ring := curves.Open(filepath.Join(state.dir, config.CurvesFile), o.Log)
	text := "started with an empty state"
	if !state.empty {
		text = "started: continuing with the state of an earlier run"
	}
	ring.Mark(time.Now(), curves.Started, 0, text)
	return ring
}

// recordCurves adds points to the curves and keeps them, until ctx is done. They are for people: what goes wrong with them is
// logged and ends nothing.
func (m *Model) recordCurves(ctx context.Context) {
	tick := time.NewTicker(recordEvery)
	defer tick.Stop()
	kept := time.Now()
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
	}
}

// point is how the model does now.
func (m *Model) point(now time.Time) curves.Point {
	n, losses := m.cycle.WindowLosses()
	p := curves.Point{At: now, Events: n, Lag: m.Lag(), Losses: curves.NoLosses(), Recalls: curves.NoRecalls()}
	if of := m.ranking.status(); of != nil {
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
	if m.state.guard.Reason() != "" {
		return
	}
	if err := m.curves.Save(); err != nil {
		m.log.Warn("curves not kept", "error", err)
	}
}

// rejections counts records that are no events since the start, by cause. It is safe for concurrent use.
type rejections struct {
	mu     sync.Mutex
	causes map[event.Cause]int64
}

// add counts those of a batch.
func (r *rejections) add(causes map[event.Cause]int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.causes == nil {
		r.causes = make(map[event.Cause]int64)
	}
	for cause, n := range causes {
		r.causes[cause] += n
	}
}

// list returns them, most frequent first.
func (r *rejections) list() (list []web.Rejections) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for cause, n := range r.causes {
		list = append(list, web.Rejections{Reason: string(cause.Reason), Field: cause.Field, Records: n})
	}
	slices.SortFunc(list, web.Rejections.Compare)
	return list
}

// ageBins is how many bins the histogram of ages has: the first of one event, each of the others twice as wide as the
// one before.
const ageBins = 32

// agesOf returns how many rows are how many events old: bins whose edges are powers of two, up to the last that is not
// empty.
func agesOf(ages []float64) *report.SampleAges {
	out := &report.SampleAges{Rows: make([]int64, ageBins)}
	last := 0
	for _, age := range ages {
		bin := min(max(0, math.Ilogb(max(age, 1))), ageBins-1)
		out.Rows[bin]++
		last = max(last, bin)
	}
	out.Rows = out.Rows[:last+1]
	return out
}
