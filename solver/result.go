package solver

import (
	"context"
	"errors"
	"fmt"
)

// Status says why a solve ended. The zero value is invalid.
type Status uint8

const (
	// Converged: the certified gap is at most Tolerance times the objective, or RoundingGap of it where the objective
	// no longer falls. A Rough solve has no certificate and never says so.
	Converged Status = iota + 1
	// BasisLimit: MaxBasis or MaxSteps was reached.
	BasisLimit
	// TimeBudget: Budget was spent, or the deadline of the context passed.
	TimeBudget
	// Interrupted: the context was cancelled or OnStep asked to stop.
	Interrupted
	// Stalled: no basis vector was found that enters (criterion ≤ λ), or new ones no longer lower the objective, but no
	// certificate says that this is the optimum. For ℓ1/ℓ2 with several outputs, and for ℓ1/ℓ∞ with many, it is the
	// usual end: their bounds are loose. Result.GapLimit says so.
	Stalled
)

// RoundingGap is the least relative gap that a solve is asked for once it stalls: four times the root of the rounding
// of float64, 2^−52. Near the optimum the objective changes by the square of what the gradient does, so that falls of
// the objective below its rounding leave a gap of the root of it.
const RoundingGap = 0x1p-24

// GapLimit says what keeps a certified gap above Tolerance.
type GapLimit string

const (
	// LimitWeights: over the basis vectors of the model alone the gap is above Tolerance already. Their weights are not
	// at their optimum.
	LimitWeights GapLimit = "weights"
	// LimitVectors: a basis vector was found that makes the gap larger than Tolerance. It did not enter, for MaxBasis
	// or as it hardly lowered the objective.
	LimitVectors GapLimit = "vectors"
	// LimitBound: no basis vector was found that makes the gap larger than Tolerance. What is missing is an upper bound
	// of the dual norm as small as what was found: GapBound is a relaxation for ℓ1/ℓ2 with several outputs, whose dual
	// norm is the largest quartic form over the sphere, and for ℓ1/ℓ∞ with many.
	LimitBound GapLimit = "bound"
)

// String returns the name used in manifests: converged, basis_limit, time_budget, interrupted or stalled.
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
	case Stalled:
		return "stalled"
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// statusOf returns the status that a done context means.
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
	Objective float64 // Σ w ℓ + λΩ(V) + ridge terms; in constrained form without λΩ(V)
	Gap       float64 // estimated optimality gap
	// dual norm of the gradient row of the best basis vector found; in penalised form none enters at or below λ
	Criterion float64
	// ν: Criterion over an upper bound of what any basis vector attains, in (0, 1]; 0 at degree 3, where none is known
	Nu float64
	// from the start of the solve until this point was reached; the search for the next vector counts to the next step
	Seconds float64
}

// Result of a solve. Its gaps are about the convex problem (2) of Blondel et al. 2017, over all unit vectors and not
// only those of the model: they bound ConvexObjective at Model minus its minimum. ConvexObjective is Objective unless a
// full refit with BasisRidge ended with basis vectors that are not of unit length: the problem that such a refit solves
// is not convex, and no gap is known for it.
type Result struct {
	Model     *Model
	Status    Status
	Objective float64 // of Model: Σ w ℓ + λΩ(V) + ridge terms; in constrained form without λΩ(V)
	// the same of the model with basis vectors scaled to unit length and their squared lengths moved into V
	ConvexObjective float64
	// Gap is certified whenever a solve of degree 2 ends in order and is not Rough; at degree 3 it is always
	// estimated. If certified it depends on the upper bound GapBound of the dual norm Ω*(∇F), which may fail with the
	// probability GapFailure, 0 if an eigensolver gave it. For group penalties all but SignPatterns are loose: their
	// gap may not fall to 0 at the optimum.
	Gap         float64
	GapRelative float64 // Gap / ConvexObjective, 0 if both are 0
	GapKind     GapKind
	GapBound    GapBound // empty for an estimated gap
	GapFailure  float64
	GapEstimate float64 // the gap if no basis vector is better than the best one found; at most Gap
	// GapLimit is what keeps a certified gap above Tolerance; empty if nothing does, or if the gap is estimated.
	GapLimit GapLimit
	Steps    []Step // step 0 comes before any selection
	CutShort bool   // ctx was done, or Budget spent, before the end: this is the model of the last of Steps

	// NuclearNorm is Σ|eigenvalues| of Z, and Rank their number, of ConvexFM; 0 for the others.
	NuclearNorm float64
	Rank        int

	// Dual holds the dual variables of the rows, n×m, of an algorithm that keeps them for the next fit; nil for the
	// others.
	Dual []float64

	StochasticEpochs int
	FISTAIterations  int
	// of support vector machines: how often the scores of a row were taken, by sweeps, samples and evaluations
	RowVisits        int
	NewtonIterations int
}
