package problem

import (
	"errors"
	"fmt"
	"math"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/loss"
)

// ErrProblem is wrapped by every complaint about the shape or the numbers of a Problem.
var ErrProblem = errors.New("solver: invalid problem")

// Problem is a weighted sample of examples and the loss to fit them by: minimise Σ_i weight_i · loss(target_i, o(x_i)).
type Problem struct {
	X       *Rows
	Targets []float64 // n×m row-major: one-hot for multi-class, ±1 for binary logistic, the value for squared
	Weights []float64 // n non-negative row weights of mean about 1; nil counts every row once
	Outputs int       // m ≥ 1
	Loss    loss.Loss
	// Field gives the schema field of each column, 0 ≤ Field[j] < NumFields. The variational refit learns one precision
	// per field and basis vector; nil puts all columns into one field.
	Field     []int32
	NumFields int
}

// Target returns the m targets of row i. The slice aliases the problem.
func (p *Problem) Target(i int) []float64 { return p.Targets[i*p.Outputs : (i+1)*p.Outputs] }

// Weight returns the weight of row i.
func (p *Problem) Weight(i int) float64 {
	if p.Weights == nil {
		return 1
	}
	return p.Weights[i]
}

// Limits of magnitude, beyond which squares of kernel values or of losses could overflow. Features are meant to be
// scaled to about 1, row weights to mean 1.
const (
	MaxValue  = 1e6
	MaxTarget = 1e9
	MaxWeight = 1e9
)

// Validate returns an error that wraps ErrProblem if shapes disagree, a number is not finite, or is larger than what a
// solve can square:
// 1e6 for the values of the rows, 1e9 for targets and row weights.
func (p *Problem) Validate() error {
	if p.X == nil {
		return fmt.Errorf("%w: no rows", ErrProblem)
	}
	if err := p.X.validate(); err != nil {
		return err
	}
	n := p.X.NumRows()
	switch {
	case p.Loss == nil:
		return fmt.Errorf("%w: no loss", ErrProblem)
	case n == 0:
		return fmt.Errorf("%w: no rows", ErrProblem)
	case p.Outputs < 1 || len(p.Targets) != n*p.Outputs:
		return fmt.Errorf("%w: %d targets for %d rows of %d outputs", ErrProblem, len(p.Targets), n, p.Outputs)
	case p.Weights != nil && len(p.Weights) != n:
		return fmt.Errorf("%w: %d weights for %d rows", ErrProblem, len(p.Weights), n)
	case p.Field != nil && len(p.Field) != p.X.NumColumns:
		return fmt.Errorf("%w: fields for %d of %d columns", ErrProblem, len(p.Field), p.X.NumColumns)
	}
	if k := outside(p.X.Value, MaxValue); k >= 0 {
		return fmt.Errorf("%w: value %d of the rows is %g, not within ±%g: scale the features", ErrProblem, k,
			p.X.Value[k], MaxValue)
	}
	if k := outside(p.Targets, MaxTarget); k >= 0 {
		return fmt.Errorf("%w: target %d is %g, not within ±%g", ErrProblem, k, p.Targets[k], MaxTarget)
	}
	for i, w := range p.Weights {
		if !(w >= 0 && w <= MaxWeight) {
			return fmt.Errorf("%w: weight of row %d is %g, not from 0 to %g", ErrProblem, i, w, MaxWeight)
		}
	}
	for j, f := range p.Field {
		if f < 0 || int(f) >= p.NumFields {
			return fmt.Errorf("%w: column %d belongs to field %d of %d", ErrProblem, j, f, p.NumFields)
		}
	}
	return nil
}

// outside returns where the first number that is not within ±bound is, −1 for nowhere. The sums of squares of some at a
// time mostly say so: few enough that the processor begins one before the last is done.
func outside(x []float64, bound float64) int {
	const part = 1 << 9
	for lo := 0; lo < len(x); lo += part {
		some := x[lo:min(lo+part, len(x))]
		if dense.Dot(some, some) <= bound*bound {
			continue
		}
		for k, v := range some {
			if !(math.Abs(v) <= bound) {
				return lo + k
			}
		}
	}
	return -1
}
