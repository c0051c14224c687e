package coordinate

import (
	"context"
	"fmt"

	"github.com/refitd/refitd/solver"
)

// Objective says what is minimised, and so by which of the algorithms of the paper.
type Objective uint8

const (
	// Auto is Direct for the ANOVA kernels and Lifted for the homogeneous ones.
	Auto Objective = iota
	// Direct moves the basis vectors themselves (algorithm 1). The homogeneous kernels are not convex in a coordinate
	// of them and have none.
	Direct
	// Lifted moves the factors of a tensor (algorithm 2 and appendix D.3). ANOVA of degree 3 has none.
	Lifted
)

// Weights says what becomes of the weights v_s of the direct objective of degree 2 where a basis vector serves one
// output.
type Weights uint8

const (
	// Signs leaves them at +1 and −1 in turn. Under β |λ_s| ‖p_s‖² their size would only be moved into p_s.
	Signs Weights = iota
	// Ones leaves them at 1, as in the factorization machine of Rendle 2010: its matrix of weights is positive
	// semidefinite but for the diagonal.
	Ones
	// Fitted moves them after the basis vectors that they weigh, so that signs may change. They start as Signs.
	Fitted
)

// Descent is coordinate descent, a solver.Algorithm. The zero value is a complete set of options.
//
// Of solver.Settings it uses Kernel, Lambda, MaxBasis, LinearRidge, BiasRidge, Seed, OnStep, Yield, Budget, Now,
// Penalty where Shared, Tolerance, and MaxIterations, which bounds the sweeps over all coordinates. MaxBasis is k, of
// each output unless Shared; lifted units are k/degree, at least one.
type Descent struct {
	Objective Objective
	Weights   Weights
	// Shared lets all outputs share one set of basis vectors, each with a row of weights under Settings.Penalty.
	// Otherwise each output has separate ones. McRank on ML-100k, with each its best β: an error of 0.929 with 8 shared
	// ones, 0.934 with 4 times 8.
	Shared bool
	// Starts is the number of random points that the descent begins from: after startSweeps sweeps from each, the one
	// of least objective is continued. 0 means 1.
	Starts int
	// MaxSweeps bounds the sweeps after the starts, in addition to Settings.MaxIterations; 0 is for no bound.
	MaxSweeps int
	// Variance is that of the coordinates at the start, where no value of the feature is beyond ±1; 0 means 0.01. The
	// paper has 0.01; above 0.2 results get worse.
	Variance float64
	// Relaxation ω multiplies each step of a basis vector or factor, from 0 to less than 2; the objective falls with
	// any. 0 means 1.5, which takes about half the sweeps of the paper's 1 (ML-1M, squared loss).
	Relaxation float64
}

// complete returns the options with the defaults in place of zeros.
func (d Descent) complete() Descent {
	if d.Variance == 0 {
		d.Variance = 0.01
	}
	if d.Relaxation == 0 {
		d.Relaxation = 1.5
	}
	return d
}

// Name is coordinate_descent.
func (Descent) Name() string { return "coordinate_descent" }

// maxStarts bounds Starts.
const maxStarts = 1000

// Check returns an error that wraps solver.ErrProblem or solver.ErrSettings where there is no such descent.
func (d Descent) Check(p *solver.Problem, s solver.Settings) error {
	if err := p.Validate(); err != nil {
		return err
	}
	// What the conditional gradient has to say about degree 3 does not count here.
	kernel, err := solver.KernelOf(s.Kernel.String(), 2)
	if err != nil || s.Kernel.Degree() == 0 {
		return fmt.Errorf("%w: Kernel is %v", solver.ErrSettings, s.Kernel)
	}
	known := s
	known.Kernel = kernel
	if err := known.Validate(); err != nil {
		return err
	}
	homogeneous := s.Kernel == solver.Homogeneous || s.Kernel == solver.Homogeneous3
	switch {
	case s.Lambda == 0:
		return fmt.Errorf("%w: coordinate descent has no constrained form: use Lambda for Tau %g", solver.ErrSettings,
			s.Tau)
	case s.WeightsOnly:
		return fmt.Errorf(
			"%w: coordinate descent has no WeightsOnly: the conditional gradient refits the weights of any model",
			solver.ErrSettings)
	case d.Objective > Lifted || d.Weights > Fitted:
		return fmt.Errorf("%w: Objective %d or Weights %d is unknown", solver.ErrSettings, d.Objective, d.Weights)
	case d.Objective == Direct && homogeneous:
		return fmt.Errorf(
			"%w: the direct objective is not convex in a coordinate of a homogeneous kernel: use Lifted or an ANOVA kernel",
			solver.ErrSettings,
		)
	case d.Objective == Lifted && s.Kernel == solver.ANOVA3:
		return fmt.Errorf(
			"%w: the lifted objective has no ANOVA kernel of degree 3: use Direct or the homogeneous kernel",
			solver.ErrSettings)
	case d.MaxSweeps < 0:
		return fmt.Errorf("%w: MaxSweeps %d is negative", solver.ErrSettings, d.MaxSweeps)
	case d.Starts < 0 || d.Starts > maxStarts:
		return fmt.Errorf("%w: Starts %d is not from 0 to %d", solver.ErrSettings, d.Starts, maxStarts)
	case !(d.Variance >= 0 && d.Variance <= 1):
		return fmt.Errorf("%w: Variance %g is not from 0 to 1", solver.ErrSettings, d.Variance)
	case !(d.Relaxation >= 0 && d.Relaxation < 2):
		return fmt.Errorf("%w: Relaxation %g is not from 0 to less than 2", solver.ErrSettings, d.Relaxation)
	}
	return nil
}

// lifted reports whether the lifted objective is minimised.
func (d Descent) lifted(kernel solver.Kernel) bool {
	return d.Objective == Lifted || kernel == solver.Homogeneous || kernel == solver.Homogeneous3
}

// fractions of λ_max that Strengths returns, by degree.
var fractions = map[int][]float64{
	2: {0.6, 0.35, 0.2, 0.1, 0.03, 0.01, 0.003, 0.001},
	3: {0.3, 0.1, 0.03, 0.01, 0.003, 1e-3, 3e-4, 1e-4},
}

// Strengths returns fractions of solver.LambdaMax, beyond which no interaction of degree 2 has a weight. That of
// degree 2 is also used for degree 3, which has no such bound.
func (d Descent) Strengths(ctx context.Context, p *solver.Problem, s solver.Settings) ([]float64, error) {
	degree := s.Kernel.Degree()
	kernel, err := solver.KernelOf(s.Kernel.String(), 2)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", solver.ErrSettings, err)
	}
	if s.Kernel = kernel; !d.Shared {
		s.Penalty = solver.L1 // outputs are apart
	}
	top, err := solver.LambdaMax(ctx, p, s)
	if err != nil {
		return nil, err
	}
	return solver.FractionsOf(top, fractions[degree]), nil
}

// Fit descends from warm or from a random start. The result holds the model after the last sweep whose objective is no
// more than without interactions: a start that is worse after startSweeps sweeps has diverged, and the descent begins
// again from a smaller one, in the end without interactions.
//
// Status is Stalled where the objective fell by less than Tolerance over ten sweeps, BasisLimit after MaxIterations or
// MaxSweeps sweeps, else as with solver.Solve. Step 0 is the warm model or the linear term alone, each further step one
// sweep, and with several starts step 1 is all that they took. Objective, in the steps too, is that of the package's
// comment. Without a certificate GapKind is empty and Gap the objective itself, which is no less than the distance to
// the optimum. Errors are those of Check, and of ctx where not even step 0 was reached.
func (d Descent) Fit(ctx context.Context, p *solver.Problem, warm *solver.Warm,
	s solver.Settings) (*solver.Result, error) {
	if err := d.Check(p, s); err != nil {
		return nil, err
	}
	if !s.Budget.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, s.Budget.Deadline)
		defer cancel()
	}
	run := newRun(ctx, d, p, s)
	if warm != nil && warm.Model != nil {
		if err := run.load(warm.Model); err != nil {
			return nil, err
		}
	}
	return run.descend()
}

// Footprint returns the bytes that Fit takes in addition to the problem and its model, for n rows of some entries
// each over d features.
func (d Descent) Footprint(n, entries, features, k, outputs int) int64 {
	const perRow = 2 + 3 + 3 // forms of a basis vector and its factors, derivatives and curvatures
	const models = 3         // the point, the model of the last step and the one that is made
	perEntry := int64(24)
	if entries <= 4 {
		perEntry = max(perEntry, 12*int64(entries)) // with the rest of its row
	}
	rows := int64(n) * (perEntry*int64(entries) + 8*int64(perRow+10*outputs))
	if !d.Shared {
		k *= outputs
	}
	return rows + models*solver.ModelFootprint(features, k, outputs, true) + 8*maxSlots
}
