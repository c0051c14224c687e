package cycle

import (
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/solver"
)

// consumed is the version that consumers have, with the baselines that the champion's refit fitted. It does not change.
type consumed struct {
	model *solver.Model
	vocab *Vocabulary
	means *means
}

// Score is what the version that consumers have, and the baselines of its sample, make of one event: what of its scoring does not depend on
// the events before it.
type Score struct {
	of        *consumed // nil of an event that was not scored
	published outcome
	baseline0 outcome
	baseline1 outcome // of numeric labels
	names     NameCounts
}

// Foresight scores events before they are observed, so that one goroutine can do it beside another that learns from those before them. It
// belongs to one goroutine.
type Foresight struct {
	cycle   *Cycle
	of      *consumed
	scorer  *scorer // with of
	outputs []float64
	targets []float64
}

// NewForesight returns a foresight that scores nothing until Refresh.
func (c *Cycle) NewForesight() *Foresight {
	return &Foresight{cycle: c, outputs: make([]float64, c.target.Outputs()), targets: make([]float64, c.target.Outputs())}
}

// Refresh takes up the version that consumers have now, and reports whether they have one.
func (f *Foresight) Refresh() bool {
	f.cycle.mu.Lock()
	defer f.cycle.mu.Unlock()
	return f.take(f.cycle.published)
}

func (f *Foresight) take(p *consumed) bool {
	if f.of != p {
		f.of, f.scorer = p, nil
		if p != nil {
			f.scorer = newScorer(p.model, p.vocab)
		}
	}
	return p != nil
}

// Score scores an event that is observed later. Observe makes no use of it if consumers have another version by then.
func (f *Foresight) Score(dst *Score, ev *event.Event) {
	*dst = Score{}
	if f.of != nil && f.cycle.target.Encode(f.targets, ev) {
		f.score(dst, ev, f.targets)
	}
}

// score is Score of an event with the given targets.
func (f *Foresight) score(dst *Score, ev *event.Event, targets []float64) {
	*dst = Score{of: f.of}
	f.scorer.outputs(f.outputs, ev)
	t, m := f.cycle.target, f.of.means
	dst.published = t.outcome(ev, f.outputs, targets)
	dst.names = f.scorer.names(ev)
	if m == nil {
		return
	}
	if !t.IsNumeric() {
		dst.baseline0 = outcome{present: true, correct: classOf(t, ev, targets) == m.majority}
		return
	}
	dst.baseline0.number(t.Clip(m.global) - ev.Label)
	item := m.global
	if field := f.cycle.baselineField; field >= 0 {
		if v, ok := m.byName[ev.Categorical[field]]; ok {
			item = v
		}
	}
	dst.baseline1.number(t.Clip(item) - ev.Label)
}
