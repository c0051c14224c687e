package solver

import (
	"context"
	"errors"
	"math"
)

// Algorithm fits a Model to a Problem. Solve, as ConditionalGradient, is one; the packages below this one have the
// others. What only one of them needs is in its value; Settings are what they share. Implementations are values without
// state, safe for concurrent use.
type Algorithm interface {
	// Name is the name used in configuration, flags and manifests.
	Name() string
	// Check returns an error that wraps ErrProblem or ErrSettings if the algorithm cannot fit the problem under these
	// settings. It says what the algorithm has that is nearest.
	Check(p *Problem, s Settings) error
	// Strengths returns the λ that an automatic choice tries, the strongest first. Lambda and Tau of s are not used.
	Strengths(ctx context.Context, p *Problem, s Settings) ([]float64, error)
	// Fit fits p under s, as Solve does: cancellation, Budget, OnStep, Yield and Workers mean the same, a solve that
	// was cut short returns what it has, and the result depends on p, warm and s only. Settings that the algorithm has
	// no use for are ignored; Check refuses those that would be missed. p and warm are read, never written; warm may be
	// nil.
	Fit(ctx context.Context, p *Problem, warm *Warm, s Settings) (*Result, error)
}

// Warm is what a fit starts from.
type Warm struct {
	Model *Model // nil for none; its columns are those of the problem
	// Dual holds the dual variables of the rows of the problem, n×m row-major, of an algorithm that keeps them
	// (Result.Dual); rows that are new have zeros. Nil for none.
	Dual []float64
	// New are the rows that Dual knows nothing of; nil for those whose dual variables are all 0, which may be rows that
	// need none.
	New []int32
}

// ConditionalGradient is Algorithm 1 of Blondel et al. 2017: see Solve.
type ConditionalGradient struct{}

func (ConditionalGradient) Name() string { return "conditional_gradient" }

// Check validates both.
func (ConditionalGradient) Check(p *Problem, s Settings) error {
	if err := p.Validate(); err != nil {
		return err
	}
	return s.Validate()
}

// strengths are the fractions of λ_max, above which no basis vector enters, that ConditionalGradient tries. Ratings
// choose the first three, small sets of dense numbers the last.
var strengths = []float64{0.6, 0.35, 0.2, 0.1, 0.03, 0.01, 0.003, 0.001}

// Strengths returns fractions of LambdaMax.
func (ConditionalGradient) Strengths(ctx context.Context, p *Problem, s Settings) ([]float64, error) {
	top, err := LambdaMax(ctx, p, s)
	if err != nil {
		return nil, err
	}
	return FractionsOf(top, strengths), nil
}

// FractionsOf returns fractions of a largest λ, none of them 0.
func FractionsOf(top float64, fractions []float64) []float64 {
	lambdas := make([]float64, len(fractions))
	for i, f := range fractions {
		lambdas[i] = max(f*top, math.SmallestNonzeroFloat32)
	}
	return lambdas
}

// Fit is Solve.
func (ConditionalGradient) Fit(ctx context.Context, p *Problem, warm *Warm, s Settings) (*Result, error) {
	if warm == nil {
		return Solve(ctx, p, nil, s)
	}
	return Solve(ctx, p, warm.Model, s)
}

// pathOf is Path for any algorithm: one λ after the other, each from where the one before ended.
func pathOf(ctx context.Context, a Algorithm, p *Problem, lambdas []float64, s Settings,
	o PathOptions) (points []*PathPoint, best int, err error) {
	ctx, cancel := s.Budget.within(ctx)
	defer cancel()
	t := &pathRun{
		lambdas: lambdas,
		options: o,
		points:  make([]*PathPoint, len(lambdas)),
		errs:    make([]error, len(lambdas)),
		cut:     len(lambdas),
	}
	for range lambdas {
		t.cancel = append(t.cancel, func() {}) // none runs ahead
	}
	warm := o.Warm
	for i, lambda := range lambdas {
		if ctx.Err() != nil || i >= t.cut {
			break
		}
		s.Lambda = lambda
		t.record(i, s, func(s Settings) (*Result, error) { return a.Fit(ctx, p, warm, s) })
		if err := t.errs[i]; err != nil {
			if i > 0 && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				t.errs[i] = nil // it had not begun
			}
			break
		}
		warm = &Warm{Model: t.points[i].Result.Model, Dual: t.points[i].Result.Dual}
	}
	return t.outcome(ctx)
}
