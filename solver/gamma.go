package solver

// gamma holds the symmetric operators Γ_1..Γ_m of basis selection (Blondel et al. 2017, section 4) as passes over the rows
// or, for few columns, as explicit matrices:
//
//	Γ_c = Σ_i D_ic x_i x_i'                       (homogeneous)
//	Γ_c = ½ Σ_i D_ic (x_i x_i' − diag(x_i)²)      (ANOVA)
//
// where D_ic is the gradient of the weighted loss of row i in output c. hᵀΓ_c h = Σ_i D_ic K(h, x_i) is the gradient of the objective in
// the weight V[h, c]; the paper's g is its negative. Blocks of s vectors are d×s, feature-major, so that the entries of one feature are
// contiguous. A gamma is used by one goroutine at a time and spreads its products over its workers.
type gamma struct {
	x       *Rows
	kernel  Kernel
	grad    []float64 // D, n×m row-major
	outputs int       // m
	workers workers

	size     int         // rows per block, fixed by n
	partials [][]float64 // one d×s sum per block
	scratch  [][]float64 // one per worker

	explicit bool      // prepare has formed the operators
	packed   []float64 // Γ_c[j,l] of explicit operators
	pairs    *pairs    // not nil once prepare has set up rows of two features
}

// gammaBlocks is the number of row blocks of a product. Each holds a d×s partial sum, so more blocks cost memory and fewer limit the
// number of cores; the number must not depend on the machine, or results would.
const gammaBlocks = 8

// minGammaBlock keeps the partial sums from costing more than the rows of small samples.
const minGammaBlock = 1024

func newGamma(x *Rows, kernel Kernel, outputs int, workers workers) *gamma {
	n := x.NumRows()
	g := &gamma{x: x, kernel: kernel, outputs: outputs, workers: workers, grad: make([]float64, n*outputs)}
	g.size = max(minGammaBlock, (n+gammaBlocks-1)/gammaBlocks)
	g.partials = make([][]float64, (n+g.size-1)/g.size)
	g.scratch = make([][]float64, workers.size)
	return g
}

// room returns a zeroed slice of the given length that reuses the memory of old.
func room(old []float64, length int) []float64 {
	if cap(old) < length {
		return make([]float64, length)
	}
	old = old[:length]
	clear(old)
	return old
}

// mulBlockTo stores in column t of dst the product (Σ_c coef[c,t] Γ_c) h_t for each of the s columns h_t of h, in O((nnz(X) + n m) s).
// dst and h are d×s and do not overlap; coef is m×s. With coef nil there are s = m columns and column t is multiplied by Γ_t, in
// O(nnz(X) m). At degree 3 the product is with T_c(h_t, ·, ·) in place of Γ_c: see trilinearTo.
func (g *gamma) mulBlockTo(dst, h []float64, s int, coef []float64) {
	if g.kernel.Degree() == 3 {
		g.trilinearTo(dst, h, h, s, coef)
		return
	}
	if g.explicit {
		g.mulExplicit(dst, h, s, coef)
		return
	}
	length := g.x.NumColumns * s
	g.workers.blocks(g.x.NumRows(), g.size, func(_, b, lo, hi int) {
		g.partials[b] = room(g.partials[b], length)
		t := 0
		for ; t < s && g.workers.yield(); t++ {
			switch wide := t+4 <= s; {
			case wide && g.pairs != nil:
				g.pairs.mul4(g.partials[b], h, g.outputs, s, t, coef, lo, hi)
			case g.pairs != nil:
				g.pairs.mul(g.partials[b], h, g.outputs, s, t, coef, lo, hi)
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
	sumInto(dst, g.partials)
}

// mulRows adds the contribution of rows lo..hi−1 to column t of sum.
func (g *gamma) mulRows(sum, h []float64, s, t int, coef []float64, lo, hi int) {
	m := g.outputs
	half, squares := 1.0, 0.0
	if g.kernel == ANOVA {
		half, squares = 0.5, 1
	}
	for i := lo; i < hi; i++ {
		w := 0.0
		if coef == nil {
			w = g.grad[i*m+t]
		} else {
			for c, dc := range g.grad[i*m : i*m+m] {
				w += dc * coef[c*s+t]
			}
		}
		w *= half
		index, value := g.x.Row(i)
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

// quadraticTo stores q[t,c] = h_tᵀ Γ_c h_t, at degree 3 T_c(h_t, h_t, h_t), in the s×m row-major matrix q for the s columns of the d×s block h,
// in O((nnz(X) + n m) s).
func (g *gamma) quadraticTo(q, h []float64, s int) {
	if g.explicit {
		g.quadraticExplicit(q, h, s)
		return
	}
	m := g.outputs
	g.workers.blocks(g.x.NumRows(), g.size, func(worker, b, lo, hi int) {
		g.partials[b] = room(g.partials[b], s*m)
		if g.pairs != nil {
			g.scratch[worker] = room(g.scratch[worker], m*s)
			g.pairs.quadratic(g.partials[b], g.scratch[worker], h, m, s, lo, hi)
			return
		}
		g.scratch[worker] = room(g.scratch[worker], 2*s)
		sum, work := g.partials[b], g.scratch[worker]
		// The block is laid out as the basis of a model, whose kernel values are the activations.
		basis := Model{Kernel: g.kernel, NumBasis: s, Basis: h}
		for i := lo; i < hi; i++ {
			if i%fitBlock == 0 && !g.workers.yield() {
				return
			}
			index, value := g.x.Row(i)
			basis.Activations(work[:s], work[s:], index, value)
			d := g.grad[i*m : i*m+m]
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
	sumInto(q, g.partials)
}
