package cycle

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
)

// PredictorLoss is what one predictor made of a stretch of events, each predicted before it was learned from.
type PredictorLoss struct {
	Name     string  // live, published, a part of what is live, or a baseline
	Baseline bool    // it needs no model
	N        int64   // events that it had a prediction for
	Loss     float64 // mean squared error of numbers, else mean loss; NaN without events, and where a class alone is predicted
	Accuracy float64 // share of the classes that were right; NaN of numbers and where it is not known
}

// stretchLosses sums what predictors lost since the last TakeLosses.
type stretchLosses struct {
	roles [numRoles]tally
	parts []tally // of the mixture
}

// WatchLosses begins the stretch of events that TakeLosses tells of.
func (c *Cycle) WatchLosses() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stretch = &stretchLosses{}
}

// TakeLosses returns what each predictor lost since WatchLosses or the last call, and begins the next stretch. What is live comes first, then what
// consumers have, then the other parts of what is live, then baselines that are none.
func (c *Cycle) TakeLosses() []PredictorLoss {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stretch
	if s == nil {
		return nil
	}
	c.stretch = &stretchLosses{}
	numeric := c.target.IsNumeric()
	names := [numRoles]string{published: "published", live: "live", baseline0: "majority", baseline1: "last_label", foldIn: "fold_in"}
	if numeric {
		names[baseline0], names[baseline1], names[baseline2] = "global_mean", "item_mean", "sgd_bias"
	}
	var out []PredictorLoss
	add := func(name string, t *tally, isBaseline bool) *PredictorLoss {
		for i := range out {
			if out[i].Name == name {
				return &out[i]
			}
		}
		p := PredictorLoss{Name: name, Baseline: isBaseline, N: t.N, Loss: math.NaN(), Accuracy: math.NaN()}
		if t.N > 0 && (numeric || t.Lossy == t.N) {
			p.Loss = t.judged(numeric)
		}
		out = append(out, p)
		return &out[len(out)-1]
	}
	role := func(r int, isBaseline bool) {
		if t := &s.roles[r]; names[r] != "" {
			if p := add(names[r], t, isBaseline); t.N > 0 && !numeric {
				p.Accuracy = float64(t.Correct) / float64(t.N)
			}
		}
	}
	role(live, false)
	role(published, false)
	for i := range s.parts {
		add(c.mixture.parts[i].name, &s.parts[i], c.mixture.isBaseline(i))
	}
	role(foldIn, false)
	for _, r := range []int{baseline0, baseline1, baseline2} {
		role(r, true)
	}
	return out
}

// add takes up an event that the mixture, which may be nil, has predicted and not learned yet.
func (s *stretchLosses) add(o *[numRoles]outcome, versus compared, m *mixture, ev *event.Event, targets []float64) {
	for r := range o {
		s.roles[r].add(&o[r], versus)
	}
	if m == nil {
		return
	}
	if len(s.parts) == 0 {
		s.parts = make([]tally, len(m.parts))
	}
	for i := range m.parts {
		if p := &m.parts[i]; p.present {
			loss := boundedError(m.loss(p, ev, targets))
			s.parts[i].add(&outcome{present: true, lossy: true, loss: loss, square: loss}, compared{})
		}
	}
}
