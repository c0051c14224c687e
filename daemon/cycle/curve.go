package cycle

import (
	"math"

	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/mixture"
)

// WatchLosses begins the interval of events that TakeLosses reports.
func (p *progress) WatchLosses() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.interval = &mixture.IntervalLosses{}
}

// TakeLosses returns what each predictor lost since WatchLosses or the last call, and begins the next interval. What is
// live comes first, then what consumers have, then the other parts of what is live, then baselines that are none.
func (c *Cycle) TakeLosses() []evaluate.PredictorLoss {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.progress.interval
	if s == nil {
		return nil
	}
	c.progress.interval = &mixture.IntervalLosses{}
	numeric := c.target.IsNumeric()
	names := evaluate.RoleNames(numeric)
	var out []evaluate.PredictorLoss
	add := func(name string, t *evaluate.Tally, isBaseline bool) *evaluate.PredictorLoss {
		for i := range out {
			if out[i].Name == name {
				return &out[i]
			}
		}
		p := evaluate.PredictorLoss{Name: name, Baseline: isBaseline, N: t.N, Loss: math.NaN(), Accuracy: math.NaN()}
		if t.N > 0 && (numeric || t.Lossy == t.N) {
			p.Loss = t.Judged(numeric)
		}
		out = append(out, p)
		return &out[len(out)-1]
	}
	role := func(r int, isBaseline bool) {
		if t := &s.Roles[r]; names[r] != "" {
			if p := add(names[r], t, isBaseline); t.N > 0 && !numeric {
				p.Accuracy = float64(t.Correct) / float64(t.N)
			}
		}
	}
	role(evaluate.Live, false)
	role(evaluate.Published, false)
	for i := range s.Parts {
		add(c.ensemble.mixture.Parts[i].Name, &s.Parts[i], c.ensemble.mixture.IsBaseline(i))
	}
	role(evaluate.FoldIn, false)
	for _, r := range []int{evaluate.Baseline0, evaluate.Baseline1, evaluate.Baseline2} {
		role(r, true)
	}
	return out
}
