package cycle

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
)

// consumed is the version that consumers have, with the baselines that the champion's refit fitted, and the two that it is one of or could have been:
// the last promoted refit and the newest update, which has no model before there is one. It does not change.
type consumed struct {
	frozen
	means  *means
	refit  frozen
	update frozen
	limit  float64 // of outputs; 0 for none

	forms [numForms]frozen // the newest update in every form, of which update is one; no model without
}

// Score is what the version that consumers have, and the baselines of its sample, make of one event: what of its scoring does not depend on
// the events before it.
type Score struct {
	of        *consumed // nil of an event that was not scored
	published outcome
	baseline0 outcome
	baseline1 outcome           // of numeric labels
	compared  bool              // the two that follow are there
	update    float64           // loss by which predictors are compared, of the newest update
	refit     float64           // of the last promoted refit
	forms     [numForms]float64 // of the newest update in every form, NaN without
	names     NameCounts
	slice     slice
	outputs   []float64 // m
}

// Prescorer scores events before they are observed, so that one goroutine can do it beside another that learns from those before them. It
// belongs to one goroutine.
type Prescorer struct {
	cycle   *Cycle
	of      *consumed
	scorer  *scorer // with of
	update  *scorer // these are nil where it is scorer
	refit   *scorer
	forms   [numForms]*scorer
	outputs []float64
	targets []float64
	value   []float64 // of a baseline
}

// NewPrescorer returns a prescorer that scores nothing until Refresh.
func (c *Cycle) NewPrescorer() *Prescorer {
	return &Prescorer{cycle: c, outputs: make([]float64, c.target.Outputs()), targets: make([]float64, c.target.Outputs()), value: make([]float64, 1)}
}

// Refresh takes up the version that consumers have now, and reports whether they have one.
func (p *Prescorer) Refresh() bool {
	p.cycle.mu.Lock()
	defer p.cycle.mu.Unlock()
	return p.take(p.cycle.published)
}

func (p *Prescorer) take(version *consumed) bool {
	if p.of != version {
		p.of, p.scorer, p.update, p.refit, p.forms = version, nil, nil, nil, [numForms]*scorer{}
		if version != nil {
			p.scorer = version.scorerOf(&version.frozen)
			p.update, p.refit = version.rival(&version.update), version.rival(&version.refit)
			for f := range p.forms {
				p.forms[f] = version.rival(&version.forms[f])
			}
		}
	}
	return version != nil
}

// Score scores an event that is observed later. Observe makes no use of it if consumers have another version by then.
func (p *Prescorer) Score(dst *Score, ev *event.Event) {
	*dst = Score{outputs: dst.outputs[:0]}
	if p.of != nil && p.cycle.target.Encode(p.targets, ev) {
		p.score(dst, ev, p.targets)
	}
}

// score is Score of an event with the given targets.
func (p *Prescorer) score(dst *Score, ev *event.Event, targets []float64) {
	p.scorer.outputs(p.outputs, ev)
	*dst = Score{of: p.of, outputs: append(dst.outputs[:0], p.outputs...)}
	t, m := p.cycle.target, p.of.means
	dst.published = t.outcome(ev, p.outputs, targets)
	dst.names, dst.slice = p.scorer.names(ev), p.slice(ev)
	if dst.compared = p.of.update.model != nil; dst.compared {
		dst.update, dst.refit = p.judged(p.update, dst, ev, targets), p.judged(p.refit, dst, ev, targets)
		for f := range dst.forms {
			switch of := p.of.forms[f].model; of {
			case nil:
				dst.forms[f] = math.NaN()
			case p.of.update.model:
				dst.forms[f] = dst.update
			default:
				dst.forms[f] = p.judged(p.forms[f], dst, ev, targets)
			}
		}
	}
	if m == nil {
		return
	}
	if !t.IsNumeric() {
		dst.baseline0 = m.outcome(t, ev, targets)
		return
	}
	dst.baseline0 = t.numberOutcome(ev, m.global, p.value, targets)
	item := m.global
	if field := p.cycle.baselineField; field >= 0 {
		if v, ok := m.byName[ev.Categorical[field]]; ok {
			item = v
		}
	}
	dst.baseline1 = t.numberOutcome(ev, item, p.value, targets)
}

// slice returns whether the version knows the names of the event in the fields of entities.
func (p *Prescorer) slice(ev *event.Event) slice {
	if len(p.cycle.entityFields) == 0 {
		return unsliced
	}
	for _, f := range p.cycle.entityFields {
		if name := ev.Categorical[f]; name != "" && !p.of.knows(f, name) {
			return newEntity
		}
	}
	return knownEntity
}

// scorerOf returns a scorer of a model as readers of versions on this refit would score with it.
func (v *consumed) scorerOf(m *frozen) *scorer {
	s := newFrozenScorer(m)
	s.limit = v.limit
	return s
}

// rival returns a scorer of a model that is not what consumers have, else nil.
func (v *consumed) rival(m *frozen) *scorer {
	if m.model == nil || m.model == v.model {
		return nil
	}
	return v.scorerOf(m)
}

// judged is the loss of an event by which predictors are compared, of a scorer of what consumers could have, nil for what they have.
func (p *Prescorer) judged(s *scorer, had *Score, ev *event.Event, targets []float64) float64 {
	o := had.published
	if s != nil {
		s.outputs(p.outputs, ev)
		o = p.cycle.target.outcome(ev, p.outputs, targets)
	}
	if p.cycle.target.IsNumeric() {
		return o.square
	}
	return o.loss
}
