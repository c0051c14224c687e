package cycle

import (
	"context"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
)

// clock is the context of one refit. It notes where the time budget ended the refit, counted in solves, steps and sweeps, so that a later
// one of the same sample ends there without a clock. A refit asks it between its solves, from one goroutine; the solves themselves
// go by the context below.
type clock struct {
	context.Context
	repeat *snapshot.CutShort // where the refit to repeat was cut; nil goes by the context
	cut    *snapshot.CutShort // where this one was; nil so far
	calls  int                // solves that ended by themselves
	ended  bool               // the repeated refit was cut within a solve
}

// The number of steps of a solve on a path that was not cut short: it ended by itself, or it had not begun.
const (
	stepsAll  = -1
	stepsNone = -2
)

// Err is asked between solves.
func (c *clock) Err() error {
	if r := c.repeat; r != nil && (c.ended || r.Steps == nil && r.Sweeps == nil && c.calls >= r.Solves) {
		return context.DeadlineExceeded
	}
	err := c.Context.Err()
	if err != nil && c.cut == nil {
		c.cut = &snapshot.CutShort{Solves: c.calls}
	}
	return err
}

// clockOf returns the clock of a refit and the context of its solves; an offline fit has no clock.
func clockOf(ctx context.Context) (*clock, context.Context) {
	if c, ok := ctx.(*clock); ok {
		return c, c.Context
	}
	return nil, ctx
}

// cutsNext reports whether the next solve is the one that was cut short.
func (c *clock) cutsNext() bool {
	return c != nil && c.repeat != nil && c.repeat.Steps != nil && c.calls == c.repeat.Solves
}

// stop returns what ends the next solve, nil for nothing: lambdas are those that it runs.
func (c *clock) stop(lambdas []float64) func(float64, int) bool {
	if !c.cutsNext() {
		return nil
	}
	limit := make(map[float64]int, len(lambdas))
	for i, lambda := range lambdas {
		limit[lambda] = stepsAll
		if i < len(c.repeat.Steps) {
			limit[lambda] = c.repeat.Steps[i]
		}
	}
	return func(lambda float64, steps int) bool { return limit[lambda] >= 0 && steps >= limit[lambda] }
}

// begun leaves out the λ that had not begun when the clock cut the next solve short: always the last ones.
func (c *clock) begun(lambdas []float64) []float64 {
	if c.cutsNext() {
		for i, steps := range c.repeat.Steps {
			if steps == stepsNone {
				return lambdas[:i]
			}
		}
	}
	return lambdas
}

// solved notes how a solve ended: results are in the order of lambdas, those that had not begun left out.
func (c *clock) solved(lambdas int, results ...*solver.Result) {
	if c == nil {
		return
	}
	steps, cut := make([]int, lambdas), false
	for i := range steps {
		steps[i] = stepsNone
	}
	for i, r := range results {
		if steps[i] = stepsAll; r.Status == solver.TimeBudget || r.Status == solver.Interrupted || r.CutShort {
			steps[i], cut = len(r.Steps), true
		}
	}
	switch {
	case c.cutsNext():
		c.ended = true
	case cut && c.cut == nil:
		c.cut = &snapshot.CutShort{Solves: c.calls, Steps: steps}
	default:
		c.calls++
	}
}

// sweeps bounds the variational sweeps.
func (c *clock) sweeps(limit int) int {
	if c != nil && c.repeat != nil && c.repeat.Sweeps != nil {
		return min(limit, *c.repeat.Sweeps)
	}
	return limit
}

// swept notes that the clock ended the variational stage after n whole sweeps.
func (c *clock) swept(n int) {
	if c != nil && c.cut != nil {
		c.cut.Sweeps = &n
	}
}
