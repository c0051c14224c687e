package solver

import (
	"context"
	"fmt"

	"github.com/refitd/refitd/solver/internal/convexfm"
)

// ConvexFM is the convex factorization machine of Blondel et al. 2015:
//
//	min over w, b and symmetric Z of  Σ_i w_i ℓ(t_i, ŷ(x_i)) + λ‖Z‖_* + ½ α ‖w‖² + ½ α_b b²,
//	ŷ(x) = ⟨w,x⟩ + b + ⟨Z, xx'⟩ (Homogeneous), or with ½⟨Z, xx' − diag(x)²⟩ (ANOVA),
//
// by their greedy coordinate descent: the dominant eigenvector of the gradient in Z enters, here with those next to it
// that violate optimality as well, Z is refitted over the eigenvectors found so far, then w and b, by Newton steps, so
// that α may be as small as the paper's 1e-9. There is no rank to choose: λ sets it, and MaxBasis only bounds it. A
// model holds the eigenvectors of Z as Basis, with its eigenvalues as Weights.
//
// The problem is the one that ConditionalGradient solves with the ℓ1 penalty and one output, so selection, linear term,
// certificates, budgets and warm starts are the same; what differs is the refit, which is fully corrective
// (CorrectiveFit) unless Diagonal, and moves the vectors as well (factorDescent), but where the whole Z is refitted. A
// fit ends as soon as its certified gap is within Tolerance; as long as it is not, both ways are brought to the joint
// optimum as Solve does. Early steps of a fit from nothing, which lower the objective by more than a thousandth, refit
// roughly and leave the linear term short of its optimum: as Step.Gap they say what that allows, with a small ridge the
// objective itself.
//
// Refits of the whole Z are given up where they get nowhere (ShortModels, WholeSteps), and the fit continues as Solve
// does.
//
// In the end Z is brought to its eigendecomposition, which never raises the objective.
//
// Settings.Lambda multiplies the nuclear norm, which is added to the sum of the losses. The β of the paper is λ for
// Homogeneous ("use diag"); for ANOVA ("ignore diag") it is 2λ and the paper's Z is half of this one, as the kernel
// here counts a product of two features once and the paper twice. Flags and configuration give λ for 10,000 rows: β ·
// 10⁴/n, or half of it. Penalty, Refit, FullEvery, FullIterations, BasisRidge and Solver are not used.
type ConvexFM struct {
	// Diagonal refits the weights of the basis vectors alone, their diagonal refitting (9); false refits k×k matrices
	// (11).
	Diagonal bool
}

func (ConvexFM) Name() string { return "convex_fm" }

// Check returns an error for several outputs, other losses than Squared, BinaryLogistic and BinarySquaredHinge, kernels
// of degree 3 and the constrained form.
func (a ConvexFM) Check(p *Problem, s Settings) error {
	switch {
	case s.Tau > 0:
		return fmt.Errorf("%w: convex_fm has no constrained form: set Lambda and not Tau, or use conditional_gradient",
			ErrSettings)
	case s.Kernel.Degree() == 3:
		return fmt.Errorf(
			"%w: convex_fm has degree 2 only: use conditional_gradient or coordinate_descent for degree 3", ErrSettings)
	}
	if err := a.settings(s).Validate(); err != nil {
		return err
	}
	if err := p.Validate(); err != nil {
		return err
	}
	if p.Outputs != 1 {
		return fmt.Errorf("%w: convex_fm has one output, not %d: use conditional_gradient", ErrProblem, p.Outputs)
	}
	switch p.Loss.(type) {
	case Squared, BinaryLogistic, BinarySquaredHinge:
		return nil
	}
	return fmt.Errorf("%w: convex_fm has no loss %s: use %s, %s or %s, or conditional_gradient", ErrProblem,
		p.Loss.Name(), Squared{}.Name(), BinaryLogistic{}.Name(), BinarySquaredHinge{}.Name())
}

// Strengths returns fractions of LambdaMax.
func (a ConvexFM) Strengths(ctx context.Context, p *Problem, s Settings) ([]float64, error) {
	return ConditionalGradient{}.Strengths(ctx, p, a.settings(s))
}

// settings returns those of the same problem for Solve.
func (ConvexFM) settings(s Settings) Settings {
	s.Penalty, s.Refit, s.Solver, s.BasisRidge = L1, OutputLayer, Hybrid, 0
	s.FullEvery, s.FullIterations = max(1, s.FullEvery), max(1, s.FullIterations)
	return s
}

// Fit solves the problem. The warm model may have been fitted by any algorithm with the same kernel. Result.NuclearNorm
// and Rank are those of Z.
func (a ConvexFM) Fit(ctx context.Context, p *Problem, warm *Warm, s Settings) (*Result, error) {
	return a.fit(ctx, p, warm, s, convexfm.WholeColumns)
}

// fit is Fit with refits of the whole Z up to the given number of columns.
func (a ConvexFM) fit(ctx context.Context, p *Problem, warm *Warm, s Settings, columns int) (*Result, error) {
	if err := a.Check(p, s); err != nil {
		return nil, err
	}
	ctx, cancel := s.Budget.within(ctx)
	defer cancel()
	run, err := newSolve(ctx, p, a.settings(s))
	if err != nil {
		return nil, err
	}
	run.spectrum = &convexfm.Spectrum{}
	run.eigen = run.spectrum
	if !a.Diagonal {
		run.spectrum.Fit = convexfm.NewCorrectiveFit(p, run.gamma, run.linear, s.Lambda, run.workers)
		if run.spectrum.Fit.Whole = min(s.MaxBasis, columns) >= p.X.NumColumns; run.spectrum.Fit.Whole {
			run.spectrum.Fit.Newton = convexfm.NewWholeNewton(run.spectrum.Fit, run.linear)
		}
	}
	if s.Kernel == ANOVA {
		run.spectrum.Split = p.X.Split()
	}
	if !run.spectrum.IsWhole() && !s.WeightsOnly && s.MaxBasis > 0 {
		run.spectrum.Factors = convexfm.NewFactorDescent(p, s.Kernel, run.linear, s.Lambda, run.workers)
	}
	var from *Model
	if warm != nil {
		from = warm.Model
	}
	return run.run(ctx, from)
}
