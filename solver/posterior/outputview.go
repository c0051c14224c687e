package posterior

import (
	"gonum.org/v1/gonum/floats"

	"github.com/refitd/refitd/solver/internal/dense"
)

// The row of a feature under separate outputs is (w_1 … w_m, h_1 … h_k). No update couples the linear weights of two outputs except
// through the basis coordinates, so of its covariance only these parts are ever asked for, and stored, in this order: the variances of
// the m linear weights, their covariances with the coordinates (m×k, a row per output), and the packed k×k block of the coordinates.

// outputCovariance returns the length of one feature's covariance under separate outputs.
func outputCovariance(m, k int) int { return m + m*k + packedSize(k) }

// packOutput stores the covariance of a feature under one separate output as a packed matrix of order k+1.
func packOutput(dst, cov []float64, k int) {
	dst[0] = cov[0]
	block := cov[1+k:]
	for i := range k {
		row := dst[packedSize(i+1):packedSize(i+2)]
		row[0] = cov[1+i]
		copy(row[1:], block[packedSize(i):packedSize(i+1)])
	}
}

// growOutputCovariance copies a covariance over k coordinates into one over k+1, whose last coordinate is left at zero.
func growOutputCovariance(dst, src []float64, m, k int) {
	copy(dst, src[:m])
	for c := range m {
		copy(dst[m+c*(k+1):], src[m+c*k:m+c*k+k])
	}
	copy(dst[m+m*(k+1):], src[m+m*k:])
}

// outputView is one example as the updates of separate outputs see it, as rowView is for shared ones. With the activations
// φ_r = Σ_{i<j} x_i h_ir x_j h_jr it holds the moments of o_c − θ_c = Σ_e x_e w_ec + Σ_r V[r,c] φ_r.
type outputView struct {
	state  *State
	m, k   int
	value  []float64
	mean   [][]float64 // per entry, the mean row (m+k)
	cov    [][]float64 // per entry, the covariance
	sum    []float64   // k, S_r = Σ_e x_e E[h_er]
	phi    []float64   // k, E[φ_r]
	out    []float64   // m, E[o_c] − θ_c
	linear []float64   // m, Σ_e x_e E[w_ec]

	phiCov []float64 // packed k×k, Cov(φ)
	cross  []float64 // m×k, Cov(Σ_e x_e w_ec, φ_r)
	total  []float64 // packed k×k, scratch: Σ x_f² C_f over the entries so far
	both   []float64 // packed k×k, scratch: g gᵀ + total
	slope  []float64 // k, scratch: S_r − x_e h_er
	tau    []float64 // k, scratch
}

func newOutputView(s *State) *outputView {
	m, k := len(s.Bias), s.NumBasis
	return &outputView{state: s, m: m, k: k, sum: make([]float64, k), phi: make([]float64, k), out: make([]float64, m), linear: make([]float64, m),
		phiCov: make([]float64, packedSize(k)), cross: make([]float64, m*k), total: make([]float64, packedSize(k)), both: make([]float64, packedSize(k)),
		slope: make([]float64, k), tau: make([]float64, k)}
}

// gather points the view at an example of the state.
func (v *outputView) gather(index []int32, value []float64) {
	v.value, v.mean, v.cov = value, v.mean[:0], v.cov[:0]
	for _, j := range index {
		m, c := v.state.Row(int(j))
		v.mean, v.cov = append(v.mean, m), append(v.cov, c)
	}
	v.predict()
}

// predict refreshes the sums and the means of the outputs from the gathered rows. O(nnz·(m + k) + m·k).
func (v *outputView) predict() {
	clear(v.sum)
	clear(v.phi)
	clear(v.linear)
	for e, x := range v.value {
		row := v.mean[e]
		linear, row := v.linear, row[:v.m+v.k]
		for c, w := range row[:len(linear)] {
			linear[c] += x * w
		}
		phi, sum := v.phi, v.sum
		sum = sum[:len(phi)]
		for r, h := range row[len(linear):][:len(phi)] {
			h *= x
			phi[r] += h * sum[r] // Σ_{i<j} a_i a_j grows by a·(sum so far)
			sum[r] += h
		}
	}
	copy(v.out, v.linear)
	for r, phi := range v.phi {
		floats.AddScaled(v.out, phi, v.state.Weights[r*v.m:r*v.m+v.m])
	}
}

// basis returns the packed block of the coordinates of entry e's covariance.
func (v *outputView) basis(e int) []float64 { return v.cov[e][v.m+v.m*v.k:] }

// without stores S_r − x_e h_er in slope: the sums over the partners of entry e.
func (v *outputView) without(e int) {
	x := v.value[e]
	for r, h := range v.mean[e][v.m:] {
		v.slope[r] = v.sum[r] - x*h
	}
}

// covariances refreshes Cov(φ), Cov(linear, φ). Rows are independent and φ is multilinear in them, so with g_er = x_e (S_r − x_e h_er)
// Cov(φ_r, φ_t) = Σ_e g_er g_et C_e[r,t] + Σ_{e<f} x_e² x_f² C_e[r,t] C_f[r,t]. O(nnz·k·(k + m)).
func (v *outputView) covariances() {
	clear(v.phiCov)
	clear(v.total)
	clear(v.cross)
	for e, x := range v.value {
		v.without(e)
		square, cov, at := x*x, v.basis(e), 0
		for r, g := range v.slope {
			slope := v.slope[:r+1]
			row, sum := v.both[at:][:len(slope)], v.total[at:][:len(slope)]
			for t, f := range slope {
				row[t] = g*f + sum[t]
			}
			at += len(slope)
		}
		dense.AddScaledProduct(v.phiCov, square, cov, v.both)
		dense.AddScaled(v.total, square, cov)
		for r := range v.slope {
			v.slope[r] *= square
		}
		for c := range v.m {
			part, row := v.cov[e][v.m+c*v.k:][:v.k], v.cross[c*v.k:][:v.k]
			for r, g := range v.slope {
				row[r] += g * part[r]
			}
		}
	}
}

// spread stores Var o_c in dst; covariances must have been called for the gathered rows. O(m·k²).
func (v *outputView) spread(dst []float64) {
	clear(dst)
	for e, x := range v.value {
		floats.AddScaled(dst, x*x, v.cov[e][:v.m])
	}
	for c := range dst {
		for r := range v.k {
			v.tau[r] = v.state.Weights[r*v.m+c]
		}
		dst[c] += 2*floats.Dot(v.tau, v.cross[c*v.k:c*v.k+v.k]) + quadratic(v.phiCov, v.tau)
	}
}
