package solver

import (
	"fmt"
	"math"
)

// A Loss is smooth and convex in the m outputs of one example (Blondel et al. 2017, appendix A). Implementations are stateless and
// safe for concurrent use.
type Loss interface {
	// Name is the name used in configuration, flags and manifests.
	Name() string
	// Eval returns ℓ(target, pred) and stores ∂ℓ/∂pred in grad unless grad is nil. All three have length m; grad may be pred. Eval is
	// finite for every finite pred of magnitude below 1e150.
	Eval(grad, pred, target []float64) float64
	// Curvature bounds the largest eigenvalue of the Hessian in pred, of length m, from above.
	Curvature(m int) float64
}

// MultinomialLogistic is the multi-class logistic loss log Σ_c exp(o_c) − ⟨target, o⟩; the target is one-hot.
type MultinomialLogistic struct{}

// BinaryLogistic is the sum over outputs of log(1 + exp(−t_c o_c)) with targets t_c = ±1: ordinal regression by McRank (Li et al. 2007)
// and multi-label classification.
type BinaryLogistic struct{}

// Squared is ½ ‖o − target‖².
type Squared struct{}

// evalRows returns the weighted sum of the losses of consecutive rows, whose predictions and targets are row-major with m outputs, and stores
// the weighted gradients in grad unless it is nil; grad may be pred. Weight is nil for weights of 1.
func evalRows(loss Loss, grad, pred, target, weight []float64, m int) float64 {
	if l, ok := loss.(BinaryLogistic); ok {
		return l.evalRows(grad, pred, target, weight, m)
	}
	total := 0.0
	for i := 0; i*m < len(pred); i++ {
		lo, hi := i*m, i*m+m
		var g []float64
		if grad != nil {
			g = grad[lo:hi]
		}
		value := loss.Eval(g, pred[lo:hi], target[lo:hi])
		if weight != nil {
			value *= weight[i]
			for c := range g {
				g[c] *= weight[i]
			}
		}
		total += value
	}
	return total
}

// ParseLoss returns the loss of that name: mlogistic, smoothed_hinge, squared_hinge, binary_logistic or squared.
func ParseLoss(name string) (Loss, error) {
	for _, l := range []Loss{MultinomialLogistic{}, SmoothedHinge{}, SquaredHinge{}, BinaryLogistic{}, Squared{}} {
		if l.Name() == name {
			return l, nil
		}
	}
	return nil, fmt.Errorf("solver: unknown loss %q: use mlogistic, smoothed_hinge, squared_hinge, binary_logistic or squared", name)
}

// Name returns "mlogistic".
func (MultinomialLogistic) Name() string { return "mlogistic" }

// Curvature returns ½: the Hessian is diag(p) − pp' (Böhning 1992).
func (MultinomialLogistic) Curvature(int) float64 { return 0.5 }

// Eval costs m − 1 exponentials and one logarithm.
func (MultinomialLogistic) Eval(grad, pred, target []float64) float64 {
	target = target[:len(pred)]
	top := 0
	for c, o := range pred {
		if o > pred[top] {
			top = c
		}
	}
	peak := pred[top]
	sum, value := 1.0, peak
	if grad == nil {
		for c, o := range pred {
			value -= target[c] * o
			if c != top {
				sum += expNeg(max(o-peak, expFloor))
			}
		}
		return value + math.Log(sum)
	}
	grad = grad[:len(pred)]
	for c, o := range pred {
		value -= target[c] * o
		e := 1.0
		if c != top {
			e = expNeg(max(o-peak, expFloor))
			sum += e
		}
		grad[c] = e
	}
	scale := 1 / sum
	for c, t := range target {
		grad[c] = grad[c]*scale - t
	}
	return value + math.Log(sum)
}

// Name returns "binary_logistic".
func (BinaryLogistic) Name() string { return "binary_logistic" }

// Curvature returns ¼, the maximum of p(1 − p).
func (BinaryLogistic) Curvature(int) float64 { return 0.25 }

// maxFactors is how many factors 1 + e ≤ 2 are multiplied before a logarithm is taken.
const maxFactors = 512

// Eval costs m exponentials and one logarithm per maxFactors outputs.
func (l BinaryLogistic) Eval(grad, pred, target []float64) float64 {
	return l.evalRows(grad, pred, target, nil, len(pred))
}

// evalRows takes one logarithm of the product of many 1 + e, each between 1 and 2. Branches on the sign of an output cannot be predicted;
// there are none.
func (BinaryLogistic) evalRows(grad, pred, target, weight []float64, m int) float64 {
	target = target[:len(pred)]
	if grad != nil {
		grad = grad[:len(pred)]
	}
	total := 0.0
	scale := 1.0
	for lo := 0; lo < len(pred); {
		// Outputs of one weight share a product: those of a row, or of many.
		hi := min(len(pred), lo+maxFactors)
		if weight != nil {
			row := lo / m
			scale, hi = weight[row], min(hi, (row+1)*m)
		}
		part, signs := pred[lo:hi], target[lo:hi]
		signs = signs[:len(part)]
		value, product := 0.0, 1.0
		if grad == nil {
			for c, o := range part {
				z := signs[c] * o
				size := math.Abs(z)
				value += size - z
				if size > -expFloor {
					size = -expFloor
				}
				product *= 1 + expNeg(-size)
			}
		} else {
			out := grad[lo:hi]
			out = out[:len(part)]
			for c, o := range part {
				t := signs[c]
				z := t * o
				size := math.Abs(z)
				value += size - z
				if size > -expFloor {
					size = -expFloor
				}
				e := expNeg(-size)
				product *= 1 + e
				// σ(−z) is 1/(1+e) for z < 0 and e/(1+e) otherwise; mask is all ones for z < 0.
				mask := uint64(int64(math.Float64bits(z)) >> 63)
				top := math.Float64frombits(math.Float64bits(1)&mask | math.Float64bits(e)&^mask)
				out[c] = -scale * t * top / (1 + e)
			}
		}
		total += scale * (0.5*value + math.Log(product))
		lo = hi
	}
	return total
}

// Name returns "squared".
func (Squared) Name() string { return "squared" }

// Curvature returns 1.
func (Squared) Curvature(int) float64 { return 1 }

// Eval costs O(m).
func (Squared) Eval(grad, pred, target []float64) float64 {
	target = target[:len(pred)]
	value := 0.0
	for c, o := range pred {
		r := o - target[c]
		value += r * r
		if grad != nil {
			grad[c] = r
		}
	}
	return 0.5 * value
}
