package solver

import "github.com/refitd/refitd/solver/internal/dense"

// gramMatrices approximates the Hessian of the loss in V by its diagonal blocks, one k×k matrix for each output:
//
//	G_c = Φ' diag(w_c) Φ,  w_ic = second derivative of the weighted loss of row i in output c,
//
// at the predictions of the last refresh. For losses that are sums over the outputs that is the Hessian; for the multinomial loss the full
// one is at most twice as large. A basis vector that is added costs one product of Φ with the new column for each output, with the
// second derivatives of the last refresh, so that the matrices stay positive semi-definite.
type gramMatrices struct {
	f *outputFit

	curve   []float64   // n×m in tiles: w
	columns []*float64  // which columns of Φ the rows belong to: their first elements
	rows    [][]float64 // k rows of all matrices: G_c[r,s] is rows[r][c·room + s], room ≥ k
	room    int
	passes  int     // over the rows since the last refresh
	scale   float64 // of the last refit, at most 1: the next one starts with it, or its first step promises too little and ends it
	parts   [][]float64
	scratch [][]float64 // per worker
}

const (
	// gramStrip is the number of columns of the matrices that are computed together: Φ is read once for them.
	gramStrip = 8
	// curveFloor bounds second derivatives from below: those of rows that are fitted well vanish, but may come back before the next
	// refresh. From 1e-3 on letter takes twice the passes, below 1e-4 none less.
	curveFloor = 1e-5
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
	g.columns, g.rows, g.passes = g.columns[:0], g.rows[:0], 0
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
		g.rows[r], g.rows[from] = g.rows[from], g.rows[r]
		for _, row := range g.rows {
			for c := range m {
				row[c*g.room+r], row[c*g.room+from] = row[c*g.room+from], row[c*g.room+r]
			}
		}
		kept++
	}
	g.columns, g.rows = g.columns[:kept], g.rows[:kept]
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

// add computes rows and columns first … last−1, given those before.
func (g *gramMatrices) add(first, last int) {
	f := g.f
	n, m, width := f.p.X.NumRows(), f.p.Outputs, last-first
	block := last * width
	if g.parts == nil {
		g.parts = make([][]float64, numBlocks(n))
		g.scratch = make([][]float64, f.workers.size)
	}
	f.workers.blocks(n, rowBlock(n), func(worker, b, lo, hi int) {
		g.parts[b] = room(g.parts[b], m*block)
		g.scratch[worker] = room(g.scratch[worker], gramStrip*fitTile)
		scaled := g.scratch[worker]
		for ; lo < hi; lo += fitTile {
			size := min(hi-lo, fitTile)
			for c := range m {
				curve := g.curve[lo*m+c*size : lo*m+c*size+size]
				for t := range width {
					out, phi := scaled[t*size:t*size+size], f.phi[first+t][lo:lo+size]
					for i, w := range curve {
						out[i] = w * phi[i]
					}
				}
				dense.DotAdd(g.parts[b][c*block:(c+1)*block], f.phi[:last], lo, size, scaled, size, width)
			}
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
				g.rows[s][c*g.room+first+t] = x
				g.rows[first+t][c*g.room+s] = x
			}
		}
	}
}
