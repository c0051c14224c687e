package cycle

import (
	"github.com/refitd/refitd/daemon/report"
)

// NameCounts counts the names of categorical and multi fields in events that were scored with the version that consumers have.
type NameCounts struct {
	Total  int64
	Unseen int64 // outside the version's vocabulary
}

// Names returns the counts since the start.
func (c *Cycle) Names() NameCounts {
	c.figures.Lock()
	defer c.figures.Unlock()
	return c.names
}

// Progressive returns PROGRESSIVE of the contract.
func (c *Cycle) Progressive() report.Progressive {
	c.figures.Lock()
	defer c.figures.Unlock()
	p := c.progressive.Report()
	p.Parts = c.mixture.report()
	for i := range p.Parts {
		part := &p.Parts[i]
		part.InVersions = part.Name == "published" || part.Name == c.partOf(c.race.chosen) || c.race.chosen == formBlend && c.blend.has(part.Name)
	}
	return p
}

// WindowLosses returns how many events were scored since the state was made, and the loss of each predictor over the window, by its name in
// report.Progressive.Roles. It costs microseconds where Progressive takes a walk over the window.
func (c *Cycle) WindowLosses() (n int64, losses map[string]float64) {
	c.figures.Lock()
	defer c.figures.Unlock()
	return c.progressive.sums.N, c.progressive.windowLosses()
}

// Evicted returns how many names the fold-in has given up for more recent ones, because it has room for train.fold_in.max_rows.
func (c *Cycle) Evicted() int64 { return c.evicted.Load() }

// Outlying returns, by the name of each numeric field, of a label without a range and of the weight, how many numbers were so far from those before them
// that they were learned as less.
func (c *Cycle) Outlying() map[string]int64 {
	c.figures.Lock()
	defer c.figures.Unlock()
	counts := make(map[string]int64, len(c.schema.Numeric)+1)
	for f, name := range c.schema.Numeric {
		counts[name] = c.numbers.outlying[f]
	}
	if c.numbers.limited {
		counts[c.schema.Label] = c.numbers.outlying[len(c.schema.Numeric)]
	}
	if c.weights != nil {
		counts[c.schema.Weight] = c.weights.limited
	}
	return counts
}

// Resets returns how often the fold-in was started again because it had become worse than the champion alone.
func (c *Cycle) Resets() int {
	c.figures.Lock()
	defer c.figures.Unlock()
	return c.resets
}

// ImpossibleLosses returns how many losses below 0 were seen since the start. None can be: each is a bug, and counted as 0.
func (c *Cycle) ImpossibleLosses() int64 {
	c.figures.Lock()
	defer c.figures.Unlock()
	return c.progressive.invalid
}

// Sums returns the progressive sums for the state; Restore takes them back.
func (c *Cycle) Sums() ([]byte, error) {
	c.figures.Lock()
	defer c.figures.Unlock()
	return c.progressive.MarshalBinary()
}

// Restore continues the progressive sums of an earlier run.
func (c *Cycle) Restore(sums []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.figures.Lock()
	defer c.figures.Unlock()
	return c.progressive.UnmarshalBinary(sums)
}

// StartTail begins the metrics that Tail returns.
func (c *Cycle) StartTail() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.figures.Lock()
	defer c.figures.Unlock()
	c.progressive.StartTail()
}

// Tail returns the progressive metrics since StartTail.
func (c *Cycle) Tail() report.LastTenth {
	c.figures.Lock()
	defer c.figures.Unlock()
	return c.progressive.Tail()
}
