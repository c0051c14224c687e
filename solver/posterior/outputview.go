package posterior

import "gonum.org/v1/gonum/floats"

// The row of a feature under separate outputs is (w_1 … w_m, h_1 … h_k). No update couples the linear weights of two outputs except
// through the basis coordinates, so of its covariance only these parts are ever asked for, and stored, in this order: the variances of
// the m linear weights, their covariances with the coordinates (m×k, a row per output), and the packed k×k block of the coordinates.

// outputCovariance returns the length of one feature's covariance under separate outputs.
func outputCovariance(m, k int) int { return m + m*k + packedSize(k) }

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
	total  []float64 // packed k×k, scratch
	slope  []float64 // k, scratch: S_r − x_e h_er
	rest   []float64 // m, scratch
	tau    []float64 // k, scratch
}

func newOutputView(s *State) *outputView {
	m, k := len(s.Bias), s.NumBasis
	return &outputView{state: s, m: m, k: k, sum: make([]float64, k), phi: make([]float64, k), out: make([]float64, m), linear: make([]float64, m),
		phiCov: make([]float64, packedSize(k)), cross: make([]float64, m*k), total: make([]float64, packedSize(k)),
		slope: make([]float64, k), rest: make([]float64, m), tau: make([]float64, k)}
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
		floats.AddScaled(v.linear, x, row[:v.m])
		for r, h := range row[v.m:] {
			v.phi[r] += x * h * v.sum[r] // Σ_{i<j} a_i a_j grows by a·(sum so far)
			v.sum[r] += x * h
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
		square, cov := x*x, v.basis(e)
		for r, i := 0, 0; r < v.k; r++ {
			g := v.slope[r]
			for t := 0; t <= r; t++ {
				c := square * cov[i]
				v.phiCov[i] += c * (g*v.slope[t] + v.total[i])
				v.total[i] += c
				i++
			}
		}
		for c := range v.m {
			part := v.cov[e][v.m+c*v.k:]
			to := v.cross[c*v.k : c*v.k+v.k]
			for r, g := range v.slope {
				to[r] += square * g * part[r]
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

// curvature stores Σ_c ω_c V[r,c] V[t,c] in dst, packed. O(m·k²/2).
func (s *State) curvature(dst, omega []float64) {
	m := len(s.Bias)
	for r, i := 0, 0; r < s.NumBasis; r++ {
		a := s.Weights[r*m : r*m+m]
		for t := 0; t <= r; t++ {
			b, total := s.Weights[t*m:t*m+m], 0.0
			for c, w := range omega {
				total += w * a[c] * b[c]
			}
			dst[i] = total
			i++
		}
	}
}

// accumulate adds one example to the evidence of entry e: ω_c and right_c = ω_c·t_c are the pseudo-observations of o_c − θ_c and curve
// their curvature. Given its partners, o_c is linear in the row with the gradient y_c = x (e_c, V[·,c]∘s), s_r = Σ_{l≠e} x_l h_lr; the
// precision is Σ_c ω_c E[y_c y_cᵀ] and the right side Σ_c E[y_c (right_c − ω_c·rest_c)], rest_c what o_c − θ_c is without the feature.
// O(nnz·k·(k + m)).
func (v *outputView) accumulate(a *outputEvidence, e int, omega, right, curve []float64) {
	m, k, x, row := v.m, v.k, v.value[e], v.mean[e]
	v.without(e)
	s := v.slope
	// rest_c, then right_c − ω_c rest_c in its place.
	for c := range v.rest {
		v.rest[c] = v.linear[c] - x*row[c]
	}
	for r, h := range row[m:] {
		floats.AddScaled(v.rest, v.phi[r]-x*h*s[r], v.state.Weights[r*m:r*m+m])
	}
	for c, w := range omega {
		v.rest[c] = right[c] - w*v.rest[c]
		a.linear[c] += x * x * w
		a.right[c] += x * v.rest[c]
	}
	for r, g := range s {
		weights := v.state.Weights[r*m : r*m+m]
		a.right[m+r] += x * g * floats.Dot(weights, v.rest)
		g *= x * x
		for c, w := range omega {
			a.cross[c*k+r] += w * weights[c] * g
		}
	}
	// E[s sᵀ] = mean·mean + Σ_l x_l² C_l, and what the partners' uncertainty couples s and rest by: Cov(s_r, rest_c).
	clear(v.total)
	clear(v.tau)
	for l, xl := range v.value {
		if l == e {
			continue
		}
		square, cov, h := xl*xl, v.basis(l), v.mean[l][m:]
		floats.AddScaled(v.total, square, cov)
		for r, i := 0, 0; r < k; r++ {
			gr, t := square*(s[r]-xl*h[r]), 0.0
			for u := 0; u < r; u++ {
				f := cov[i] * curve[i]
				t += f * (s[u] - xl*h[u])
				v.tau[u] += f * gr
				i++
			}
			v.tau[r] += square*t + cov[i]*curve[i]*gr
			i++
		}
		for c, w := range omega {
			part := v.cov[l][m+c*k:]
			w *= square
			for r := range k {
				v.tau[r] += w * v.state.Weights[r*m+c] * part[r]
			}
		}
	}
	for r, i := 0, 0; r < k; r++ {
		a.right[m+r] -= x * v.tau[r]
		for t := 0; t <= r; t++ {
			a.basis[i] += x * x * curve[i] * (s[r]*s[t] + v.total[i])
			i++
		}
	}
}
