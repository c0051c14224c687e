package cycle

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// BatchScorer scores events before they are observed, while another goroutine learns from those before them.
// Only one goroutine may use it.
type BatchScorer struct {
	cycle   *Cycle          // for its target and fields, which do not change, and the published pointer
	of      *updates.Served // what the scorers are of; a new pointer makes new ones
	scorer  *fitted.Scorer  // with of
	update  *fitted.Scorer  // these are nil where it is scorer
	refit   *fitted.Scorer
	forms   [mixture.NumForms]*fitted.Scorer
	outputs []float64 // scratch, as what follows
	targets []float64
	value   []float64 // of a baseline
}

// NewBatchScorer returns a prescorer that scores nothing until Refresh.
func (c *Cycle) NewBatchScorer() *BatchScorer {
	return &BatchScorer{
		cycle:   c,
		outputs: make([]float64, c.target.Outputs()),
		targets: make([]float64, c.target.Outputs()),
		value:   make([]float64, 1),
	}
}

// Refresh takes up the version that consumers have now, and reports whether they have one.
// It takes no lock: it does not wait for learning.
func (p *BatchScorer) Refresh() bool { return p.take(p.cycle.publisher.published.Load()) }

func (p *BatchScorer) take(version *updates.Served) bool {
	if p.of != version {
		p.of, p.scorer, p.update, p.refit, p.forms = version, nil, nil, nil, [mixture.NumForms]*fitted.Scorer{}
		if version != nil {
			p.scorer = scorerOf(version, &version.FixedModel)
			p.update, p.refit = incumbent(version, &version.Update), incumbent(version, &version.Refit)
			for f := range p.forms {
				p.forms[f] = incumbent(version, &version.Forms[f])
			}
		}
	}
	return version != nil
}

// Score scores an event that is observed later. Observe makes no use of it if consumers have another version by then.
func (p *BatchScorer) Score(dst *updates.Score, ev *event.Event) {
	*dst = updates.Score{Outputs: dst.Outputs[:0], RefitOutputs: dst.RefitOutputs[:0], Candidates: dst.Candidates[:0]}
	if p.of != nil && p.cycle.target.Encode(p.targets, ev) {
		p.score(dst, ev, p.targets)
	}
}

// score is Score of an event with the given targets.
func (p *BatchScorer) score(dst *updates.Score, ev *event.Event, targets []float64) {
	p.scorer.Outputs(p.outputs, ev)
	// Of says what was scored: Observe drops a score of something that consumers do not have any more.
	*dst = updates.Score{Of: p.of, Outputs: append(dst.Outputs[:0], p.outputs...), RefitOutputs: dst.RefitOutputs[:0],
		Candidates: dst.Candidates[:0]}
	t, m := p.cycle.target, p.of.Means
	dst.Published, dst.Chance = evaluate.Outcome(t, ev, p.outputs, targets), -1
	if t.Task == event.Binary && evaluate.HasProbabilities(t) {
		dst.Chance = 1 / (1 + math.Exp(-p.outputs[0]))
	}
	dst.Names, dst.Slice = p.scorer.Names(ev), p.slice(ev)
	if dst.Compared = p.of.Update.Model != nil; dst.Compared {
		dst.Refit = p.judged(p.refit, dst, ev, targets)
		if p.refit != nil {
			dst.RefitOutputs = append(dst.RefitOutputs, p.outputs...)
		}
		dst.Update = p.judged(p.update, dst, ev, targets)
		for f := range dst.Forms {
			switch of := p.of.Forms[f].Model; of {
			case nil:
				dst.Forms[f] = math.NaN()
				for range p.outputs {
					dst.Candidates = append(dst.Candidates, math.NaN())
				}
			case p.of.Update.Model:
				dst.Forms[f] = dst.Update
				dst.Candidates = append(dst.Candidates, dst.Candidates[len(p.outputs):2*len(p.outputs)]...)
			default:
				dst.Forms[f] = p.judged(p.forms[f], dst, ev, targets)
			}
		}
	}
	if m == nil {
		return
	}
	if !t.IsNumeric() {
		dst.Baseline0 = m.Outcome(t, ev, targets)
		return
	}
	dst.Baseline0 = evaluate.NumberOutcome(t, ev, m.Global, p.value, targets)
	item := m.Global
	if field := p.cycle.baselineField; field >= 0 {
		if v, ok := m.ByName[ev.Categorical[field]]; ok {
			item = v
		}
	}
	dst.Baseline1 = evaluate.NumberOutcome(t, ev, item, p.value, targets)
}

// slice returns whether the version knows the names of the event in the fields of entities.
func (p *BatchScorer) slice(ev *event.Event) evaluate.Slice {
	if len(p.cycle.entityFields) == 0 {
		return evaluate.Unsliced
	}
	for _, f := range p.cycle.entityFields {
		if name := ev.Categorical[f]; name != "" && !p.of.Knows(f, name) {
			return evaluate.NewEntity
		}
	}
	return evaluate.KnownEntity
}

// scorerOf returns a scorer of a model as readers of versions on this refit would score with it.
func scorerOf(v *updates.Served, m *fitted.FixedModel) *fitted.Scorer {
	s := fitted.NewFrozenScorer(m)
	s.Limit = v.Limit
	return s
}

// incumbent returns a scorer of a model that is not what consumers have, else nil.
func incumbent(v *updates.Served, m *fitted.FixedModel) *fitted.Scorer {
	if m.Model == nil || m.Model == v.Model {
		return nil
	}
	return scorerOf(v, m)
}

// judged is the loss of an event by which predictors are compared, of a scorer of what consumers could have, nil for
// what they have.
func (p *BatchScorer) judged(s *fitted.Scorer, had *updates.Score, ev *event.Event, targets []float64) float64 {
	o := had.Published
	if s == nil {
		had.Candidates = append(had.Candidates, had.Outputs...)
	} else {
		s.Outputs(p.outputs, ev)
		o = evaluate.Outcome(p.cycle.target, ev, p.outputs, targets)
		had.Candidates = append(had.Candidates, p.outputs...)
	}
	if p.cycle.target.IsNumeric() {
		return o.Square
	}
	return o.Loss
}
