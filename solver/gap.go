package solver

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// penalizedGap bounds objective − optimum for min F(U, w) + λΩ(U) + ½α‖w‖²: by convexity of F and Ω(U*) ≤ B = objective/λ,
//
//	gap = ⟨∇F, U⟩ + λΩ(U) + B · max(0, Ω*(∇F) − λ) + Σ ‖∇_w‖²/2α,
//
// with ∇_w the gradient of the whole objective in a ridge block (passed summed up as ridgeGap). No loss, norm or ridge is below 0, so
// the objective itself is a bound as well, and the smaller of the two is returned.
func penalizedGap(inner, norm, objective, dual, lambda, ridgeGap float64) float64 {
	return min(objective, inner+lambda*norm+objective/lambda*max(0, dual-lambda)+ridgeGap)
}

// constrainedGap is the linear duality gap ⟨U, ∇F⟩ + τ Ω*(∇F) of min F(U) subject to Ω(U) ≤ τ (Jaggi 2013; Blondel et al. 2017,
// appendix B.2).
func constrainedGap(inner, radius, dual float64) float64 { return inner + radius*dual }

// Limits of an exact dual norm: a dense eigensolver on m matrices of d×d, and their assembly.
const (
	maxDenseFeatures = 200
	maxDenseWork     = 2e8 // multiplications
)

// exactDual returns Ω*(∇F) over all unit vectors where an eigensolver gives it: for the ℓ1 penalty, and for every penalty with one
// output (they coincide). It reports false where that is not so or would take long.
func (g *gamma) exactDual(penalty Penalty) (float64, bool) {
	d, m := g.x.NumColumns, g.outputs
	if (penalty != L1 && m > 1) || d > maxDenseFeatures {
		return 0, false
	}
	work := 0.0
	for i := range g.x.NumRows() {
		entries := float64(g.x.Start[i+1] - g.x.Start[i])
		work += entries * entries * float64(m)
	}
	if work > maxDenseWork {
		return 0, false
	}
	largest := 0.0
	for c := range m {
		var eig mat.EigenSym
		if !eig.Factorize(g.dense(c), false) {
			return 0, false
		}
		values := eig.Values(nil)
		largest = max(largest, math.Abs(values[0]), math.Abs(values[d-1]))
	}
	return largest, true
}

// dense returns Γ_c. It is for small d only.
func (g *gamma) dense(c int) *mat.SymDense {
	d, m := g.x.NumColumns, g.outputs
	a := mat.NewSymDense(d, nil)
	for i := range g.x.NumRows() {
		w := g.grad[i*m+c]
		if g.kernel == ANOVA {
			w *= 0.5
		}
		index, value := g.x.Row(i)
		for s, j := range index {
			for t, l := range index[s:] {
				if t == 0 && g.kernel == ANOVA {
					continue
				}
				a.SetSym(int(j), int(l), a.At(int(j), int(l))+w*value[s]*value[s+t])
			}
		}
	}
	return a
}

// outputGradient stores the gradient of the loss in V, Φ'D, in dst (k×m), given the weighted loss gradients D (n×m).
func (f *outputFit) outputGradient(dst, rows []float64) {
	m, n := f.p.Outputs, f.p.X.NumRows()
	column := make([]float64, n)
	for c := range m {
		for i := range column {
			column[i] = rows[i*m+c]
		}
		for r, phi := range f.phi {
			dst[r*m+c] = floats.Dot(phi, column)
		}
	}
}

// ridgeGap returns ‖∇_w‖²/2α summed over the linear term and the bias, given the weighted loss gradients (n×m).
func (f *linearFit) ridgeGap(rows []float64) float64 {
	if f.idle() {
		return 0
	}
	g := make([]float64, len(f.theta))
	f.gradientTo(g, rows)
	split := len(g) - f.p.Outputs
	gap := 0.0
	if f.ridge > 0 {
		gap += floats.Dot(g[:split], g[:split]) / (2 * f.ridge)
	}
	if f.biasRidge > 0 {
		gap += floats.Dot(g[split:], g[split:]) / (2 * f.biasRidge)
	}
	return gap
}
