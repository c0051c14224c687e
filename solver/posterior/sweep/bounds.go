package sweep

import (
	"math"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/posterior"
)

// boundTile is what the bound on the logistic loss of rows needs at its tightest (Jaakkola and Jordan 2000), output by
// output: ξ = √E[o²] and exp(−ξ).
// Exponentials are taken many at a time, and every step is a loop over the rows of one output.
type boundTile struct {
	lo, hi int
	rows   int       // of a whole tile
	weight []float64 // of the rows; nil when all are 1
	xi, e  []float64 // m columns
	sharp  []float64 // exp(−|E[o]|) of one output whose quadratics are sharpened; nil for the bound
	spread []float64 // Var z of the rows
	omega  []float64 // of quadratics
	slope  []float64
}

// boundBlock is how many outputs a tile has, or those of one row if that has more: 16 KB of numbers. Chosen by hand.
const boundBlock = 1024

// bounds calls visit for every tile of the rows [lo, hi), in order, with the bound or what sharpen needs.
func (r *Refit) bounds(lo, hi int, bound bool, visit func(*boundTile)) {
	bias := r.state.Bias
	rows := max(1, min(hi-lo, boundBlock/len(bias)))
	size := rows * len(bias)
	work := make([]float64, 2*size+2*rows)
	t := &boundTile{
		rows:  rows,
		xi:    work[:size],
		e:     work[size : 2*size],
		omega: work[2*size : 2*size+rows],
		slope: work[2*size+rows:],
	}
	var sharp []float64
	if !bound {
		sharp = make([]float64, rows)
	}
	for ; lo < hi; lo += rows {
		t.lo, t.hi = lo, min(hi, lo+rows)
		if r.problem.Weights != nil {
			t.weight = r.problem.Weights[t.lo:t.hi]
		}
		mean, spread := r.mean[t.lo:t.hi], r.spread[t.lo:t.hi]
		if t.spread = spread; !bound {
			t.sharp = sharp[:len(mean)]
			for i, z := range mean {
				t.sharp[i] = -math.Abs(bias[0] + z)
			}
			dense.Exp(t.sharp, t.sharp)
		}
		for c, b := range bias {
			xi, e := t.column(t.xi, c), t.column(t.e, c)
			xi, e, spread := xi[:len(mean)], e[:len(mean)], spread[:len(mean)]
			for i, z := range mean {
				o := b + z
				x := math.Sqrt(o*o + spread[i])
				xi[i], e[i] = x, -x
			}
			dense.Exp(e, e)
		}
		visit(t)
	}
}

// column returns the numbers of output c.
func (t *boundTile) column(of []float64, c int) []float64 {
	return of[c*t.rows : c*t.rows+t.hi-t.lo]
}

// quadratics returns ω of output c and the slope of the log-likelihood at the mean, given θ_c, E[z] of the rows and
// their targets, every outputs-th of which is of c. They are overwritten by the next call.
func (t *boundTile) quadratics(c int, bias float64, mean, target []float64, outputs int) (omega, slope []float64) {
	xi, e := t.column(t.xi, c), t.column(t.e, c)
	omega, slope, mean = t.omega[:len(xi)], t.slope[:len(xi)], mean[:len(xi)]
	e = e[:len(xi)]
	for i, x := range xi {
		y, o := target[i*outputs], bias+mean[i]
		w := posterior.JaakkolaExp(x, e[i])
		omega[i], slope[i] = w, 0.5*y-w*o
		if t.sharp != nil {
			omega[i], slope[i] = posterior.Sharpen(w, slope[i], y, o, t.spread[i], t.sharp[i])
		}
	}
	return omega, slope
}

// weightOf returns the weight of row i of the tile.
func (t *boundTile) weightOf(i int) float64 {
	if t.weight == nil {
		return 1
	}
	return t.weight[i]
}

// likelihood returns the sum of the bounds over the tile, given E[z] of its rows and their targets. Rows of one weight
// share logarithms of products.
func (t *boundTile) likelihood(bias, mean, target []float64) float64 {
	total, logs := 0.0, 0.0
	product, factors := 1.0, 0 // of 1 + e, each at most 2
	for i, z := range mean {
		value := 0.0
		for c, b := range bias {
			at := c*t.rows + i
			value += target[i*len(bias)+c]*(b+z) - t.xi[at]
			product *= 1 + t.e[at]
			if factors++; factors == maxFactors {
				logs += math.Log(product)
				product, factors = 1, 0
			}
		}
		if t.weight == nil {
			total += 0.5 * value
			continue
		}
		total += t.weight[i] * (0.5*value - logs - math.Log(product))
		product, factors, logs = 1, 0, 0
	}
	return total - logs - math.Log(product)
}

// maxFactors is how many factors of at most 2 are multiplied before a logarithm is taken. Derived: 2^512 is a number.
const maxFactors = 512

// observeTile adds what a tile contributes to the pseudo-observations.
func (r *Refit) observeTile(t *boundTile) {
	outputs := len(r.state.Bias)
	sum, right, mean := r.omega[t.lo:t.hi], r.right[t.lo:t.hi], r.mean[t.lo:t.hi]
	for c, bias := range r.state.Bias {
		omega, slope := t.quadratics(c, bias, mean, r.problem.Targets[t.lo*outputs+c:], outputs)
		for i, z := range mean {
			w := t.weightOf(i)
			sum[i] += w * omega[i]
			right[i] += w * (slope[i] + omega[i]*z)
		}
	}
}

// addBias adds to slope and curve, of m numbers each, the sums over a tile of biasSlopes.
func (r *Refit) addBias(slope, curve []float64, t *boundTile) {
	outputs, mean := len(slope), r.mean[t.lo:t.hi]
	for c, bias := range r.state.Bias {
		omega, slopes := t.quadratics(c, bias, mean, r.problem.Targets[t.lo*outputs+c:], outputs)
		for i := range mean {
			w := t.weightOf(i)
			slope[c] += w * slopes[i]
			curve[c] += w * omega[i]
		}
	}
}
