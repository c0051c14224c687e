package solver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/refitd/refitd/solver/penalty"
)

// ErrSettings is wrapped by every complaint about Settings or about a warm model that does not fit them.
var ErrSettings = errors.New("solver: invalid settings")

// Method says how the output weights are refitted.
type Method uint8

const (
	// Hybrid takes what is fastest: in penalised form the proximal Newton method, which reaches the objective of two
	// stochastic epochs in less time than they take (ML-1M; a multi-class sample of 20,000 rows: the same time); in
	// constrained form FISTA, after a few stochastic epochs when the sample is large and the weights are far off.
	Hybrid Method = iota + 1
	// FISTA uses full gradients only.
	FISTA
	// Stochastic uses minibatch proximal AdaGrad only: a rough model of many rows.
	Stochastic
	// SVRG uses minibatch proximal SVRG only (Xiao and Zhang 2014).
	SVRG
	// Newton uses the proximal Newton method only (Lee, Sun and Saunders 2014), FISTA in constrained form.
	Newton
)

// ParseMethod returns the method of that name: hybrid, fista, stochastic, svrg or newton.
func ParseMethod(name string) (Method, error) {
	for _, m := range []Method{Hybrid, FISTA, Stochastic, SVRG, Newton} {
		if m.String() == name {
			return m, nil
		}
	}
	return 0, fmt.Errorf("solver: unknown solver %q: use hybrid, fista, stochastic, svrg or newton", name)
}

// String returns the name used in configuration, flags and manifests.
func (m Method) String() string {
	switch m {
	case Hybrid:
		return "hybrid"
	case FISTA:
		return "fista"
	case Stochastic:
		return "stochastic"
	case SVRG:
		return "svrg"
	case Newton:
		return "newton"
	}
	return fmt.Sprintf("method(%d)", uint8(m))
}

// Depth says which layers a corrective refit moves, or that a step by line search takes its place.
type Depth uint8

const (
	// OutputLayer refits the output weights V alone, a convex problem.
	OutputLayer Depth = iota + 1
	// Full refits basis vectors and output weights (V, H) together. It is not convex: a refit that raised the objective
	// is dropped.
	Full
	// LineSearch makes one conditional gradient step (Frank and Wolfe 1956; Jaggi 2013) for each basis vector: all
	// weights shrink by the same factor, and the new vector gets what that leaves, by the best step length. No refit
	// corrects the weights, so that they come near the optimum as 1/steps.
	LineSearch
)

// String returns the name used in configuration, flags and manifests.
func (d Depth) String() string {
	switch d {
	case OutputLayer:
		return "output"
	case Full:
		return "full"
	case LineSearch:
		return "line_search"
	}
	return fmt.Sprintf("depth(%d)", uint8(d))
}

// Settings of Algorithm 1. DefaultSettings returns a complete set. It is one type: a field for each setting.
type Settings struct {
	Kernel  Kernel  // interaction
	Penalty Penalty // Ω
	// Lambda > 0 weighs Ω(V) against the sum of the losses (penalised form), so the same model needs a λ that grows
	// with the rows.
	// Exactly one of Lambda and Tau is positive.
	Lambda float64
	// Tau > 0 bounds Ω(V) (constrained form).
	Tau float64
	// Refit is what a corrective refit moves. With Full, every FullEvery ≥ 1 basis vectors and at the end of the solve
	// the refit is full, of at most FullIterations ≥ 1 iterations; the refits between are of the output layer. With
	// LineSearch, Solver, BasisRidge and BatchShare are not used, and the result is not brought to its joint optimum.
	Refit          Depth
	FullEvery      int
	FullIterations int
	// BasisRidge ≥ 0 is the ridge ρ of a full refit on the basis vectors, ½ρ‖H‖², which are then free in length, in the
	// result too; 0 keeps them in the unit ball, and the result holds unit vectors. In constrained form a ridge keeps
	// them in the unit ball as well, or the model would leave the ball of Tau: the result holds vectors of length 1 at
	// most. In penalised form with a ridge the best length makes the two terms of a basis vector add up to
	// √(2λρ·Ω(v_r)‖h_r‖²) at degree 2, which spares large ones and drives out small ones. The ridge ρ that a
	// factorization machine puts on its factors, with weights of ±1, is the unit ball with λ = ρ/2.
	BasisRidge float64
	// MaxBasis ≥ 0 is the largest number of basis vectors, k_max.
	MaxBasis int
	// MaxSteps ≥ 0 is the largest number of basis vectors tried, never more than 20·MaxBasis; 0 refits a warm model
	// without new ones.
	MaxSteps int
	Solver   Method
	// Selection is how basis vectors are chosen; the zero value is the default.
	Selection Selection
	// LinearRidge ≥ 0 is the ridge α of the linear term; 0 leaves the linear term out.
	LinearRidge float64
	// BiasRidge ≥ 0 is the ridge of the bias; 0 leaves the bias out. It is small but positive: a free bias has no
	// finite gap.
	BiasRidge float64
	// Tolerance in (0, 1): a refit ends when the objective falls by less than this fraction over ten iterations, a
	// solve is converged when the certified relative gap is at most this. Below 1e-6, basis selection is exact as well.
	Tolerance float64
	// MaxIterations ≥ 1 bounds the FISTA iterations of one refit.
	MaxIterations int
	// WeightsOnly refits the linear term and the output weights of a warm model and looks for no basis vector: MaxSteps
	// is not used, the gap of the only step is the objective, its Criterion and Nu are 0, and the rest is as with
	// Rough.
	WeightsOnly bool
	// MoveBasis lets such a refit take one step on the heaviest basis vectors after that, too, which loses to no step:
	// vectors chosen on rows that have been replaced since are what limits weights alone.
	MoveBasis bool
	// Rough leaves out the final polish: the result is the last step's model with that step's gap. For comparing
	// strengths.
	Rough bool
	// BatchShare in [0, 1] lets a Rough solve of several outputs with a group penalty add 1 + ⌊BatchShare·k⌋ basis
	// vectors at once to k: the best one found and others that enter, local maxima of the criterion in other
	// directions. 0 adds one at a time.
	BatchShare float64
	// Seed starts the Lanczos iterations and the shuffling of the stochastic epochs.
	Seed uint64
	// Workers is the number of goroutines; 0 takes GOMAXPROCS. Results do not depend on it.
	Workers int
	// OnStep, if not nil, is called after every refit, the first (step 0) before any selection, with a copy of the
	// model that the callee may keep. Returning true ends the solve with status Interrupted.
	OnStep func(Step, *Model) (stop bool)
	// Yield, if not nil, is called before every block of rows or features, by any of the goroutines: the solve
	// continues when it returns. It may wait to leave the processors to others, but not after ctx is done, which the
	// solve notices only then.
	Yield func()
	// Budget is how far the solve may go before it ends with what it has and status TimeBudget.
	Budget Budget
	// Now is the clock behind Step.Seconds; nil takes time.Now.
	Now func() time.Time
}

// Budget bounds a solve by the clock or by its steps. The zero value does not.
type Budget struct {
	// Deadline, if not zero, is when the solve is cut short, by the clock of the process as with context.WithDeadline:
	// Settings.Now has no part in it.
	Deadline time.Time
	// Steps, if not nil, returns how many steps a solve of that λ may make, negative for any number. One that has made
	// them ends before the next, or before it is polished and certified: this repeats, without a clock, a solve that
	// was cut short after as many steps. Path calls it from several goroutines.
	Steps func(lambda float64) int
}

// Spent reports whether a solve of a λ that has made so many steps may make no other one.
func (b Budget) Spent(lambda float64, steps int) bool {
	if b.Steps == nil {
		return false
	}
	limit := b.Steps(lambda)
	return limit >= 0 && steps >= limit
}

// within returns ctx with the deadline of the budget.
func (b Budget) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if b.Deadline.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, b.Deadline)
}

// DefaultSettings returns settings for recommenders by McRank on samples of the size of ML-100k. The values were
// measured there.
func DefaultSettings() Settings {
	return Settings{
		Kernel: ANOVA, Penalty: L1Linf, Lambda: 6, Refit: OutputLayer, FullEvery: 1, FullIterations: 100, MaxBasis: 20,
		MaxSteps: math.MaxInt, Solver: Hybrid,
		LinearRidge: 0.5, BiasRidge: 1e-6, Tolerance: 1e-4, MaxIterations: 500, Seed: 1,
	}
}

// Validate returns an error that wraps ErrSettings if a field is out of range.
func (s Settings) Validate() error {
	switch {
	case s.Kernel.Degree() == 0:
		return fmt.Errorf("%w: Kernel is %v", ErrSettings, s.Kernel)
	case s.Kernel.Degree() == 3 && (s.Selection == L1Start || s.Selection == L1Only):
		return fmt.Errorf("%w: Selection %v takes an eigenvector, which degree 3 has not: use %v or %v", ErrSettings,
			s.Selection, AllStarts, RandomStart)
	case s.Penalty != L1 && s.Penalty != L1L2 && s.Penalty != L1Linf:
		return fmt.Errorf("%w: Penalty is %v", ErrSettings, s.Penalty)
	case s.Solver < Hybrid || s.Solver > Newton:
		return fmt.Errorf("%w: Solver is %v", ErrSettings, s.Solver)
	case s.Selection > BestData:
		return fmt.Errorf("%w: Selection is %v", ErrSettings, s.Selection)
	case !isStrength(s.Lambda) || !isStrength(s.Tau) || (s.Lambda > 0) == (s.Tau > 0):
		return fmt.Errorf("%w: Lambda is %g and Tau %g: one is positive and at most %g, the other 0", ErrSettings,
			s.Lambda, s.Tau, maxStrength)
	case s.Refit < OutputLayer || s.Refit > LineSearch:
		return fmt.Errorf("%w: Refit is %v", ErrSettings, s.Refit)
	case s.FullEvery < 1 || s.FullIterations < 1:
		return fmt.Errorf("%w: FullEvery %d or FullIterations %d is less than 1", ErrSettings, s.FullEvery,
			s.FullIterations)
	case !isStrength(s.BasisRidge):
		return fmt.Errorf("%w: BasisRidge %g is not from 0 to %g", ErrSettings, s.BasisRidge, maxStrength)
	case s.MaxBasis < 0 || s.MaxSteps < 0 || s.Workers < 0:
		return fmt.Errorf("%w: MaxBasis %d, MaxSteps %d or Workers %d is negative", ErrSettings, s.MaxBasis, s.MaxSteps,
			s.Workers)
	case !isStrength(s.LinearRidge) || !isStrength(s.BiasRidge):
		return fmt.Errorf("%w: LinearRidge %g or BiasRidge %g is not from 0 to %g", ErrSettings, s.LinearRidge,
			s.BiasRidge, maxStrength)
	case !(s.Tolerance > 0 && s.Tolerance < 1):
		return fmt.Errorf("%w: Tolerance %g is outside (0, 1)", ErrSettings, s.Tolerance)
	case !(s.BatchShare >= 0 && s.BatchShare <= 1):
		return fmt.Errorf("%w: BatchShare %g is outside [0, 1]", ErrSettings, s.BatchShare)
	case s.MaxIterations < 1:
		return fmt.Errorf("%w: MaxIterations is %d, less than 1", ErrSettings, s.MaxIterations)
	}
	return nil
}

// maxStrength bounds λ, τ and the ridges, so that what they weigh does not overflow.
const maxStrength = 1e100

func isStrength(x float64) bool { return x >= 0 && x <= maxStrength }

func (s Settings) form() penalty.Form {
	return penalty.Form{Penalty: s.Penalty, Lambda: s.Lambda, Tau: s.Tau}
}
