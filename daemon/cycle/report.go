package cycle

import (
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/report"
)

// Names returns the counts since the start.
func (c *Cycle) Names() evaluate.NameCounts {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	return c.names
}

// Progressive returns PROGRESSIVE of the contract.
func (c *Cycle) Progressive() report.Progressive {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	p := c.progressive.Report()
	p.Parts = c.mixture.Report()
	for i := range p.Parts {
		part := &p.Parts[i]
		part.InVersions = part.Name == "published" || part.Name == c.partOf(c.race.Chosen) ||
			c.race.Chosen == mixture.FormBlend && c.stacked.Has(part.Name)
	}
	return p
}

// WindowLosses returns how many events were scored since the state was made, and the loss of each predictor over the
// window, by its name in
// report.Progressive.Roles. It costs microseconds where Progressive takes a walk over the window.
func (c *Cycle) WindowLosses() (n int64, losses map[string]float64) {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	return c.progressive.Sums.N, c.progressive.WindowLosses()
}

// Evicted returns how many names the fold-in has given up for more recent ones, because it has room for
// train.fold_in.max_rows.
func (c *Cycle) Evicted() int64 { return c.evicted.Load() }

// Outlying returns, by the name of each numeric field, of a label without a range and of the weight, how many numbers
// were so far from those before them
// that they were learned as less.
func (c *Cycle) Outlying() map[string]int64 {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	counts := make(map[string]int64, len(c.schema.Numeric)+1)
	for f, name := range c.schema.Numeric {
		counts[name] = c.numbers.Outlying[f]
	}
	if c.numbers.Limited {
		counts[c.schema.Label] = c.numbers.Outlying[len(c.schema.Numeric)]
	}
	if c.weights != nil {
		counts[c.schema.Weight] = c.weights.Limited
	}
	return counts
}

// Resets returns how often the fold-in was started again because it had become worse than the champion alone.
func (c *Cycle) Resets() int {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	return c.resets
}

// ImpossibleLosses returns how many losses below 0 were seen since the start. None can be: each is a bug, and counted
// as 0.
func (c *Cycle) ImpossibleLosses() int64 {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	return c.progressive.Invalid
}

// Sums returns the progressive sums for the state; Restore takes them back.
func (c *Cycle) Sums() ([]byte, error) {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	return c.progressive.MarshalBinary()
}

// Restore continues the progressive sums of an earlier run.
func (c *Cycle) Restore(sums []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	return c.progressive.UnmarshalBinary(sums)
}

// StartTail begins the metrics that Tail returns.
func (c *Cycle) StartTail() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	c.progressive.StartTail()
}

// Tail returns the progressive metrics since StartTail.
func (c *Cycle) Tail() report.LastTenth {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	return c.progressive.Tail()
}
