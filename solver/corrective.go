package solver

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
)

// correctiveFit is the fully corrective refit of Blondel et al. 2015, problem (11): with P (d×k) orthonormal,
//
//	min over symmetric A (k×k) of  Σ_i w_i ℓ(t_i, offset_i + Σ_rs A_rs K_rs(x_i)) + λ‖A‖_*,
//
// where K_rs = ⟨p_r,x⟩⟨p_s,x⟩, or ½(⟨p_r,x⟩⟨p_s,x⟩ − Σ_j p_rj p_sj x_j²) for ANOVA, so that Σ A_rs K_rs is what the eigenvectors of PAP' predict with their
// eigenvalues as weights. The gradient is P'ΓP. Where they take ADMM, with a linear system in the inner loop, this is FISTA, whose proximal step is the
// same shrinkage of eigenvalues (14). A pass costs O(nnz(X) k + d k²) and keeps a few numbers for every row, whatever k is. A point is A in full, row-major.
type correctiveFit struct {
	p       *Problem
	g       *gamma // of one output; a pass leaves the gradients of its point there
	lambda  float64
	workers workers

	k             int
	whole         bool         // P is I
	newton        *wholeNewton // nil where FISTA refits
	axes          []float64    // P, feature-major
	turned        []float64    // PA of the current pass
	own           []float64    // (PAP')_jj, for ANOVA
	offset        []float64    // n: linear term and bias
	current, next []float64    // n: predictions at the accepted and at the trial point
	extrapolated  []float64    // n
	smooth        float64      // L of the last refit; 0 at first

	// Linear term and bias at the points of current, next and extrapolated, where they are eliminated; offset is 0 then.
	linear              *eliminated // nil: they stay
	theta, nextTheta    []float64
	rows, extrapolation []float64

	shrunk     *float64 // what the last step ended in, begins
	shrunkNorm float64  // its nuclear norm
}

func newCorrectiveFit(p *Problem, g *gamma, linear *linearFit, lambda float64, workers workers) *correctiveFit {
	n := p.X.NumRows()
	f := &correctiveFit{
		p: p, g: g, lambda: lambda, workers: workers, linear: newEliminated(linear),
		current: make([]float64, n), next: make([]float64, n), extrapolated: make([]float64, n),
	}
	if f.linear != nil {
		size := len(linear.theta)
		f.theta, f.nextTheta, f.extrapolation, f.rows = make([]float64, size), make([]float64, size), make([]float64, size), make([]float64, n)
	}
	return f
}

// begin takes orthonormal axes and the predictions of the rest of the model, which it keeps. Where linear term and bias are eliminated these are cleared.
func (f *correctiveFit) begin(axes [][]float64, offset []float64) {
	d := f.p.X.NumColumns
	if f.k, f.offset, f.shrunk = len(axes), offset, nil; f.linear != nil {
		clear(offset)
	}
	f.axes, f.turned, f.own = room(f.axes, d*f.k), room(f.turned, d*f.k), room(f.own, d)
	for r, axis := range axes {
		for j, x := range axis {
			f.axes[j*f.k+r] = x
		}
	}
}

// end stores in theta linear term and bias at a, where they are eliminated.
func (f *correctiveFit) end(theta, a []float64) {
	if f.linear != nil {
		f.predict(f.next, a)
		f.eliminate()
		copy(theta, f.nextTheta)
	}
}

// eliminate adds to next the predictions of linear term and bias at their optimum and returns their ridge terms.
func (f *correctiveFit) eliminate() float64 {
	rowLosses(f.workers, f.p, f.next, f.g.grad)
	f.linear.moveTo(f.nextTheta, f.next, f.g.grad, f.rows)
	return f.linear.linear.ridgeOf(f.nextTheta, f.nextTheta)
}

func (f *correctiveFit) accept() {
	f.current, f.next = f.next, f.current
	f.theta, f.nextTheta = f.nextTheta, f.theta
}

// term returns λ‖A‖_*, which the last step knows of where it ended.
func (f *correctiveFit) term(a []float64) float64 {
	if f.shrunk == &a[0] {
		return f.lambda * f.shrunkNorm
	}
	return f.lambda * nuclearNorm(a, f.k)
}

// step shrinks the eigenvalues of a by tλ (14).
func (f *correctiveFit) step(a []float64, t float64) {
	f.shrunk, f.shrunkNorm = &a[0], shrinkEigenvalues(a, f.k, t*f.lambda)
}

// initialSmoothness is the curvature along p_1 p_1', a value too small is doubled.
func (f *correctiveFit) initialSmoothness() float64 {
	a := make([]float64, f.k*f.k)
	a[0] = 1
	f.predict(f.next, a)
	sum := 0.0
	for i, x := range f.next {
		sum += f.p.Weight(i) * (x - f.offset[i]) * (x - f.offset[i])
	}
	return max(sum*f.p.Loss.Curvature(1), 1e-12)
}

func (f *correctiveFit) pass(a []float64, momentum float64) (value, valueY float64, gradient []float64) {
	f.predict(f.next, a)
	ridge := 0.0
	if f.linear != nil {
		ridge = f.eliminate()
	}
	value = rowLosses(f.workers, f.p, f.next, f.g.grad) + ridge
	valueY = value
	if momentum != 0 {
		for i, x := range f.next {
			f.extrapolated[i] = x + momentum*(x-f.current[i])
		}
		if f.linear != nil {
			for i, x := range f.nextTheta {
				f.extrapolation[i] = x + momentum*(x-f.theta[i])
			}
			ridge = f.linear.linear.ridgeOf(f.extrapolation, f.extrapolation)
		}
		valueY = rowLosses(f.workers, f.p, f.extrapolated, f.g.grad) + ridge
	}
	f.g.prepare()
	gradient = make([]float64, f.k*f.k)
	f.gradientTo(gradient)
	return value, valueY, gradient
}

// predict stores the predictions of a in dst (n).
func (f *correctiveFit) predict(dst, a []float64) {
	k, anova := f.k, f.g.kernel == ANOVA
	f.workers.blocks(f.p.X.NumColumns, fitBlock, func(_, _, lo, hi int) {
		for j := lo; j < hi; j++ {
			axis, turned := f.axes[j*k:j*k+k], f.turned[j*k:j*k+k]
			clear(turned)
			for r, x := range axis {
				if x != 0 {
					floats.AddScaled(turned, x, a[r*k:r*k+k])
				}
			}
			f.own[j] = floats.Dot(axis, turned)
		}
	})
	n := f.p.X.NumRows()
	f.workers.blocks(n, rowBlock(n), func(_, _, lo, hi int) {
		work := make([]float64, 2*k)
		inner, turned := work[:k], work[k:]
		for i := lo; i < hi; i++ {
			index, value := f.p.X.Row(i)
			if anova && len(index) == 2 {
				j, l := int(index[0])*k, int(index[1])*k
				dst[i] = f.offset[i] + value[0]*value[1]*floats.Dot(f.axes[j:j+k], f.turned[l:l+k])
				continue
			}
			clear(work)
			squares := 0.0
			for e, j := range index {
				at, x := int(j)*k, value[e]
				if !f.whole {
					floats.AddScaled(inner, x, f.axes[at:at+k])
				}
				floats.AddScaled(turned, x, f.turned[at:at+k])
				squares += x * x * f.own[j]
			}
			if f.whole {
				dst[i] = 0
				for e, j := range index {
					dst[i] += value[e] * turned[j]
				}
			} else {
				dst[i] = floats.Dot(inner, turned)
			}
			if anova {
				dst[i] = 0.5 * (dst[i] - squares)
			}
			dst[i] += f.offset[i]
		}
	})
}

// gradientTo stores P'ΓP in dst (k×k), a few columns at a time.
func (f *correctiveFit) gradientTo(dst []float64) {
	const width = 4 // columns of a product
	d, k := f.p.X.NumColumns, f.k
	block, product := make([]float64, d*width), make([]float64, d*width)
	for first := 0; first < k; first += width {
		size := min(width, k-first)
		for j := range d {
			copy(block[j*size:j*size+size], f.axes[j*k+first:j*k+first+size])
		}
		f.g.mulBlockTo(product[:d*size], block[:d*size], size, slices.Repeat([]float64{1}, size))
		parts := make([][]float64, (d+fitBlock-1)/fitBlock)
		f.workers.blocks(d, fitBlock, func(_, b, lo, hi int) {
			parts[b] = make([]float64, k*size)
			for j := lo; j < hi; j++ {
				for t, y := range product[j*size : j*size+size] {
					floats.AddScaled(parts[b][t*k:t*k+k], y, f.axes[j*k:j*k+k])
				}
			}
		})
		sumInto(dst[first*k:(first+size)*k], parts)
	}
	for r := range k {
		for s := range r {
			mean := 0.5 * (dst[r*k+s] + dst[s*k+r])
			dst[r*k+s], dst[s*k+r] = mean, mean
		}
	}
}

// symmetricOf returns a copy of a in full as a symmetric matrix.
func symmetricOf(a []float64, k int) blas64.Symmetric {
	s := newSymmetric(k)
	copy(s.Data, a)
	return s
}

// nuclearNorm returns the sum of the |eigenvalues| of a symmetric matrix in full, +Inf if it has none.
func nuclearNorm(a []float64, k int) float64 {
	e, ok := decompose(symmetricOf(a, k))
	if !ok {
		return math.Inf(1)
	}
	return floats.Norm(e.values, 1)
}

// shrinkEigenvalues replaces a symmetric matrix in full by argmin_B ½‖B − a‖² + t‖B‖_*: eigenvalues within ±t become 0, the others are moved by t towards
// it. It returns the nuclear norm of what it leaves. A matrix that has no eigenvalues stays.
func shrinkEigenvalues(a []float64, k int, t float64) (norm float64) {
	e, ok := decompose(symmetricOf(a, k))
	if !ok {
		return math.Inf(1)
	}
	sum := newSymmetric(k)
	for s, x := range e.values {
		if size := math.Abs(x) - t; size > 0 {
			norm += size
			blas64.Syr(math.Copysign(size, x), blas64.Vector{N: k, Data: e.vectors[s:], Inc: k}, sum)
		}
	}
	for r := range k {
		for s := r; s < k; s++ {
			a[r*k+s], a[s*k+r] = sum.Data[r*k+s], sum.Data[r*k+s]
		}
	}
	return norm
}
