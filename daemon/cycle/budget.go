package cycle

import (
	"context"
	"time"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
)

// budget is how far one refit may go. It notes where the clock ended the refit, counted in solves, steps and sweeps, so that a later one of the
// same sample ends there without a clock. It belongs to the goroutine of the refit, which asks it between its solves.
type budget struct {
	deadline time.Time          // of the time budget; zero for none
	repeat   *snapshot.CutShort // where the refit to repeat was cut; nil goes by deadline and context alone
	cut      *snapshot.CutShort // where this one was; nil so far
	calls    int                // solves that ended by themselves
	ended    bool               // the repeated refit was cut within a solve
}

// The number of steps of a solve on a path that was not cut short: it ended by itself, or it had not begun.
const (
	stepsAll  = -1
	stepsNone = -2
)

// over reports whether the refit ends here, between two solves.
func (b *budget) over(ctx context.Context) bool {
	if r := b.repeat; r != nil && (b.ended || r.Steps == nil && r.Sweeps == nil && b.calls >= r.Solves) {
		return true
	}
	over := ctx.Err() != nil || !b.deadline.IsZero() && !time.Now().Before(b.deadline)
	if over && b.cut == nil {
		b.cut = &snapshot.CutShort{Solves: b.calls}
	}
	return over
}

// cutsNext reports whether the next solve is the one that was cut short.
func (b *budget) cutsNext() bool {
	return b.repeat != nil && b.repeat.Steps != nil && b.calls == b.repeat.Solves
}

// next returns the budget of the next solve, which runs lambdas.
func (b *budget) next(lambdas []float64) solver.Budget {
	if !b.cutsNext() {
		return solver.Budget{Deadline: b.deadline}
	}
	limit := make(map[float64]int, len(lambdas))
	for i, lambda := range lambdas {
		limit[lambda] = stepsAll
		if i < len(b.repeat.Steps) {
			limit[lambda] = b.repeat.Steps[i]
		}
	}
	return solver.Budget{Deadline: b.deadline, Steps: func(lambda float64) int { return limit[lambda] }}
}

// begun leaves out the λ that had not begun when the clock cut the next solve short: always the last ones.
func (b *budget) begun(lambdas []float64) []float64 {
	if b.cutsNext() {
		for i, steps := range b.repeat.Steps {
			if steps == stepsNone {
				return lambdas[:i]
			}
		}
	}
	return lambdas
}

// solved notes how a solve ended: results are in the order of lambdas, those that had not begun left out. all is false if the clock kept some from
// beginning.
func (b *budget) solved(lambdas int, all bool, results ...*solver.Result) {
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
	case cut && b.cut == nil:
		b.cut = &snapshot.CutShort{Solves: b.calls, Steps: steps}
	default:
		b.calls++
	}
}

// sweeps bounds the variational sweeps.
func (b *budget) sweeps(limit int) int {
	if b.repeatsSweeps() {
		return min(limit, *b.repeat.Sweeps)
	}
	return limit
}

// swept notes that the time budget ended the variational stage after n whole sweeps.
func (b *budget) swept(n int) {
	if b.cut != nil {
		b.cut.Sweeps = &n
	}
}

// endIn notes that the clock ended the refit behind the n sweeps of the variational stage.
func (b *budget) endIn(n int) {
	b.cut = &snapshot.CutShort{Solves: b.calls, Sweeps: &n}
}

// endedInSweeps reports whether the clock ended the variational stage.
func (b *budget) endedInSweeps() bool {
	return b.cut != nil && b.cut.Sweeps != nil || b.repeatsSweeps()
}

// repeatsSweeps reports whether the clock ended the refit that is repeated in this variational stage: there may be one before the solves, and one after them.
func (b *budget) repeatsSweeps() bool {
	return b.repeat != nil && b.repeat.Sweeps != nil && b.calls == b.repeat.Solves
}
