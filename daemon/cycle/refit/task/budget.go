package task

import (
	"context"
	"time"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

// Budget is how far one refit may go. It notes where the clock ended the refit, counted in solves, steps and sweeps, so
// that a later one of the same sample ends there without a clock. It belongs to the goroutine of the refit, which asks
// it between its solves.
type Budget struct {
	Deadline time.Time        // of the time budget; zero for none
	Repeat   *format.CutShort // where the refit to repeat was cut; nil goes by deadline and context alone
	Cut      *format.CutShort // where this one was; nil so far
	Calls    int              // solves that ended without a cut
	ended    bool             // the repeated refit was cut within a solve
}

// The number of steps of a solve on a path that was not cut short: it ended, or it had not begun. They define what a
// record says.
const (
	stepsAll  = -1
	stepsNone = -2
)

// Over reports whether the refit ends here, between two solves.
func (b *Budget) Over(ctx context.Context) bool {
	if r := b.Repeat; r != nil && (b.ended || r.Steps == nil && r.Sweeps == nil && b.Calls >= r.Solves) {
		return true
	}
	over := ctx.Err() != nil || !b.Deadline.IsZero() && !time.Now().Before(b.Deadline)
	if over && b.Cut == nil {
		b.Cut = &format.CutShort{Solves: b.Calls}
	}
	return over
}

// cutsNext reports whether the next solve is the one that was cut short.
func (b *Budget) cutsNext() bool {
	return b.Repeat != nil && b.Repeat.Steps != nil && b.Calls == b.Repeat.Solves
}

// Next returns the budget of the next solve, which runs lambdas.
func (b *Budget) Next(lambdas []float64) solver.Budget {
	if !b.cutsNext() {
		return solver.Budget{Deadline: b.Deadline}
	}
	limit := make(map[float64]int, len(lambdas))
	for i, lambda := range lambdas {
		limit[lambda] = stepsAll
		if i < len(b.Repeat.Steps) {
			limit[lambda] = b.Repeat.Steps[i]
		}
	}
	return solver.Budget{Deadline: b.Deadline, Steps: func(lambda float64) int { return limit[lambda] }}
}

// Begun leaves out the λ that had not begun when the clock cut the next solve short: always the last ones.
func (b *Budget) Begun(lambdas []float64) []float64 {
	if b.cutsNext() {
		for i, steps := range b.Repeat.Steps {
			if steps == stepsNone {
				return lambdas[:i]
			}
		}
	}
	return lambdas
}

// Solved notes how a solve ended: results are in the order of lambdas, those that had not begun left out. all is false
// if the clock kept some from beginning.
func (b *Budget) Solved(lambdas int, all bool, results ...*solver.Result) {
	steps, cut := make([]int, lambdas), !all
	for i := range steps {
		steps[i] = stepsNone
	}
	for i, r := range results {
		if steps[i] = stepsAll; r.Status == solver.TimeBudget || r.Status == solver.Interrupted || r.CutShort {
			steps[i], cut = len(r.Steps), true
		}
	}
	switch {
	case b.cutsNext():
		b.ended = true
	case cut && b.Cut == nil:
		b.Cut = &format.CutShort{Solves: b.Calls, Steps: steps}
	default:
		b.Calls++
	}
}

// CutBefore notes that the clock ended the refit between two solves, after a number of them.
func (b *Budget) CutBefore(calls int) { b.Cut = &format.CutShort{Solves: calls} }

// CountSolve notes a solve that ended without a cut and has no steps.
func (b *Budget) CountSolve() { b.Calls++ }

// Sweeps bounds the variational sweeps.
func (b *Budget) Sweeps(limit int) int {
	if b.repeatsSweeps() {
		return min(limit, *b.Repeat.Sweeps)
	}
	return limit
}

// Swept notes that the time budget ended the variational stage after n whole sweeps.
func (b *Budget) Swept(n int) {
	if b.Cut != nil {
		b.Cut.Sweeps = &n
	}
}

// EndIn notes that the clock ended the refit behind the n sweeps of the variational stage.
func (b *Budget) EndIn(n int) {
	b.Cut = &format.CutShort{Solves: b.Calls, Sweeps: &n}
}

// EndedInSweeps reports whether the clock ended the variational stage.
func (b *Budget) EndedInSweeps() bool {
	return b.Cut != nil && b.Cut.Sweeps != nil || b.repeatsSweeps()
}

// repeatsSweeps reports whether the clock ended the refit that is repeated in this variational stage: there may be one
// before the solves, and one after them.
func (b *Budget) repeatsSweeps() bool {
	return b.Repeat != nil && b.Repeat.Sweeps != nil && b.Calls == b.Repeat.Solves
}
