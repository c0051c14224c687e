package solver

import (
	"math"

	"github.com/refitd/refitd/solver/internal/dense"
)

// gramMatrices approximates the Hessian of the loss in V by its diagonal blocks, one k×k matrix for each output:
//
//	G_c = Φ' diag(w_c) Φ,  w_ic = second derivative of the weighted loss of row i in output c,
//
// at the predictions of the last refresh. For losses that are sums over the outputs that is the Hessian; for the multinomial loss the full
// one is at most twice as large. A basis vector that is added costs one product of Φ with the new column for each output, with the
// second derivatives of the last refresh, so that the matrices stay positive semi-definite.
//
// They only say how far to go: the gradient, the loss and what is certified are of float64s. So their products are of float32s, summed by tiles in float64s,
// where that leaves them as good as they were: see inSingle.
type gramMatrices struct {
	f *outputFit

	curve   []float64   // n×m in tiles: w
	narrow  bool        // w fits float32s
	columns []*float64  // which columns of Φ the rows belong to: their first elements
	fits    []bool      // which of these columns fit float32s
	rows    [][]float64 // k rows of all matrices: G_c[r,s] is rows[r][c·room + s], room ≥ k
	room    int
	passes  int     // over the rows since the last refresh
	scale   float64 // of the last refit, at most 1: the next one starts with it, or its first step promises too little and ends it
	parts   [][]float64
	scratch []gramScratch // per worker
}

// gramScratch is a worker's memory.
type gramScratch struct {
	scaled []float64 // a tile of w times gramStrip columns
	// The tile in float32s, for fitTile rows each: all columns, the second derivatives of an output, and w times gramStrip columns.
	phi           [][]float32
	curve, single []float32
}

const (
	// gramStrip is the number of columns of the matrices that are computed together: Φ is read once for them.
	gramStrip = 8
	// curveFloor bounds second derivatives from below: those of rows that are fitted well vanish, but may come back before the next
	// refresh. From 1e-3 on letter takes twice the passes, below 1e-4 none less.
	curveFloor = 1e-5
	// singleRows is the least number of rows that are multiplied as float32s, and singleLeast and singleMost bound
	// the largest numbers of a column and of w then: what is lost below or above is negligible next to them.
	singleRows              = 4 * fitTile
	singleLeast, singleMost = 1e-6, 1e6
	// singleSlack is what diagonals grow by, relatively, where products are of float32s: more than sums of fitTile of them are off, so that the matrices stay
	// positive semi-definite.
	singleSlack = 1e-5
)

// stale reports whether a refresh is due. It costs n·k²·m flops, a pass 4·n·k·m, so that refreshes cost no more than the passes.
func (g *gramMatrices) stale() bool { return g.curve == nil || 4*g.passes > len(g.rows) }

// refresh computes the matrices at the predictions f.current.
func (g *gramMatrices) refresh() {
	f := g.f
	n, m := f.p.X.NumRows(), f.p.Outputs
	if g.curve == nil {
		g.curve = make([]float64, n*m)
	}
	f.workers.blocks(n, fitTile, func(worker, _, lo, hi int) {
		f.scratch[worker].loss.curvature(g.curve[lo*m:hi*m], f.current[lo*m:hi*m], f.target[lo*m:hi*m], f.weightsOf(lo, hi), hi-lo)
	})
	g.columns, g.fits, g.rows, g.passes = g.columns[:0], g.fits[:0], g.rows[:0], 0
	g.narrow = n >= singleRows && fitsSingle(g.curve)
	g.update()
}

// update drops the rows of basis vectors that are gone and adds those of new ones, which come last.
func (g *gramMatrices) update() {
	m, kept := g.f.p.Outputs, 0
	for r, phi := range g.f.phi {
		from := r
		for from < len(g.columns) && g.columns[from] != &phi[0] {
			from++
		}
		if from >= len(g.columns) {
			break
		}
		g.columns[r], g.columns[from] = g.columns[from], g.columns[r]
		g.fits[r], g.fits[from] = g.fits[from], g.fits[r]
		g.rows[r], g.rows[from] = g.rows[from], g.rows[r]
		for _, row := range g.rows {
			for c := range m {
				row[c*g.room+r], row[c*g.room+from] = row[c*g.room+from], row[c*g.room+r]
			}
		}
		kept++
	}
	g.columns, g.fits, g.rows = g.columns[:kept], g.fits[:kept], g.rows[:kept]
	k := len(g.f.phi)
	if k > g.room {
		g.widen(k + k/2)
	}
	for first := kept; first < k && g.f.workers.yield(); first += gramStrip {
		g.add(first, min(k, first+gramStrip))
	}
}

// widen makes room for more columns.
func (g *gramMatrices) widen(room int) {
	m := g.f.p.Outputs
	for r, row := range g.rows {
		wide := make([]float64, m*room)
		for c := range m {
			copy(wide[c*room:], row[c*g.room:c*g.room+len(g.rows)])
		}
		g.rows[r] = wide
	}
	g.rows, g.room = append([][]float64(nil), g.rows...), room
}

// fitsSingle reports whether the largest of the numbers is zero or one that float32s hold with room around it.
func fitsSingle(x []float64) bool {
	top := 0.0
	for _, v := range x {
		if v = math.Abs(v); !(v <= singleMost) { // also NaN
			return false
		}
		top = max(top, v)
	}
	return top == 0 || top >= singleLeast
}

// inSingle reports whether products with the first columns are taken of float32s.
func (g *gramMatrices) inSingle(columns int) bool {
	for r := len(g.fits); r < columns; r++ {
		g.fits = append(g.fits, g.narrow && fitsSingle(g.f.phi[r]))
	}
	for _, fits := range g.fits[:columns] {
		if !fits {
			return false
		}
	}
	return true
}

// add computes rows and columns first … last−1, given those before.
func (g *gramMatrices) add(first, last int) {
	f := g.f
	n, m, width := f.p.X.NumRows(), f.p.Outputs, last-first
	block := last * width
	if g.parts == nil {
		g.parts = make([][]float64, numBlocks(n))
		g.scratch = make([]gramScratch, f.workers.size)
	}
	tile, slack := g.addTile, 1.0
	if g.inSingle(last) {
		tile, slack = g.addTileSingle, 1+singleSlack
	}
	f.workers.blocks(n, rowBlock(n), func(worker, b, lo, hi int) {
		g.parts[b] = room(g.parts[b], m*block)
		for ; lo < hi; lo += fitTile {
			tile(&g.scratch[worker], g.parts[b], first, last, lo, min(hi-lo, fitTile))
		}
	})
	sum := make([]float64, m*block)
	sumInto(sum, g.parts)
	for r := first; r < last; r++ {
		if r < cap(g.rows) && len(g.rows[:r+1][r]) == m*g.room {
			g.rows = g.rows[:r+1]
		} else {
			g.rows = append(g.rows, make([]float64, m*g.room))
		}
		g.columns = append(g.columns, &f.phi[r][0])
	}
	for c := range m {
		for s := range last {
			for t := range width {
				x := sum[c*block+s*width+t]
				if s == first+t {
					x *= slack
				}
				g.rows[s][c*g.room+first+t] = x
				g.rows[first+t][c*g.room+s] = x
			}
		}
	}
}

// addTile adds to dst (m blocks of last×(last−first)) the products of the columns before last with those from first on, over the rows lo … lo+size−1.
func (g *gramMatrices) addTile(work *gramScratch, dst []float64, first, last, lo, size int) {
	m, width := g.f.p.Outputs, last-first
	block := last * width
	work.scaled = room(work.scaled, gramStrip*fitTile)
	for c := range m {
		curve := g.curve[lo*m+c*size : lo*m+c*size+size]
		for t := range width {
			out, phi := work.scaled[t*size:t*size+size], g.f.phi[first+t][lo:lo+size]
			for i, w := range curve {
				out[i] = w * phi[i]
			}
		}
		dense.DotAdd(dst[c*block:(c+1)*block], g.f.phi[:last], lo, size, work.scaled, size, width)
	}
}

// addTileSingle is addTile of float32s: .6 of its time with 26 outputs.
func (g *gramMatrices) addTileSingle(work *gramScratch, dst []float64, first, last, lo, size int) {
	m, width := g.f.p.Outputs, last-first
	block := last * width
	for r := range last {
		if r == len(work.phi) {
			work.phi = append(work.phi, make([]float32, fitTile))
		}
		narrowTile(work.phi[r], g.f.phi[r][lo:lo+size])
	}
	if work.curve == nil {
		work.curve, work.single = make([]float32, fitTile), make([]float32, gramStrip*fitTile)
	}
	lanes := (size + dense.SingleLanes - 1) / dense.SingleLanes * dense.SingleLanes
	for c := range m {
		narrowTile(work.curve, g.curve[lo*m+c*size:lo*m+c*size+size])
		for t := range width {
			dense.ProductSingle(work.single[t*lanes:(t+1)*lanes], work.curve[:lanes], work.phi[first+t][:lanes])
		}
		dense.DotAddSingle(dst[c*block:(c+1)*block], work.phi[:last], 0, lanes, work.single, lanes, width)
	}
}

// narrowTile stores a tile's numbers as float32s and zeros behind them, to the end of the lanes.
func narrowTile(dst []float32, src []float64) {
	whole := len(src) / dense.SingleLanes * dense.SingleLanes
	dense.Narrow(dst[:whole], src[:whole])
	if whole == len(src) {
		return
	}
	clear(dst[whole : whole+dense.SingleLanes])
	for i, x := range src[whole:] {
		dst[whole+i] = float32(x)
	}
}
