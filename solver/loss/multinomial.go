package loss

import (
	"math"

	"github.com/refitd/refitd/solver/internal/dense"
)

// MultinomialLogistic is the multi-class logistic loss log Σ_c exp(o_c) − ⟨target, o⟩; the target is one-hot.
type MultinomialLogistic struct{}

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

func (MultinomialLogistic) evalTile(l *LossTile, grad, pred, target, weight []float64, n int) (value float64, ok bool) {
	return l.multinomial(false, grad, pred, target, weight, n)
}

func (MultinomialLogistic) curveTile(l *LossTile, dst, pred, target []float64, n int) {
	l.curveOfProbabilities(dst, pred, target, n)
}

// multinomial takes the exponentials as they are, see plainExp. The smoothed hinge loss is that of outputs with 1 added
// to those of the wrong classes.
func (l *LossTile) multinomial(hinge bool, grad, pred, target, weight []float64, n int) (value float64, ok bool) {
	if !(largest(pred) <= plainExp) {
		return 0, false
	}
	sums := l.sums[:n]
	clear(sums)
	total := 0.0
	for c := range l.m {
		p, t := pred[c*n:c*n+n], target[c*n:c*n+n]
		if weight == nil {
			total -= dense.Dot(p, t)
		} else {
			for i, w := range weight[:n] {
				total -= w * t[i] * p[i]
			}
		}
		e := l.exps[:n]
		if grad != nil {
			e = grad[c*n : c*n+n]
		}
		if hinge {
			for i, o := range p {
				e[i] = o + (1 - t[i])
			}
			p = e
		}
		dense.Exp(e, p)
		dense.AddScaled(sums, 1, e)
	}
	if weight == nil {
		for i, s := range sums {
			total += math.Log(s)
			sums[i] = 1 / s
		}
	} else {
		for i, s := range sums {
			total += weight[i] * math.Log(s)
			sums[i] = weight[i] / s
		}
	}
	if grad == nil {
		return total, true
	}
	for c := range l.m {
		g, t := grad[c*n:c*n+n], target[c*n:c*n+n]
		t = t[:len(g)]
		scale := sums[:len(g)]
		if weight == nil {
			for i, e := range g {
				g[i] = e*scale[i] - t[i]
			}
		} else {
			w := weight[:len(g)]
			for i, e := range g {
				g[i] = e*scale[i] - w[i]*t[i]
			}
		}
	}
	return total, true
}
