package cycle

import (
	"math"

	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/report"
)

// Names returns the counts since the start.
func (p *progress) Names() evaluate.NameCounts {
	p.reportMu.Lock()
	defer p.reportMu.Unlock()
	return p.names
}

// Progressive returns PROGRESSIVE of the contract.
func (c *Cycle) Progressive() report.Progressive {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	p := c.progress.progressive.Report()
	p.Parts = c.ensemble.mixture.Report()
	for i := range p.Parts {
		part := &p.Parts[i]
		if x := c.ensemble.expertOf(part.Name); x != nil {
			part.Asleep = x.Asleep
		}
		part.InVersions = part.Name == mixture.PartRefit || part.Name == c.partOf(c.publisher.race.Chosen) ||
			c.publisher.race.Chosen == mixture.FormBlend && c.ensemble.stacked.Has(part.Name) ||
			c.publisher.race.Chosen == mixture.FormPool && c.isPooled(part.Name)
	}
	return p
}

// WindowLosses returns how many events were scored since the state was made, and the headline of each predictor over
// the window, by its name in report.Progressive.Roles, with the name of that metric. It costs microseconds where
// Progressive takes a walk over the window.
func (p *progress) WindowLosses() (n int64, metric string, losses map[string]float64) {
	p.reportMu.Lock()
	defer p.reportMu.Unlock()
	metric, losses = p.progressive.WindowLosses()
	return p.progressive.Sums.N, metric, losses
}

// Evicted returns how many names the fold-in has given up for more recent ones, because it has room for
// train.fold_in.max_rows.
func (e *ensemble) Evicted() int64 { return e.evicted.Load() }

// Outlying returns, by the name of each numeric field, of a label without a range and of the weight, how many numbers
// were so far from those before them that they were learned as less.
func (e *ensemble) Outlying() map[string]int64 {
	e.reportMu.Lock()
	defer e.reportMu.Unlock()
	counts := make(map[string]int64, len(e.schema.Numeric)+1)
	for f, name := range e.schema.Numeric {
		counts[name] = e.numbers.Outlying[f]
	}
	if e.numbers.Limited {
		counts[e.schema.Label] = e.numbers.Outlying[len(e.schema.Numeric)]
	}
	if e.schema.Weight != "" {
		counts[e.schema.Weight] = e.weights.Limited
	}
	return counts
}

// Resets returns how often the fold-in was started again because it had become worse than the champion alone.
func (p *progress) Resets() int {
	p.reportMu.Lock()
	defer p.reportMu.Unlock()
	return p.resets
}

// ImpossibleLosses returns how many losses below 0 were seen since the start. None can be: each is a bug, and counted
// as 0.
func (p *progress) ImpossibleLosses() int64 {
	p.reportMu.Lock()
	defer p.reportMu.Unlock()
	return p.progressive.Invalid
}

// Sums returns the progressive sums for the state; Restore takes them back.
func (p *progress) Sums() ([]byte, error) {
	p.reportMu.Lock()
	defer p.reportMu.Unlock()
	return p.progressive.MarshalBinary()
}

// Restore continues the progressive sums of an earlier run.
func (p *progress) Restore(sums []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reportMu.Lock()
	defer p.reportMu.Unlock()
	return p.progressive.UnmarshalBinary(sums)
}

// Unknown returns what Restore has left out: predictors of another build, by name, or a later format of the sums.
func (p *progress) Unknown() []string {
	p.reportMu.Lock()
	defer p.reportMu.Unlock()
	return p.progressive.Unknown()
}

// StartTail begins the metrics that Tail returns.
func (p *progress) StartTail() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reportMu.Lock()
	defer p.reportMu.Unlock()
	p.progressive.StartTail()
}

// Tail returns the progressive metrics since StartTail.
func (p *progress) Tail() report.LastTenth {
	p.reportMu.Lock()
	defer p.reportMu.Unlock()
	return p.progressive.Tail()
}

// progress has the losses of predictions made before learning. Writers hold Cycle.mu and Cycle.reportMu, readers
// reportMu.
type progress struct {
	*common

	progressive *evaluate.Progressive
	interval    *mixture.IntervalLosses // nil unless they are watched
	resets      int
	names       evaluate.NameCounts
	goodEnough  int // events until the live model is compared with the published one again
}

// Calibration compares, over the window, what was predicted with what came: of numbers the mean prediction with the
// mean label, of a binary label the probability of 1 with its frequency, of several classes the probability of the
// predicted class with how often it was right. It is empty of tasks without numbers and probabilities. O(window log
// window), of which the learning waits for O(window).
func (p *progress) Calibration() report.Calibration {
	pairs := p.pairs()
	return report.Calibration{
		Published: evaluate.Calibrated(pairs[evaluate.Published]),
		Live:      evaluate.Calibrated(pairs[evaluate.Live]),
	}
}

// pairs returns what predictors said of the events of the window.
func (p *progress) pairs() (pairs [evaluate.NumReported][]evaluate.Pair) {
	p.reportMu.Lock()
	defer p.reportMu.Unlock()
	for r := range pairs {
		pairs[r] = p.progressive.Pairs(r)
	}
	return pairs
}

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
