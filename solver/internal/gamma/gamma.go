package gamma

import (
	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/problem"
)

// Gamma holds the symmetric operators Γ_1..Γ_m of basis selection (Blondel et al. 2017, section 4) as passes over the
// rows or, for few columns, as explicit matrices:
//
//	Γ_c = Σ_i D_ic x_i x_i'                       (homogeneous)
//	Γ_c = ½ Σ_i D_ic (x_i x_i' − diag(x_i)²)      (ANOVA)
//
// where D_ic is the gradient of the weighted loss of row i in output c. hᵀΓ_c h = Σ_i D_ic K(h, x_i) is the gradient of
// the objective in the weight V[h, c]; the paper's g is its negative. Blocks of s vectors are d×s, feature-major, so
// that the entries of one feature are contiguous. A gamma is used by one goroutine at a time and spreads its products
// over its workers.
type Gamma struct {
	X       *problem.Rows
	Kernel  problem.Kernel
	Grad    []float64 // D, n×m row-major
	Outputs int       // m
	Workers parallel.Workers

	size     int         // rows per block, fixed by n
	partials [][]float64 // one d×s sum per block
	scratch  [][]float64 // one per worker

	Explicit bool      // prepare has formed the operators
	packed   []float64 // Γ_c[j,l] of explicit operators
	Pairs    *pairs    // not nil once prepare has set up rows of two features
}

// GammaBlocks is the number of row blocks of a product. Each holds a d×s partial sum, so more blocks cost memory and
// fewer limit the number of cores; the number must not depend on the machine, or results would.
const GammaBlocks = 8

// MinGammaBlock keeps the partial sums from costing more than the rows of small samples.
const MinGammaBlock = 1024

func NewGamma(x *problem.Rows, kernel problem.Kernel, outputs int, workers parallel.Workers) *Gamma {
	n := x.NumRows()
	g := &Gamma{X: x, Kernel: kernel, Outputs: outputs, Workers: workers, Grad: make([]float64, n*outputs)}
	g.size = max(MinGammaBlock, (n+GammaBlocks-1)/GammaBlocks)
	g.partials = make([][]float64, (n+g.size-1)/g.size)
	g.scratch = make([][]float64, workers.Size)
	return g
}

// MulBlockTo stores in column t of dst the product (Σ_c coef[c,t] Γ_c) h_t for each of the s columns h_t of h, in
// O((nnz(X) + n m) s). dst and h are d×s and do not overlap; coef is m×s. With coef nil there are s = m columns and
// column t is multiplied by Γ_t, in O(nnz(X) m). At degree 3 the product is with T_c(h_t, ·, ·) in place of Γ_c: see
// TrilinearTo.
func (g *Gamma) MulBlockTo(dst, h []float64, s int, coef []float64) {
	if g.Kernel.Degree() == 3 {
		g.TrilinearTo(dst, h, h, s, coef)
		return
	}
	if g.Explicit {
		g.mulExplicit(dst, h, s, coef)
		return
	}
	length := g.X.NumColumns * s
	g.Workers.Blocks(g.X.NumRows(), g.size, func(_, b, lo, hi int) {
		g.partials[b] = problem.Room(g.partials[b], length)
		t := 0
		for ; t < s && g.Workers.Yield(); t++ {
			switch wide := t+4 <= s; {
			case wide && g.Pairs != nil:
				g.Pairs.mul4(g.partials[b], h, g.Outputs, s, t, coef, lo, hi)
			case g.Pairs != nil:
				g.Pairs.mul(g.partials[b], h, g.Outputs, s, t, coef, lo, hi)
			case wide:
				g.mulRows4(g.partials[b], h, s, t, coef, lo, hi)
			default:
				g.mulRows(g.partials[b], h, s, t, coef, lo, hi)
			}
			if t+4 <= s {
				t += 3
			}
		}
	})
	dst = dst[:length]
	clear(dst)
	parallel.SumInto(dst, g.partials)
}

// mulRows adds the contribution of rows lo..hi−1 to column t of sum.
func (g *Gamma) mulRows(sum, h []float64, s, t int, coef []float64, lo, hi int) {
	m := g.Outputs
	half, squares := 1.0, 0.0
	if g.Kernel == problem.ANOVA {
		half, squares = 0.5, 1
	}
	for i := lo; i < hi; i++ {
		w := 0.0
		if coef == nil {
			w = g.Grad[i*m+t]
		} else {
			for c, dc := range g.Grad[i*m : i*m+m] {
				w += dc * coef[c*s+t]
			}
		}
		w *= half
		index, value := g.X.Row(i)
		value = value[:len(index)]
		p := 0.0
		for e, j := range index {
			p += value[e] * h[int(j)*s+t]
		}
		for e, j := range index {
			x, at := value[e], int(j)*s+t
			sum[at] += w * x * (p - squares*x*h[at])
		}
	}
}

// QuadraticTo stores q[t,c] = h_tᵀ Γ_c h_t, at degree 3 T_c(h_t, h_t, h_t), in the s×m row-major matrix q for the s
// columns of the d×s block h, in O((nnz(X) + n m) s).
func (g *Gamma) QuadraticTo(q, h []float64, s int) {
	if g.Explicit {
		g.quadraticExplicit(q, h, s)
		return
	}
	m := g.Outputs
	g.Workers.Blocks(g.X.NumRows(), g.size, func(worker, b, lo, hi int) {
		g.partials[b] = problem.Room(g.partials[b], s*m)
		if g.Pairs != nil {
			g.scratch[worker] = problem.Room(g.scratch[worker], m*s)
			g.Pairs.quadratic(g.partials[b], g.scratch[worker], h, m, s, lo, hi)
			return
		}
		g.scratch[worker] = problem.Room(g.scratch[worker], 2*s)
		sum, work := g.partials[b], g.scratch[worker]
		// The block is laid out as the basis of a model, whose kernel values are the activations.
		basis := problem.Model{Kernel: g.Kernel, NumBasis: s, Basis: h}
		for i := lo; i < hi; i++ {
			if i%problem.FitBlock == 0 && !g.Workers.Yield() {
				return
			}
			index, value := g.X.Row(i)
			basis.Activations(work[:s], work[s:], index, value)
			d := g.Grad[i*m : i*m+m]
			for t, a := range work[:s] {
				row := sum[t*m : t*m+m]
				row = row[:len(d)]
				for c, dc := range d {
					row[c] += a * dc
				}
			}
		}
	})
	q = q[:s*m]
	clear(q)
	parallel.SumInto(q, g.partials)
}
