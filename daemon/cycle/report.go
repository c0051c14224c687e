package cycle

import (
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
