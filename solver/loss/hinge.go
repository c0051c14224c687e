package loss

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// SmoothedHinge is the smoothed multi-class hinge loss log(1 + Σ_{c≠y} exp(1 + o_c − o_y)) (Blondel et al. 2017, table
// 3): the multi-class logistic loss with every wrong class one unit ahead. The target is one-hot.
type SmoothedHinge struct{}

// SquaredHinge is the multi-class squared hinge loss Σ_{c≠y} max(1 + o_c − o_y, 0)² (Blondel et al. 2017, table 3). The
// target is one-hot. It takes no exponentials.
type SquaredHinge struct{}

func (SmoothedHinge) Name() string { return "smoothed_hinge" }

// Curvature returns ½: the Hessian is that of the logistic loss at o + 1 − target, diag(p) − pp' (Böhning 1992).
func (SmoothedHinge) Curvature(int) float64 { return 0.5 }

// Eval costs m − 1 exponentials and one logarithm.
func (SmoothedHinge) Eval(grad, pred, target []float64) float64 {
	y := floats.MaxIdx(target[:len(pred)])
	base := pred[y]
	peak, top := 0.0, y // of the margins 1 + o_c − o_y, and 0 for y itself
	for c, o := range pred {
		if c != y && 1+(o-base) > peak {
			peak, top = 1+(o-base), c
		}
	}
	rest := 0.0 // Σ exp(margin − peak) without the largest
	for c, o := range pred {
		margin := 1 + (o - base)
		if c == y {
			margin = 0
		}
		e := 1.0
		if c != top {
			e = expNeg(max(margin-peak, expFloor))
			rest += e
		}
		if grad != nil {
			grad[c] = e
		}
	}
	if grad != nil {
		scale := 1 / (1 + rest)
		for c := range pred {
			grad[c] *= scale
		}
		// The gradient of the true class is minus the sum of the others; p_y − 1 loses its digits where p_y is close
		// to 1.
		if top == y {
			grad[y] = -rest * scale
		} else {
			grad[y]--
		}
	}
	return peak + math.Log1p(rest)
}

func (SmoothedHinge) evalTile(l *LossTile, grad, pred, target, weight []float64, n int) (value float64, ok bool) {
	return l.multinomial(true, grad, pred, target, weight, n)
}

func (SmoothedHinge) curveTile(l *LossTile, dst, pred, target []float64, n int) {
	l.curveOfProbabilities(dst, pred, target, n)
}

func (SquaredHinge) Name() string { return "squared_hinge" }

// Curvature returns 2m for m outputs: with a ≤ m − 1 margins above 0, the Hessian is 2 Σ_c (e_c − e_y)(e_c − e_y)',
// whose eigenvalues are 2(a + 1), 2 and 0.
func (SquaredHinge) Curvature(m int) float64 { return 2 * float64(m) }

// Eval costs O(m).
func (SquaredHinge) Eval(grad, pred, target []float64) float64 {
	y := floats.MaxIdx(target[:len(pred)])
	base := pred[y]
	value, sum := 0.0, 0.0
	for c, o := range pred {
		margin := 0.0
		if c != y {
			margin = max(1+(o-base), 0)
		}
		value += margin * margin
		sum += margin
		if grad != nil {
			grad[c] = 2 * margin
		}
	}
	if grad != nil {
		grad[y] = -2 * sum
	}
	return value
}

func (SquaredHinge) curveTile(l *LossTile, dst, pred, target []float64, n int) {
	l.Eval(dst, pred, target, nil, n)
	active := l.sums[:n] // twice the number of margins above 0: what the true class has
	clear(active)
	for c := range l.m {
		for i, g := range dst[c*n : c*n+n] {
			dst[c*n+i] = CurveFloor
			if g > 0 {
				dst[c*n+i] = 2
				active[i] += 2
			}
		}
	}
	for i, t := range target {
		if t == 1 {
			dst[i] = max(active[i%n], CurveFloor)
		}
	}
}
