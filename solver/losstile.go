package solver

import (
	"math"

	"github.com/refitd/refitd/solver/internal/dense"
)

// fitTile is the number of rows of a tile, the unit of every pass over the rows: a tile of predictions (m columns of 256 numbers) and the
// tile of Φ that belongs to it (k columns) stay in the caches between the product with V, the loss and the product with the gradients.
const fitTile = 256

// A lossTile evaluates a loss over tiles: m columns of n ≤ fitTile numbers, column c at [c·n, c·n+n), so that every step is a loop over
// contiguous numbers of one output. It holds scratch memory and serves one goroutine at a time.
type lossTile struct {
	loss Loss
	m    int
	exps [fitTile]float64 // exponentials of a column
	sums [fitTile]float64 // their sums over the outputs
	rows []float64        // prediction, target and gradient of one row
}

func newLossTile(loss Loss, m int) *lossTile {
	return &lossTile{loss: loss, m: m, rows: make([]float64, 3*m)}
}

// eval returns the weighted sum of the losses of n rows and stores the weighted gradients in grad unless it is nil; grad may be pred.
// Weight holds n row weights, or is nil for weights of 1. It equals Loss.Eval row by row up to rounding.
func (l *lossTile) eval(grad, pred, target, weight []float64, n int) float64 {
	switch l.loss.(type) {
	case BinaryLogistic:
		return l.binary(grad, pred, target, weight, n)
	case MultinomialLogistic, SmoothedHinge:
		if largest(pred) <= plainExp {
			return l.multinomial(grad, pred, target, weight, n)
		}
	case Squared:
		return l.squared(grad, pred, target, weight, n)
	}
	return l.general(grad, pred, target, weight, n)
}

// plainExp bounds outputs whose exponentials, and sums of them over any number of outputs, are far from overflow and underflow: there is no
// need to find the largest output of each row.
const plainExp = 300

// largest returns max|x|, or +Inf if there is a NaN.
func largest(x []float64) float64 {
	top := uint64(0)
	for _, v := range x {
		top = max(top, math.Float64bits(v)&^(1<<63))
	}
	if top > 0x7ff<<52 {
		return math.Inf(1)
	}
	return math.Float64frombits(top)
}

// general is the slow path: one row at a time.
func (l *lossTile) general(grad, pred, target, weight []float64, n int) float64 {
	m := l.m
	p, t, g := l.rows[:m], l.rows[m:2*m], l.rows[2*m:]
	if grad == nil {
		g = nil
	}
	total := 0.0
	for i := range n {
		for c := range m {
			p[c], t[c] = pred[c*n+i], target[c*n+i]
		}
		w := 1.0
		if weight != nil {
			w = weight[i]
		}
		total += w * l.loss.Eval(g, p, t)
		for c, x := range g {
			grad[c*n+i] = w * x
		}
	}
	return total
}

func (l *lossTile) squared(grad, pred, target, weight []float64, n int) float64 {
	total := 0.0
	for c := range l.m {
		p, t := pred[c*n:c*n+n], target[c*n:c*n+n]
		residual := l.exps[:n]
		if grad != nil {
			residual = grad[c*n : c*n+n]
		}
		for i, o := range p {
			residual[i] = o - t[i]
		}
		if weight == nil {
			total += dense.Dot(residual, residual)
			continue
		}
		for i, w := range weight[:n] {
			r := residual[i]
			total += w * r * r
			residual[i] = w * r
		}
	}
	return 0.5 * total
}

// multinomial takes the exponentials as they are, see plainExp. The smoothed hinge loss is that of outputs with 1 added to those of the wrong
// classes.
func (l *lossTile) multinomial(grad, pred, target, weight []float64, n int) float64 {
	sums := l.sums[:n]
	clear(sums)
	total := 0.0
	_, hinge := l.loss.(SmoothedHinge)
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
		return total
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
	return total
}

// binary evaluates log(1 + exp(o)) − y·o with y = (1 + target)/2 ∈ {0, 1}, whose derivative is 1 − y − 1/(1 + exp(o)): no branch depends
// on a sign that cannot be predicted. One logarithm is taken of a product of many 1 + exp(o), as many as cannot overflow.
func (l *lossTile) binary(grad, pred, target, weight []float64, n int) float64 {
	top := largest(pred)
	if top > plainExp {
		return l.general(grad, pred, target, weight, n)
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
	return total
}

// plainFactors bounds the logarithm of a product that does not overflow.
const plainFactors = 700

// ones makes a sum a dot product.
var ones = func() (x [fitTile]float64) {
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

// toTiles copies the n×m row-major matrix src into tiles of fitTile rows, column by column within a tile: dst[lo·m + c·size + i] is
// entry (lo+i, c) of the tile of size rows that starts at row lo. Rows lo … hi−1 are copied; lo is the start of a tile.
func toTiles(dst, src []float64, m, lo, hi int) {
	for ; lo < hi; lo += fitTile {
		size := min(hi-lo, fitTile)
		tile, rows := dst[lo*m:(lo+size)*m], src[lo*m:(lo+size)*m]
		for c := range m {
			column := tile[c*size : c*size+size]
			for i := range column {
				column[i] = rows[i*m+c]
			}
		}
	}
}

// fromTile copies one tile of size rows into the rows of dst (size×m row-major).
func fromTile(dst, tile []float64, m, size int) {
	for c := range m {
		for i, x := range tile[c*size : c*size+size] {
			dst[i*m+c] = x
		}
	}
}

// curvature stores in dst the second derivatives of the weighted losses in each output, at least curveFloor times the weight.
func (l *lossTile) curvature(dst, pred, target, weight []float64, n int) {
	switch l.loss.(type) {
	case MultinomialLogistic, SmoothedHinge, BinaryLogistic:
		l.eval(dst, pred, target, nil, n)
		for i, g := range dst {
			// The gradient is p − target or, in a target of ±1, of size 1 − p: either p or 1 − p.
			p := math.Abs(g)
			dst[i] = max(p*(1-p), curveFloor)
		}
	case SquaredHinge:
		l.eval(dst, pred, target, nil, n)
		active := l.sums[:n] // twice the number of margins above 0: what the true class has
		clear(active)
		for c := range l.m {
			for i, g := range dst[c*n : c*n+n] {
				dst[c*n+i] = curveFloor
				if g > 0 {
					dst[c*n+i] = 2
					active[i] += 2
				}
			}
		}
		for i, t := range target {
			if t == 1 {
				dst[i] = max(active[i%n], curveFloor)
			}
		}
	default:
		bound := l.loss.Curvature(l.m)
		for i := range dst {
			dst[i] = bound
		}
	}
	if weight != nil {
		for c := range l.m {
			column := dst[c*n : c*n+n]
			for i, w := range weight {
				column[i] *= w
			}
		}
	}
}
