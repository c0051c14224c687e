package posterior

import (
	"github.com/refitd/refitd/solver/internal/dense"
	"gonum.org/v1/gonum/floats"
)

// The row of a feature under separate outputs is (w_1 … w_m, h_1 … h_k). No update couples the linear weights of
// two outputs except through the basis coordinates, so of its covariance only these parts are ever asked for, and
// stored, in this order: the variances of the m linear weights, their covariances with the coordinates (m×k, a row per
// output), and the packed k×k block of the coordinates.

// OutputCovariance returns the length of one feature's covariance under separate outputs.
func OutputCovariance(m, k int) int { return m + m*k + PackedSize(k) }

// PackOutput stores the covariance of a feature under one separate output as a packed matrix of order k+1.
func PackOutput(dst, cov []float64, k int) {
	dst[0] = cov[0]
	block := cov[1+k:]
	for i := range k {
		row := dst[PackedSize(i+1):PackedSize(i+2)]
		row[0] = cov[1+i]
		copy(row[1:], block[PackedSize(i):PackedSize(i+1)])
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

// OutputView is one example as the updates of separate outputs see it, as RowView is for shared ones. With the
// activations φ_r = Σ_{i<j} x_i h_ir x_j h_jr it holds the moments of o_c − θ_c = Σ_e x_e w_ec + Σ_r V[r,c] φ_r.
type OutputView struct {
	state  *State
	M, K   int
	Value  []float64
	Mean   [][]float64 // per entry, the mean row (m+k)
	Cov    [][]float64 // per entry, the covariance
	sum    []float64   // k, S_r = Σ_e x_e E[h_er]
	Phi    []float64   // k, E[φ_r]
	Out    []float64   // m, E[o_c] − θ_c
	Linear []float64   // m, Σ_e x_e E[w_ec]

	PhiCov []float64 // packed k×k, Cov(φ)
	Cross  []float64 // m×k, Cov(Σ_e x_e w_ec, φ_r)
	total  []float64 // packed k×k, scratch: Σ x_f² C_f over the entries so far
	both   []float64 // packed k×k, scratch: g gᵀ + total
	Slope  []float64 // k, scratch: S_r − x_e h_er
	tau    []float64 // k, scratch
}

func NewOutputView(s *State) *OutputView {
	m, k := len(s.Bias), s.NumBasis
	return &OutputView{
		state:  s,
		M:      m,
		K:      k,
		sum:    make([]float64, k),
		Phi:    make([]float64, k),
		Out:    make([]float64, m),
		Linear: make([]float64, m),
		PhiCov: make([]float64, PackedSize(k)),
		Cross:  make([]float64, m*k),
		total:  make([]float64, PackedSize(k)),
		both:   make([]float64, PackedSize(k)),
		Slope:  make([]float64, k),
		tau:    make([]float64, k),
	}
}

// Gather points the view at an example of the state.
func (v *OutputView) Gather(index []int32, value []float64) {
	v.Value, v.Mean, v.Cov = value, v.Mean[:0], v.Cov[:0]
	for _, j := range index {
		m, c := v.state.Row(int(j))
		v.Mean, v.Cov = append(v.Mean, m), append(v.Cov, c)
	}
	v.Predict()
}

// Predict refreshes the sums and the means of the outputs from the gathered rows. O(nnz·(m + k) + m·k).
func (v *OutputView) Predict() {
	clear(v.sum)
	clear(v.Phi)
	clear(v.Linear)
	for e, x := range v.Value {
		row := v.Mean[e]
		linear, row := v.Linear, row[:v.M+v.K]
		for c, w := range row[:len(linear)] {
			linear[c] += x * w
		}
		phi, sum := v.Phi, v.sum
		sum = sum[:len(phi)]
		for r, h := range row[len(linear):][:len(phi)] {
			h *= x
			phi[r] += h * sum[r] // Σ_{i<j} a_i a_j grows by a·(sum so far)
			sum[r] += h
		}
	}
	copy(v.Out, v.Linear)
	for r, phi := range v.Phi {
		floats.AddScaled(v.Out, phi, v.state.Weights[r*v.M:r*v.M+v.M])
	}
}

// basis returns the packed block of the coordinates of entry e's covariance.
func (v *OutputView) basis(e int) []float64 { return v.Cov[e][v.M+v.M*v.K:] }

// Without stores S_r − x_e h_er in slope: the sums over the partners of entry e.
func (v *OutputView) Without(e int) {
	x := v.Value[e]
	for r, h := range v.Mean[e][v.M:] {
		v.Slope[r] = v.sum[r] - x*h
	}
}

// Covariances refreshes Cov(φ), Cov(linear, φ). Rows are independent and φ is multilinear in them, so with g_er = x_e
// (S_r − x_e h_er) Cov(φ_r, φ_t) = Σ_e g_er g_et C_e[r,t] + Σ_{e<f} x_e² x_f² C_e[r,t] C_f[r,t]. O(nnz·k·(k + m)).
func (v *OutputView) Covariances() {
	clear(v.PhiCov)
	clear(v.total)
	clear(v.Cross)
	for e, x := range v.Value {
		v.Without(e)
		square, cov, at := x*x, v.basis(e), 0
		for r, g := range v.Slope {
			slope := v.Slope[:r+1]
			row, sum := v.both[at:][:len(slope)], v.total[at:][:len(slope)]
			for t, f := range slope {
				row[t] = g*f + sum[t]
			}
			at += len(slope)
		}
		dense.AddScaledProduct(v.PhiCov, square, cov, v.both)
		dense.AddScaled(v.total, square, cov)
		for r := range v.Slope {
			v.Slope[r] *= square
		}
		for c := range v.M {
			part, row := v.Cov[e][v.M+c*v.K:][:v.K], v.Cross[c*v.K:][:v.K]
			for r, g := range v.Slope {
				row[r] += g * part[r]
			}
		}
	}
}

// Spread stores Var o_c in dst; covariances must have been called for the gathered rows. O(m·k²).
func (v *OutputView) Spread(dst []float64) {
	clear(dst)
	for e, x := range v.Value {
		floats.AddScaled(dst, x*x, v.Cov[e][:v.M])
	}
	for c := range dst {
		for r := range v.K {
			v.tau[r] = v.state.Weights[r*v.M+c]
		}
		dst[c] += 2*floats.Dot(v.tau, v.Cross[c*v.K:c*v.K+v.K]) + Quadratic(v.PhiCov, v.tau)
	}
}
