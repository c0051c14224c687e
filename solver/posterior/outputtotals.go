package posterior

import (
	"github.com/refitd/refitd/solver/internal/dense"
	"gonum.org/v1/gonum/floats"
)

// OutputTotals is what an example adds up to over all its entries. What it says about the row of one entry follows from
// the totals and that row in O(k·(k + m)), however many entries there are, and a row that moves moves the totals in as
// much.
type OutputTotals struct {
	out  []float64 // m, E[o_c] − θ_c
	sum  []float64 // k, S_r = Σ_l x_l E[h_lr]
	cov  []float64 // packed k×k, T = Σ_l x_l² C_l
	pull []float64 // k, P_r = Σ_l (x_l³ Σ_t K[r,t] C_l[r,t] h_lt − x_l² Σ_c ω_c V[r,c] Cov(w_lc, h_lr))
}

// OutputTotalsSize is how many numbers the totals of an example take in addition to the m outputs.
func OutputTotalsSize(k int) int { return 2*k + PackedSize(k) }

// NewOutputTotals returns the totals in the given storage.
func NewOutputTotals(out, rest []float64, k int) OutputTotals {
	return OutputTotals{out: out, sum: rest[:k], pull: rest[k : 2*k], cov: rest[2*k:]}
}

// Observation is the quadratic that approximates the log-likelihood of one example: the pseudo-observations ω_c and
// right_c = ω_c·t_c of o_c − θ_c, and the curvature K[r,t] = Σ_c ω_c V[r,c] V[t,c] of the activations, packed.
type Observation struct {
	Omega, Right, Curve []float64
}

// outputWeights is the output weights V as the updates of rows ask for them.
type OutputWeights struct {
	m, k    int
	rows    []float64 // m×k, V by output
	squares []float64 // m packed k×k, V[·,c] V[·,c]ᵀ
}

func NewOutputWeights(s *State) *OutputWeights {
	m, k := len(s.Bias), s.NumBasis
	w := &OutputWeights{m: m, k: k, rows: make([]float64, m*k), squares: make([]float64, m*PackedSize(k))}
	for c := range m {
		row := w.rows[c*k : c*k+k]
		for r := range row {
			row[r] = s.Weights[r*m+c]
		}
		AddOuter(w.squares[c*PackedSize(k):], 1, row)
	}
	return w
}

// Curvature stores K in dst. O(m·k²/2).
func (w *OutputWeights) Curvature(dst, omega []float64) {
	clear(dst)
	p := len(dst)
	for c, v := range omega {
		dense.AddScaled(dst, v, w.squares[c*p:c*p+p])
	}
}

// OutputMath is what one goroutine needs to take examples to evidence of rows, and moves of rows back to totals.
type OutputMath struct {
	*OutputWeights
	slope   []float64 // k, s_r = S_r − x h_r of the entry at hand
	own     []float64 // k, x h_r
	product []float64 // k, own·slope
	inner   []float64 // k, Σ_c V[r,c] (right_c − ω_c rest_c)
	tau     []float64 // k, Cov(s_r, Σ_c V[r,c] ω_c rest_c)
	parts   []float64 // m×k and packed k×k, Σ_l x_l² of the covariances of an example
	means   []float64 // k×k, Σ_l x_l³ C_l[r,t] h_lt
}

func NewOutputMath(w *OutputWeights) *OutputMath {
	m, k := w.m, w.k
	return &OutputMath{
		OutputWeights: w,
		slope:         make([]float64, k),
		own:           make([]float64, k),
		product:       make([]float64, k),
		inner:         make([]float64, k),
		tau:           make([]float64, k),
		parts:         make([]float64, m*k+PackedSize(k)),
		means:         make([]float64, k*k),
	}
}

// without sets slope and own for an entry with the value x and the mean row.
func (w *OutputMath) without(t *OutputTotals, x float64, mean []float64) {
	sum, own := t.sum[:w.k], w.own[:w.k]
	h, slope := mean[w.m:][:w.k], w.slope[:w.k]
	for r, v := range h {
		own[r] = x * v
		slope[r] = sum[r] - own[r]
	}
}

// Accumulate adds one example to the evidence of the entry with the value x and the given row. Given its partners, o_c
// is linear in the row with the gradient y_c = x (e_c, V[·,c]∘s), s_r = Σ_{l≠e} x_l h_lr; the precision is Σ_c ω_c
// E[y_c y_cᵀ] and the right side Σ_c E[y_c (right_c − ω_c·rest_c)], rest_c what o_c − θ_c is without the feature.
// O(k·(k + m)).
func (w *OutputMath) Accumulate(a *OutputEvidence, x float64, mean, cov []float64, t *OutputTotals, by *Observation) {
	m, k := w.m, w.k
	square := x * x
	w.without(t, x, mean)
	s, own, product, inner, tau := w.slope[:k], w.own[:k], w.product[:k], w.inner[:k], w.tau[:k]
	for r, v := range s {
		product[r] = own[r] * v
		inner[r] = 0
		tau[r] = -t.pull[r]
	}
	for c, omega := range by.Omega {
		v := w.rows[c*k : c*k+k]
		// What the other entries add to o_c: the total less this row's linear weight and interaction.
		rest := t.out[c] - x*mean[c]
		for r, f := range product {
			rest -= f * v[r]
		}
		rest = by.Right[c] - omega*rest
		omega *= square // from here on x² is in it
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
	basis, size := cov[m+m*k:], PackedSize(k)
	basis, curve, all, to := basis[:size], by.Curve[:size], t.cov[:size], a.basis[:size]
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

// Fill computes totals from all rows of an example. O(nnz·k·(k + m)).
func (w *OutputMath) Fill(t *OutputTotals, v *OutputView, by *Observation) {
	m, k := w.m, w.k
	// Sums over entries first, then one pass over the outputs: P needs K, which all entries share.
	copy(t.out, v.Out)
	copy(t.sum, v.sum)
	clear(w.parts)
	clear(w.means)
	for e, x := range v.Value {
		dense.AddScaled(w.parts, x*x, v.Cov[e][m:])
		addMeans(w.means, x*x*x, v.Cov[e][m+m*k:], v.Mean[e][m:])
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
func (w *OutputMath) addPull(pull, means, coupled []float64, by *Observation) {
	k := w.k
	i := 0
	for r := range pull {
		row, sum := means[r*k:r*k+k], 0.0
		for t, v := range row[:r] {
			f := by.Curve[i]
			sum += f * v
			pull[t] += f * means[t*k+r]
			i++
		}
		pull[r] += sum + by.Curve[i]*row[r]
		i++
	}
	for c, omega := range by.Omega {
		v, coupled := w.rows[c*k:c*k+k], coupled[c*k:c*k+k]
		for r, f := range v {
			pull[r] -= omega * f * coupled[r]
		}
	}
}

// OutputMove is how far a row has gone. With K = Σ_c ω_c V[·,c] V[·,c]ᵀ what that does to P is a sum over the
// outputs too, so that it takes no K.
type OutputMove struct {
	before  []float64 // m+k, the mean row that it was
	mean    []float64 // m+k, by how much the mean row has grown
	cov     []float64 // the covariance
	means   []float64 // k×k, C[r,t] h_t
	cubic   []float64 // m×k, V[r,c] Σ_t V[t,c] means[r,t]
	squared []float64 // m×k, V[r,c] Cov(w_c, h_r)
}

func NewOutputMove(m, k int) *OutputMove {
	return &OutputMove{
		before:  make([]float64, m+k),
		mean:    make([]float64, m+k),
		cov:     make([]float64, OutputCovariance(m, k)),
		means:   make([]float64, k*k),
		cubic:   make([]float64, m*k),
		squared: make([]float64, m*k),
	}
}

// From notes a row before its update.
func (d *OutputMove) From(m int, mean, cov []float64) {
	copy(d.before, mean)
	copy(d.cov, cov)
	clear(d.means)
	k := len(mean) - m
	addMeans(d.means, -1, cov[m+m*k:], mean[m:])
}

// To sets the move from the row after it.
func (d *OutputMove) To(w *OutputWeights, mean, cov []float64) {
	m, k := w.m, w.k
	// Differences of each sum that the totals hold: the row as it is, less the row as it was.
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

// Move takes the totals of an example that has the row with the value x to where the row has gone. O(k·(k + m)).
func (w *OutputMath) Move(t *OutputTotals, x float64, d *OutputMove, omega []float64) {
	m, k := w.m, w.k
	// slope of the other entries: the total still has the row as it was.
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
