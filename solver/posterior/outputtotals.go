package posterior

import (
	"gonum.org/v1/gonum/floats"

	"github.com/refitd/refitd/solver/internal/dense"
)

// outputTotals is what an example adds up to over all its entries. What it says about the row of one entry follows from the totals and that row
// in O(k·(k + m)), however many entries there are, and a row that moves moves the totals in as much.
type outputTotals struct {
	out  []float64 // m, E[o_c] − θ_c
	sum  []float64 // k, S_r = Σ_l x_l E[h_lr]
	cov  []float64 // packed k×k, T = Σ_l x_l² C_l
	pull []float64 // k, P_r = Σ_l (x_l³ Σ_t K[r,t] C_l[r,t] h_lt − x_l² Σ_c ω_c V[r,c] Cov(w_lc, h_lr))
}

// outputTotalsSize is how many numbers the totals of an example take in addition to the m outputs.
func outputTotalsSize(k int) int { return 2*k + packedSize(k) }

// newOutputTotals returns the totals in the given storage.
func newOutputTotals(out, rest []float64, k int) outputTotals {
	return outputTotals{out: out, sum: rest[:k], pull: rest[k : 2*k], cov: rest[2*k:]}
}

// observation is the quadratic that approximates the log-likelihood of one example: the pseudo-observations ω_c and
// right_c = ω_c·t_c of o_c − θ_c, and the curvature K[r,t] = Σ_c ω_c V[r,c] V[t,c] of the activations, packed.
type observation struct {
	omega, right, curve []float64
}

// outputWeights is the output weights V as the updates of rows ask for them.
type outputWeights struct {
	m, k    int
	rows    []float64 // m×k, V by output
	squares []float64 // m packed k×k, V[·,c] V[·,c]ᵀ
}

func newOutputWeights(s *State) *outputWeights {
	m, k := len(s.Bias), s.NumBasis
	w := &outputWeights{m: m, k: k, rows: make([]float64, m*k), squares: make([]float64, m*packedSize(k))}
	for c := range m {
		row := w.rows[c*k : c*k+k]
		for r := range row {
			row[r] = s.Weights[r*m+c]
		}
		addOuter(w.squares[c*packedSize(k):], 1, row)
	}
	return w
}

// curvature stores K in dst. O(m·k²/2).
func (w *outputWeights) curvature(dst, omega []float64) {
	clear(dst)
	p := len(dst)
	for c, v := range omega {
		dense.AddScaled(dst, v, w.squares[c*p:c*p+p])
	}
}

// outputMath is what one goroutine needs to take examples to evidence of rows, and moves of rows back to totals.
type outputMath struct {
	*outputWeights
	slope   []float64 // k, s_r = S_r − x h_r of the entry at hand
	own     []float64 // k, x h_r
	product []float64 // k, own·slope
	inner   []float64 // k, Σ_c V[r,c] (right_c − ω_c rest_c)
	tau     []float64 // k, Cov(s_r, Σ_c V[r,c] ω_c rest_c)
	parts   []float64 // m×k and packed k×k, Σ_l x_l² of the covariances of an example
	means   []float64 // k×k, Σ_l x_l³ C_l[r,t] h_lt
}

func newOutputMath(w *outputWeights) *outputMath {
	m, k := w.m, w.k
	return &outputMath{outputWeights: w, slope: make([]float64, k), own: make([]float64, k), product: make([]float64, k), inner: make([]float64, k),
		tau: make([]float64, k), parts: make([]float64, m*k+packedSize(k)), means: make([]float64, k*k)}
}

// without sets slope and own for an entry with the value x and the mean row.
func (w *outputMath) without(t *outputTotals, x float64, mean []float64) {
	sum, own := t.sum[:w.k], w.own[:w.k]
	h, slope := mean[w.m:][:w.k], w.slope[:w.k]
	for r, v := range h {
		own[r] = x * v
		slope[r] = sum[r] - own[r]
	}
}

// accumulate adds one example to the evidence of the entry with the value x and the given row. Given its partners, o_c is linear in the row with
// the gradient y_c = x (e_c, V[·,c]∘s), s_r = Σ_{l≠e} x_l h_lr; the precision is Σ_c ω_c E[y_c y_cᵀ] and the right side
// Σ_c E[y_c (right_c − ω_c·rest_c)], rest_c what o_c − θ_c is without the feature. O(k·(k + m)).
func (w *outputMath) accumulate(a *outputEvidence, x float64, mean, cov []float64, t *outputTotals, by *observation) {
	m, k := w.m, w.k
	square := x * x
	w.without(t, x, mean)
	s, own, product, inner, tau := w.slope[:k], w.own[:k], w.product[:k], w.inner[:k], w.tau[:k]
	for r, v := range s {
		product[r] = own[r] * v
		inner[r] = 0
		tau[r] = -t.pull[r]
	}
	for c, omega := range by.omega {
		v := w.rows[c*k : c*k+k]
		rest := t.out[c] - x*mean[c]
		for r, f := range product {
			rest -= f * v[r]
		}
		rest = by.right[c] - omega*rest
		omega *= square
		a.linear[c] += omega
		a.right[c] += x * rest
		cross, coupled := a.cross[c*k:c*k+k], cov[m+c*k:m+c*k+k]
		for r, f := range v {
			inner[r] += f * rest
			f *= omega
			cross[r] += f * s[r]
			tau[r] -= f * coupled[r]
		}
	}
	// E[s sᵀ] = mean·mean + Σ_{l≠e} x_l² C_l, and what the partners' uncertainty couples s and rest by.
	basis, size := cov[m+m*k:], packedSize(k)
	basis, curve, all, to := basis[:size], by.curve[:size], t.cov[:size], a.basis[:size]
	i := 0
	for r, sr := range s {
		or, sum := own[r], 0.0
		for u, su := range s[:r] {
			f := curve[i] * square * basis[i]
			others := curve[i]*all[i] - f
			to[i] += square * (curve[i]*sr*su + others)
			sum += others*su + f*own[u]
			tau[u] += others*sr + f*or
			i++
		}
		f := curve[i] * square * basis[i]
		others := curve[i]*all[i] - f
		to[i] += square * (curve[i]*sr*sr + others)
		tau[r] += sum + others*sr + f*or
		i++
	}
	right := a.right[m : m+k]
	for r, v := range s {
		right[r] += x * (v*inner[r] - tau[r])
	}
}

// fill computes totals from all rows of an example. O(nnz·k·(k + m)).
func (w *outputMath) fill(t *outputTotals, v *outputView, by *observation) {
	m, k := w.m, w.k
	copy(t.out, v.out)
	copy(t.sum, v.sum)
	clear(w.parts)
	clear(w.means)
	for e, x := range v.value {
		dense.AddScaled(w.parts, x*x, v.cov[e][m:])
		addMeans(w.means, x*x*x, v.cov[e][m+m*k:], v.mean[e][m:])
	}
	copy(t.cov, w.parts[m*k:])
	clear(t.pull)
	w.addPull(t.pull, w.means, w.parts, by)
}

// addMeans adds f·C[r,t] h_t to the k×k dst.
func addMeans(dst []float64, f float64, c, h []float64) {
	k := len(h)
	i := 0
	for r, hr := range h {
		row := dst[r*k : r*k+k]
		for t, ht := range h[:r] {
			v := f * c[i]
			row[t] += v * ht
			dst[t*k+r] += v * hr
			i++
		}
		row[r] += f * c[i] * hr
		i++
	}
}

// addPull adds Σ_t K[r,t] means[r,t] − Σ_c ω_c V[r,c] coupled[c,r] to pull.
func (w *outputMath) addPull(pull, means, coupled []float64, by *observation) {
	k := w.k
	i := 0
	for r := range pull {
		row, sum := means[r*k:r*k+k], 0.0
		for t, v := range row[:r] {
			f := by.curve[i]
			sum += f * v
			pull[t] += f * means[t*k+r]
			i++
		}
		pull[r] += sum + by.curve[i]*row[r]
		i++
	}
	for c, omega := range by.omega {
		v, coupled := w.rows[c*k:c*k+k], coupled[c*k:c*k+k]
		for r, f := range v {
			pull[r] -= omega * f * coupled[r]
		}
	}
}

// outputMove is how far a row has gone. With K = Σ_c ω_c V[·,c] V[·,c]ᵀ what that does to P is a sum over the outputs too, so that it takes no K.
type outputMove struct {
	before  []float64 // m+k, the mean row that it was
	mean    []float64 // m+k, by how much the mean row has grown
	cov     []float64 // the covariance
	means   []float64 // k×k, C[r,t] h_t
	cubic   []float64 // m×k, V[r,c] Σ_t V[t,c] means[r,t]
	squared []float64 // m×k, V[r,c] Cov(w_c, h_r)
}

func newOutputMove(m, k int) *outputMove {
	return &outputMove{before: make([]float64, m+k), mean: make([]float64, m+k), cov: make([]float64, outputCovariance(m, k)), means: make([]float64, k*k),
		cubic: make([]float64, m*k), squared: make([]float64, m*k)}
}

// from notes a row before its update.
func (d *outputMove) from(m int, mean, cov []float64) {
	copy(d.before, mean)
	copy(d.cov, cov)
	clear(d.means)
	k := len(mean) - m
	addMeans(d.means, -1, cov[m+m*k:], mean[m:])
}

// to sets the move from the row after it.
func (d *outputMove) to(w *outputWeights, mean, cov []float64) {
	m, k := w.m, w.k
	floats.SubTo(d.mean, mean, d.before)
	floats.SubTo(d.cov, cov, d.cov)
	addMeans(d.means, 1, cov[m+m*k:], mean[m:])
	for c := range m {
		v := w.rows[c*k : c*k+k]
		for r, f := range v {
			d.cubic[c*k+r] = f * floats.Dot(v, d.means[r*k:r*k+k])
			d.squared[c*k+r] = f * d.cov[m+c*k+r]
		}
	}
}

// move takes the totals of an example that has the row with the value x to where the row has gone. O(k·(k + m)).
func (w *outputMath) move(t *outputTotals, x float64, d *outputMove, omega []float64) {
	m, k := w.m, w.k
	w.without(t, x, d.before)
	step, sum, pull := w.product[:k], t.sum[:k], t.pull[:k]
	for r, v := range d.mean[m:][:k] {
		v *= x
		sum[r] += v
		step[r] = v * w.slope[r]
	}
	square := x * x
	cube := square * x
	for c, f := range omega {
		out := t.out[c] + x*d.mean[c]
		v, cubic, squared := w.rows[c*k:c*k+k], d.cubic[c*k:c*k+k], d.squared[c*k:c*k+k]
		for r, move := range step {
			out += move * v[r]
			pull[r] += f * (cube*cubic[r] - square*squared[r])
		}
		t.out[c] = out
	}
	dense.AddScaled(t.cov, square, d.cov[m+m*k:])
}
