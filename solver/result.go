package solver

import (
	"context"
	"errors"
	"fmt"
)

// Status says why a solve ended. The zero value is invalid.
type Status uint8

const (
	// Converged: no basis vector enters (criterion ≤ λ), the relative gap is within Tolerance, or new vectors no longer lower the objective.
	Converged Status = iota + 1
	// BasisLimit: MaxBasis or MaxSteps was reached.
	BasisLimit
	// TimeBudget: the deadline of the context passed.
	TimeBudget
	// Interrupted: the context was cancelled or OnStep asked to stop.
	Interrupted
)

// String returns the name used in manifests: converged, basis_limit, time_budget or interrupted.
func (s Status) String() string {
	switch s {
	case Converged:
		return "converged"
	case BasisLimit:
		return "basis_limit"
	case TimeBudget:
		return "time_budget"
	case Interrupted:
		return "interrupted"
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// statusOf returns the status that a done context stands for.
func statusOf(ctx context.Context) Status {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return TimeBudget
	}
	return Interrupted
}

// GapKind says what a gap is worth.
type GapKind string

const (
	// Certified: an upper bound of the distance to the optimum, up to rounding.
	Certified GapKind = "certified"
	// Estimated: the dual norm in it comes from a local or iterative search, which bounds it from below only.
	Estimated GapKind = "estimated"
)

// Step describes the solve after one refit.
type Step struct {
	K         int     // basis vectors
	Units     int     // non-zero output weights
	Objective float64 // Σ w ℓ + λΩ(V) + ridge terms
	Gap       float64 // estimated optimality gap
	Criterion float64 // dual norm of the gradient row of the best basis vector found; none enters at or below λ
	Nu        float64 // ν: Criterion over an upper bound of what any basis vector attains, in (0, 1]
	Seconds   float64 // since the start of the solve
}

// Result of a solve.
type Result struct {
	Model       *Model
	Status      Status
	Objective   float64 // of Model
	Gap         float64 // of Model: bounds Objective minus the optimum, subject to GapKind
	GapRelative float64 // Gap / Objective, 0 if both are 0
	GapKind     GapKind
	Steps       []Step // step 0 comes before any selection

	StochasticEpochs int
	FISTAIterations  int
}
