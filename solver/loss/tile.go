package loss

import "math"

// GramStrip is the number of columns of the matrices that are computed together: Φ is read once for them.
const GramStrip = 8

// CurveFloor bounds second derivatives from below: those of rows that are fitted well vanish, but may come back before
// the next refresh. From 1e-3 on letter takes twice the passes, below 1e-4 none less.
const CurveFloor = 1e-5

// FitTile is the number of rows of a tile, the unit of every pass over the rows: a tile of predictions (m columns of
// 256 numbers) and the tile of Φ that belongs to it (k columns) stay in the caches between the product with V, the
// loss and the product with the gradients.
const FitTile = 256

// A LossTile evaluates a loss over tiles: m columns of n ≤ FitTile numbers, column c at [c·n, c·n+n), so that every
// step is a loop over contiguous numbers of one output. It holds scratch memory and serves one goroutine at a time.
type LossTile struct {
	loss Loss
	m    int
	exps [FitTile]float64 // exponentials of a column
	sums [FitTile]float64 // their sums over the outputs
	rows []float64        // prediction, target and gradient of one row
}

func NewLossTile(loss Loss, m int) *LossTile {
	return &LossTile{loss: loss, m: m, rows: make([]float64, 3*m)}
}

// Eval returns the weighted sum of the losses of n rows and stores the weighted gradients in grad unless it is nil;
// grad may be pred.
// Weight holds n row weights, or is nil for weights of 1. It equals Loss.Eval row by row up to rounding.
func (l *LossTile) Eval(grad, pred, target, weight []float64, n int) float64 {
	if fast, ok := l.loss.(tileLoss); ok {
		if value, ok := fast.evalTile(l, grad, pred, target, weight, n); ok {
			return value
		}
	}
	return l.general(grad, pred, target, weight, n)
}

// plainExp bounds outputs whose exponentials, and sums of them over any number of outputs, are far from overflow and
// underflow: there is no need to find the largest output of each row.
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
func (l *LossTile) general(grad, pred, target, weight []float64, n int) float64 {
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

// ToTiles copies the n×m row-major matrix src into tiles of FitTile rows, column by column within a tile: dst[lo·m +
// c·size + i] is entry (lo+i, c) of the tile of size rows that starts at row lo. Rows lo … hi−1 are copied; lo is the
// start of a tile.
func ToTiles(dst, src []float64, m, lo, hi int) {
	if m == 1 {
		copy(dst[lo:hi], src[lo:hi])
		return
	}
	for ; lo < hi; lo += FitTile {
		size := min(hi-lo, FitTile)
		tile, rows := dst[lo*m:(lo+size)*m], src[lo*m:(lo+size)*m]
		for c := range m {
			column := tile[c*size : c*size+size]
			for i := range column {
				column[i] = rows[i*m+c]
			}
		}
	}
}

// FromTile copies one tile of size rows into the rows of dst (size×m row-major).
func FromTile(dst, tile []float64, m, size int) {
	if m == 1 {
		copy(dst, tile[:size])
		return
	}
	for c := range m {
		for i, x := range tile[c*size : c*size+size] {
			dst[i*m+c] = x
		}
	}
}

// Curvature stores in dst the second derivatives of the weighted losses in each output, at least CurveFloor times the
// weight.
func (l *LossTile) Curvature(dst, pred, target, weight []float64, n int) {
	if curved, ok := l.loss.(curvedLoss); ok {
		curved.curveTile(l, dst, pred, target, n)
	} else {
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

// curveOfProbabilities is curvedLoss.curveTile where outputs give probabilities p with second derivatives p(1 − p).
func (l *LossTile) curveOfProbabilities(dst, pred, target []float64, n int) {
	l.Eval(dst, pred, target, nil, n)
	for i, g := range dst {
		// The gradient is p − target or, in a target of ±1, of size 1 − p: either p or 1 − p.
		p := math.Abs(g)
		dst[i] = max(p*(1-p), CurveFloor)
	}
}
