package gamma

import (
	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/eigen"
	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/problem"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
)

// For few columns and many rows it is cheaper to form the Γ_c once per basis selection than to pass over the rows for
// each product with them. They are kept side by side: entry [(j,l), c] of the P×m matrix packed, P = d(d+1)/2, is
// Γ_c[j,l] for j ≤ l, pairs in the order (0,0), (0,1) … (0,d−1), (1,1) … Forming them is then one product of the n×P
// matrix of x_j x_l with D.

const (
	// maxExplicitColumns keeps the packed operators within m·66 kB.
	maxExplicitColumns = 128
	// explicitTile is the number of rows whose columns (256·8 bytes each) stay in the caches while their products are
	// summed.
	explicitTile = 256
	// selectionPasses is about how many products with the rows a selection takes: 12 of Lanczos and a few refinements
	// of two each.
	selectionPasses = 20
	// rowCost is what a multiplication in a pass over sparse rows costs over one in a dense product.
	rowCost = 4
)

// explicitPays reports whether forming the operators and working on them costs less than selectionPasses over the rows.
func explicitPays(x *problem.Rows, outputs int) bool {
	d, m := float64(x.NumColumns), float64(outputs)
	pairs := d * (d + 1) / 2
	form := float64(x.NumRows()) * pairs * m
	use := selectionPasses * pairs * m * m
	rows := selectionPasses * (2*float64(len(x.Index)) + float64(x.NumRows())*m) * m
	return d <= maxExplicitColumns && form+use < rowCost*rows
}

// Prepare must be called when grad has changed: it forms the operators where that pays, in O(n d² m / 2). They are
// complete unless the solve is cancelled.
func (g *Gamma) Prepare() {
	if g.Kernel.Degree() == 3 {
		return // there are no matrices
	}
	if g.Explicit = explicitPays(g.X, g.Outputs); !g.Explicit {
		if g.Pairs == nil && g.Kernel == problem.ANOVA {
			g.Pairs = newPairs(g.X)
		}
		if g.Pairs != nil {
			g.Pairs.prepare(g)
		}
		return
	}
	d, m := g.X.NumColumns, g.Outputs
	length := d * (d + 1) / 2 * m
	g.Workers.Blocks(g.X.NumRows(), g.size, func(worker, b, lo, hi int) {
		g.partials[b] = problem.Room(g.partials[b], length)
		g.scratch[worker] = problem.Room(g.scratch[worker], (2*d+m)*explicitTile)
		for a := lo; a < hi && g.Workers.Yield(); a += explicitTile {
			g.addTile(g.partials[b], g.scratch[worker], a, min(hi, a+explicitTile))
		}
	})
	g.packed = problem.Room(g.packed, length)
	parallel.SumInto(g.packed, g.partials)
	if g.Kernel == problem.ANOVA {
		floats.Scale(0.5, g.packed)
		for j := range d {
			clear(g.packed[g.pair(j, j)*m : g.pair(j, j)*m+m])
		}
	}
}

// pair returns the place of (j, l), j ≤ l, among the pairs.
func (g *Gamma) pair(j, l int) int { return j*g.X.NumColumns - j*(j-1)/2 + l - j }

// addTile adds Σ_i x_ij x_il D_ic over rows lo..hi−1 to all packed entries. Work holds 2d+m columns of explicitTile.
func (g *Gamma) addTile(sum, work []float64, lo, hi int) {
	d, m, size := g.X.NumColumns, g.Outputs, hi-lo
	column := func(j int) []float64 { return work[j*explicitTile : j*explicitTile+size] }
	for j := range d {
		clear(column(j))
	}
	for i := lo; i < hi; i++ {
		index, value := g.X.Row(i)
		for e, j := range index {
			work[int(j)*explicitTile+i-lo] = value[e]
		}
		for c, w := range g.Grad[i*m : i*m+m] {
			work[(2*d+c)*explicitTile+i-lo] = w
		}
	}
	products := make([][]float64, d)
	for l := range d {
		products[l] = column(d + l)
	}
	for j := range d {
		for l := j; l < d; l++ {
			floats.MulTo(products[l], column(j), column(l))
		}
		// The pairs of one j are next to each other.
		dense.DotAdd(sum[g.pair(j, j)*m:], products[j:], 0, size, work[2*d*explicitTile:], explicitTile, m)
	}
}

// mulExplicit does what MulBlockTo does with the packed operators, in O(d² m s / 2).
func (g *Gamma) mulExplicit(dst, h []float64, s int, coef []float64) {
	d, m := g.X.NumColumns, g.Outputs
	clear(dst[:d*s])
	at := 0
	for j := range d {
		for l := j; l < d; l++ {
			entries := g.packed[at : at+m]
			at += m
			for t := range s {
				w := 0.0
				if coef == nil {
					w = entries[t]
				} else {
					for c, e := range entries {
						w += e * coef[c*s+t]
					}
				}
				dst[j*s+t] += w * h[l*s+t]
				if l != j {
					dst[l*s+t] += w * h[j*s+t]
				}
			}
		}
	}
}

// quadraticExplicit does what QuadraticTo does with the packed operators, in O(d² m s / 2).
func (g *Gamma) quadraticExplicit(q, h []float64, s int) {
	d, m := g.X.NumColumns, g.Outputs
	q = q[:s*m]
	clear(q)
	at := 0
	for j := range d {
		for l := j; l < d; l++ {
			entries := g.packed[at : at+m]
			at += m
			twice := 2.0
			if l == j {
				twice = 1
			}
			for t := range s {
				dense.AddScaled(q[t*m:t*m+m], twice*h[j*s+t]*h[l*s+t], entries)
			}
		}
	}
}

// Dense returns Γ_c as a matrix. Without packed operators it takes a pass over the rows, in Σ nnz(x_i)²: for small d
// only.
func (g *Gamma) Dense(c int) blas64.Symmetric {
	d, m := g.X.NumColumns, g.Outputs
	a := eigen.NewSymmetric(d)
	if g.Explicit {
		at := c
		for j := range d {
			for l := j; l < d; l++ {
				a.Data[j*d+l] = g.packed[at]
				at += m
			}
		}
		return a
	}
	for i := range g.X.NumRows() {
		w := g.Grad[i*m+c]
		if g.Kernel == problem.ANOVA {
			w *= 0.5
		}
		index, value := g.X.Row(i)
		for s, j := range index {
			for t, l := range index[s:] {
				if t == 0 && g.Kernel == problem.ANOVA {
					continue
				}
				a.Data[int(j)*d+int(l)] += w * value[s] * value[s+t]
			}
		}
	}
	return a
}
