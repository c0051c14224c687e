package loss

import (
	"math"

	"github.com/refitd/refitd/solver/internal/dense"
)

// BinaryLogistic is the sum over outputs of log(1 + exp(−t_c o_c)) with targets t_c = ±1: ordinal regression by McRank
// (Li et al. 2007) and multi-label classification.
type BinaryLogistic struct{}

func (BinaryLogistic) Name() string { return "binary_logistic" }

// Curvature returns ¼, the maximum of p(1 − p).
func (BinaryLogistic) Curvature(int) float64 { return 0.25 }

// maxFactors is how many factors 1 + e ≤ 2 are multiplied before a logarithm is taken.
const maxFactors = 512

// Eval costs m exponentials and one logarithm per maxFactors outputs.
func (l BinaryLogistic) Eval(grad, pred, target []float64) float64 {
	return l.evalRows(grad, pred, target, nil, len(pred))
}

// evalRows takes one logarithm of the product of many 1 + e, each between 1 and 2. Branches on the sign of an output
// cannot be predicted; the code has none.
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

func (BinaryLogistic) curveTile(l *LossTile, dst, pred, target []float64, n int) {
	l.curveOfProbabilities(dst, pred, target, n)
}

// evalTile evaluates log(1 + exp(o)) − y·o with y = (1 + target)/2 ∈ {0, 1}, whose derivative is 1 − y − 1/(1
// + exp(o)): no branch depends on a sign that cannot be predicted. One logarithm is taken of a product of many 1 +
// exp(o), as many as cannot overflow.
func (BinaryLogistic) evalTile(l *LossTile, grad, pred, target, weight []float64, n int) (value float64, ok bool) {
	top := largest(pred)
	if top > plainExp {
		return 0, false
	}
	factors := int(plainFactors / (top + 1))
	products := l.sums[:n]
	total := 0.0
	for c := range l.m {
		p, t := pred[c*n:c*n+n], target[c*n:c*n+n]
		e, t := l.exps[:len(p)], t[:len(p)]
		dense.Exp(e, p)
		if weight == nil {
			total -= 0.5 * (dense.Dot(p, t) + dense.Dot(p, ones[:n]))
			for lo := 0; lo < n; lo += factors {
				total += logOnePlus(e[lo:min(n, lo+factors)])
			}
		} else {
			// The factors of one row have one weight.
			for i, w := range weight[:n] {
				if c%factors == 0 {
					products[i] = 1
				}
				products[i] *= 1 + e[i]
				total -= 0.5 * w * (p[i] + t[i]*p[i])
			}
			if c%factors == factors-1 || c == l.m-1 {
				for i, w := range weight[:n] {
					total += w * math.Log(products[i])
				}
			}
		}
		if grad == nil {
			continue
		}
		g := grad[c*n : c*n+n]
		g = g[:len(e)]
		for i, x := range e {
			g[i] = (0.5 - 0.5*t[i]) - 1/(1+x)
		}
		if weight != nil {
			for i, w := range weight[:n] {
				g[i] *= w
			}
		}
	}
	return total, true
}

// plainFactors bounds the logarithm of a product that does not overflow.
const plainFactors = 700

// ones makes a sum a dot product.
var ones = func() (x [FitTile]float64) {
	for i := range x {
		x[i] = 1
	}
	return x
}()

// logOnePlus returns Σ log(1 + e), e ≥ 0, for numbers whose product is finite.
func logOnePlus(e []float64) float64 {
	a, b, c, d := 1.0, 1.0, 1.0, 1.0
	for ; len(e) >= 4; e = e[4:] {
		a *= 1 + e[0]
		b *= 1 + e[1]
		c *= 1 + e[2]
		d *= 1 + e[3]
	}
	for _, x := range e {
		a *= 1 + x
	}
	return math.Log((a * b) * (c * d))
}
