package output

import (
	"math"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/problem"
)

// GramMatrices approximates the Hessian of the loss in V by its diagonal blocks, one k×k matrix for each output:
//
//	G_c = Φ' diag(w_c) Φ,  w_ic = second derivative of the weighted loss of row i in output c,
//
// at the predictions of the last refresh. For losses that are sums over the outputs that is the Hessian; for the
// multinomial loss the full one is at most twice as large. A basis vector that is added costs one product of Φ with the
// new column for each output, with the second derivatives of the last refresh, so that the matrices stay positive
// semi-definite.
//
// They only say how far to go: the gradient, the loss and what is certified are of float64s. So their products are of
// float32s, summed by tiles in float64s, where that leaves them as good as they were: see InSingle.
type GramMatrices struct {
	F *OutputFit

	Curve   []float64   // n×m in tiles: w
	narrow  bool        // w fits float32s
	columns []*float64  // which columns of Φ the rows belong to: their first elements
	fits    []bool      // which of these columns fit float32s
	Rows    [][]float64 // k rows of all matrices: G_c[r,s] is rows[r][c·room + s], room ≥ k
	Room    int
	passes  int // over the rows since the last refresh
	// of the last refit, at most 1: the next one starts with it, or its first step promises too little and ends it
	scale   float64
	parts   [][]float64
	scratch []gramScratch // per worker
}

// gramScratch is a worker's memory.
type gramScratch struct {
	scaled []float64 // a tile of w times GramStrip columns
	// The tile in float32s, for FitTile rows each: all columns, the second derivatives of an output, and w times
	// GramStrip columns.
	phi           [][]float32
	curve, single []float32
}

const (
	// singleRows is the least number of rows that are multiplied as float32s, and singleLeast and singleMost bound
	// the largest numbers of a column and of w then: what is lost below or above is negligible next to them.
	singleRows              = 4 * loss.FitTile
	singleLeast, singleMost = 1e-6, 1e6
	// SingleSlack is what diagonals grow by, relatively, where products are of float32s: more than sums of FitTile of
	// them are off, so that the matrices stay positive semi-definite.
	SingleSlack = 1e-5
)

// stale reports whether a refresh is due. It costs n·k²·m flops, a pass 4·n·k·m, so that refreshes cost no more
// than the passes.
func (g *GramMatrices) stale() bool { return g.Curve == nil || 4*g.passes > len(g.Rows) }

// Refresh computes the matrices at the predictions f.current.
func (g *GramMatrices) Refresh() {
	f := g.F
	n, m := f.P.X.NumRows(), f.P.Outputs
	if g.Curve == nil {
		g.Curve = make([]float64, n*m)
	}
	f.Workers.Blocks(n, loss.FitTile, func(worker, _, lo, hi int) {
		f.Scratch[worker].Loss.Curvature(g.Curve[lo*m:hi*m], f.Current[lo*m:hi*m], f.Target[lo*m:hi*m],
			f.weightsOf(lo, hi), hi-lo)
	})
	g.columns, g.fits, g.Rows, g.passes = g.columns[:0], g.fits[:0], g.Rows[:0], 0
	g.narrow = n >= singleRows && fitsSingle(g.Curve)
	g.Update()
}

// Update drops the rows of basis vectors that are gone and adds those of new ones, which come last.
func (g *GramMatrices) Update() {
	m, kept := g.F.P.Outputs, 0
	for r, phi := range g.F.Phi {
		from := r
		for from < len(g.columns) && g.columns[from] != &phi[0] {
			from++
		}
		if from >= len(g.columns) {
			break
		}
		g.columns[r], g.columns[from] = g.columns[from], g.columns[r]
		g.fits[r], g.fits[from] = g.fits[from], g.fits[r]
		g.Rows[r], g.Rows[from] = g.Rows[from], g.Rows[r]
		for _, row := range g.Rows {
			for c := range m {
				row[c*g.Room+r], row[c*g.Room+from] = row[c*g.Room+from], row[c*g.Room+r]
			}
		}
		kept++
	}
	g.columns, g.fits, g.Rows = g.columns[:kept], g.fits[:kept], g.Rows[:kept]
	k := len(g.F.Phi)
	if k > g.Room {
		g.widen(k + k/2)
	}
	for first := kept; first < k && g.F.Workers.Yield(); first += loss.GramStrip {
		g.add(first, min(k, first+loss.GramStrip))
	}
}

// widen makes room for more columns.
func (g *GramMatrices) widen(room int) {
	m := g.F.P.Outputs
	for r, row := range g.Rows {
		wide := make([]float64, m*room)
		for c := range m {
			copy(wide[c*room:], row[c*g.Room:c*g.Room+len(g.Rows)])
		}
		g.Rows[r] = wide
	}
	g.Rows, g.Room = append([][]float64(nil), g.Rows...), room
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

// InSingle reports whether products with the first columns are taken of float32s.
func (g *GramMatrices) InSingle(columns int) bool {
	for r := len(g.fits); r < columns; r++ {
		g.fits = append(g.fits, g.narrow && fitsSingle(g.F.Phi[r]))
	}
	for _, fits := range g.fits[:columns] {
		if !fits {
			return false
		}
	}
	return true
}

// add computes rows and columns first … last−1, given those before.
func (g *GramMatrices) add(first, last int) {
	f := g.F
	n, m, width := f.P.X.NumRows(), f.P.Outputs, last-first
	block := last * width
	if g.parts == nil {
		g.parts = make([][]float64, problem.NumBlocks(n))
		g.scratch = make([]gramScratch, f.Workers.Size)
	}
	tile, slack := g.addTile, 1.0
	if g.InSingle(last) {
		tile, slack = g.addTileSingle, 1+SingleSlack
	}
	f.Workers.Blocks(n, problem.RowBlock(n), func(worker, b, lo, hi int) {
		g.parts[b] = problem.Room(g.parts[b], m*block)
		for ; lo < hi; lo += loss.FitTile {
			tile(&g.scratch[worker], g.parts[b], first, last, lo, min(hi-lo, loss.FitTile))
		}
	})
	sum := make([]float64, m*block)
	parallel.SumInto(sum, g.parts)
	for r := first; r < last; r++ {
		if r < cap(g.Rows) && len(g.Rows[:r+1][r]) == m*g.Room {
			g.Rows = g.Rows[:r+1]
		} else {
			g.Rows = append(g.Rows, make([]float64, m*g.Room))
		}
		g.columns = append(g.columns, &f.Phi[r][0])
	}
	for c := range m {
		for s := range last {
			for t := range width {
				x := sum[c*block+s*width+t]
				if s == first+t {
					x *= slack
				}
				g.Rows[s][c*g.Room+first+t] = x
				g.Rows[first+t][c*g.Room+s] = x
			}
		}
	}
}

// addTile adds to dst (m blocks of last×(last−first)) the products of the columns before last with those from first
// on, over the rows lo … lo+size−1.
func (g *GramMatrices) addTile(work *gramScratch, dst []float64, first, last, lo, size int) {
	m, width := g.F.P.Outputs, last-first
	block := last * width
	work.scaled = problem.Room(work.scaled, loss.GramStrip*loss.FitTile)
	for c := range m {
		curve := g.Curve[lo*m+c*size : lo*m+c*size+size]
		for t := range width {
			out, phi := work.scaled[t*size:t*size+size], g.F.Phi[first+t][lo:lo+size]
			for i, w := range curve {
				out[i] = w * phi[i]
			}
		}
		dense.DotAdd(dst[c*block:(c+1)*block], g.F.Phi[:last], lo, size, work.scaled, size, width)
	}
}

// addTileSingle is addTile of float32s: .6 of its time with 26 outputs.
func (g *GramMatrices) addTileSingle(work *gramScratch, dst []float64, first, last, lo, size int) {
	m, width := g.F.P.Outputs, last-first
	block := last * width
	for r := range last {
		if r == len(work.phi) {
			work.phi = append(work.phi, make([]float32, loss.FitTile))
		}
		narrowTile(work.phi[r], g.F.Phi[r][lo:lo+size])
	}
	if work.curve == nil {
		work.curve, work.single = make([]float32, loss.FitTile), make([]float32, loss.GramStrip*loss.FitTile)
	}
	lanes := (size + dense.SingleLanes - 1) / dense.SingleLanes * dense.SingleLanes
	for c := range m {
		narrowTile(work.curve, g.Curve[lo*m+c*size:lo*m+c*size+size])
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
