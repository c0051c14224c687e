package convexfm

import (
	"math"
	"slices"

	"github.com/refitd/refitd/solver/internal/eigen"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/problem"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
)

// CorrectiveFit is the fully corrective refit of Blondel et al. 2015, problem (11): with P (d×k) orthonormal,
//
//	min over symmetric A (k×k) of  Σ_i w_i ℓ(t_i, offset_i + Σ_rs A_rs K_rs(x_i)) + λ‖A‖_*,
//
// where K_rs = ⟨p_r,x⟩⟨p_s,x⟩, or ½(⟨p_r,x⟩⟨p_s,x⟩ − Σ_j p_rj p_sj x_j²) for ANOVA, so that Σ
// A_rs K_rs is what the eigenvectors of PAP' predict with their eigenvalues as weights. The gradient is P'ΓP. Where
// they take ADMM, with a linear system in the inner loop, this is FISTA, whose proximal step is the same shrinkage of
// eigenvalues (14). A pass costs O(nnz(X) k + d k²) and keeps a few numbers for every row, whatever k is. A point is A
// in full, row-major.
type CorrectiveFit struct {
	P       *problem.Problem
	G       *gamma.Gamma // of one output; a pass leaves the gradients of its point there
	Lambda  float64
	Workers parallel.Workers

	k             int
	Whole         bool         // P is I
	Newton        *WholeNewton // nil where FISTA refits
	axes          []float64    // P, feature-major
	turned        []float64    // PA of the current pass
	own           []float64    // (PAP')_jj, for ANOVA
	Offset        []float64    // n: linear term and bias
	Current, next []float64    // n: predictions at the accepted and at the trial point
	extrapolated  []float64    // n
	Smooth        float64      // L of the last refit; 0 at first

	// Linear term and bias at the points of current, next and extrapolated, where they are eliminated; offset is 0
	// then.
	linear              *linear.Eliminated // nil: they stay
	theta, nextTheta    []float64
	rows, extrapolation []float64

	shrunk     *float64 // what the last step ended in, begins
	shrunkNorm float64  // its nuclear norm
}

func NewCorrectiveFit(p *problem.Problem, g *gamma.Gamma, linearPart *linear.LinearFit, lambda float64,
	workers parallel.Workers) *CorrectiveFit {
	n := p.X.NumRows()
	f := &CorrectiveFit{
		P: p, G: g, Lambda: lambda, Workers: workers, linear: linear.NewEliminated(linearPart),
		Current: make([]float64, n), next: make([]float64, n), extrapolated: make([]float64, n),
	}
	if f.linear != nil {
		size := len(linearPart.Theta)
		f.theta, f.nextTheta, f.extrapolation, f.rows = make([]float64, size), make([]float64,
			size), make([]float64, size), make([]float64, n)
	}
	return f
}

// Begin takes orthonormal axes and the predictions of the rest of the model, which it keeps. Where linear term and bias
// are eliminated these are cleared.
func (f *CorrectiveFit) Begin(axes [][]float64, offset []float64) {
	d := f.P.X.NumColumns
	if f.k, f.Offset, f.shrunk = len(axes), offset, nil; f.linear != nil {
		clear(offset)
	}
	f.axes, f.turned, f.own = problem.Room(f.axes, d*f.k), problem.Room(f.turned, d*f.k), problem.Room(f.own, d)
	for r, axis := range axes {
		for j, x := range axis {
			f.axes[j*f.k+r] = x
		}
	}
}

// End stores in theta linear term and bias at a, where they are eliminated.
func (f *CorrectiveFit) End(theta, a []float64) {
	if f.linear != nil {
		f.Predict(f.next, a)
		f.eliminate()
		copy(theta, f.nextTheta)
	}
}

// eliminate adds to next the predictions of linear term and bias at their optimum and returns their ridge terms.
func (f *CorrectiveFit) eliminate() float64 {
	linear.RowLosses(f.Workers, f.P, f.next, f.G.Grad)
	f.linear.MoveTo(f.nextTheta, f.next, f.G.Grad, f.rows)
	return f.linear.Linear.RidgeOf(f.nextTheta, f.nextTheta)
}

func (f *CorrectiveFit) Accept() {
	f.Current, f.next = f.next, f.Current
	f.theta, f.nextTheta = f.nextTheta, f.theta
}

// Term returns λ‖A‖_*, which the last step knows of where it ended.
func (f *CorrectiveFit) Term(a []float64) float64 {
	if f.shrunk == &a[0] {
		return f.Lambda * f.shrunkNorm
	}
	return f.Lambda * NuclearNorm(a, f.k)
}

// Step shrinks the eigenvalues of a by tλ (14).
func (f *CorrectiveFit) Step(a []float64, t float64) {
	f.shrunk, f.shrunkNorm = &a[0], shrinkEigenvalues(a, f.k, t*f.Lambda)
}

// InitialSmoothness is the curvature along p_1 p_1', a value too small is doubled.
func (f *CorrectiveFit) InitialSmoothness() float64 {
	a := make([]float64, f.k*f.k)
	a[0] = 1
	f.Predict(f.next, a)
	sum := 0.0
	for i, x := range f.next {
		sum += f.P.Weight(i) * (x - f.Offset[i]) * (x - f.Offset[i])
	}
	return max(sum*f.P.Loss.Curvature(1), 1e-12)
}

func (f *CorrectiveFit) Pass(a []float64, momentum float64) (value, valueY float64, gradient []float64) {
	f.Predict(f.next, a)
	ridge := 0.0
	if f.linear != nil {
		ridge = f.eliminate()
	}
	value = linear.RowLosses(f.Workers, f.P, f.next, f.G.Grad) + ridge
	valueY = value
	if momentum != 0 {
		for i, x := range f.next {
			f.extrapolated[i] = x + momentum*(x-f.Current[i])
		}
		if f.linear != nil {
			for i, x := range f.nextTheta {
				f.extrapolation[i] = x + momentum*(x-f.theta[i])
			}
			ridge = f.linear.Linear.RidgeOf(f.extrapolation, f.extrapolation)
		}
		valueY = linear.RowLosses(f.Workers, f.P, f.extrapolated, f.G.Grad) + ridge
	}
	f.G.Prepare()
	gradient = make([]float64, f.k*f.k)
	f.gradientTo(gradient)
	return value, valueY, gradient
}

// Predict stores the predictions of a in dst (n).
func (f *CorrectiveFit) Predict(dst, a []float64) {
	k, anova := f.k, f.G.Kernel == problem.ANOVA
	f.Workers.Blocks(f.P.X.NumColumns, problem.FitBlock, func(_, _, lo, hi int) {
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
	n := f.P.X.NumRows()
	f.Workers.Blocks(n, problem.RowBlock(n), func(_, _, lo, hi int) {
		work := make([]float64, 2*k)
		inner, turned := work[:k], work[k:]
		for i := lo; i < hi; i++ {
			index, value := f.P.X.Row(i)
			if anova && len(index) == 2 {
				j, l := int(index[0])*k, int(index[1])*k
				dst[i] = f.Offset[i] + value[0]*value[1]*floats.Dot(f.axes[j:j+k], f.turned[l:l+k])
				continue
			}
			clear(work)
			squares := 0.0
			for e, j := range index {
				at, x := int(j)*k, value[e]
				if !f.Whole {
					floats.AddScaled(inner, x, f.axes[at:at+k])
				}
				floats.AddScaled(turned, x, f.turned[at:at+k])
				squares += x * x * f.own[j]
			}
			if f.Whole {
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
			dst[i] += f.Offset[i]
		}
	})
}

// gradientTo stores P'ΓP in dst (k×k), a few columns at a time.
func (f *CorrectiveFit) gradientTo(dst []float64) {
	const width = 4 // columns of a product
	d, k := f.P.X.NumColumns, f.k
	block, product := make([]float64, d*width), make([]float64, d*width)
	for first := 0; first < k; first += width {
		size := min(width, k-first)
		for j := range d {
			copy(block[j*size:j*size+size], f.axes[j*k+first:j*k+first+size])
		}
		f.G.MulBlockTo(product[:d*size], block[:d*size], size, slices.Repeat([]float64{1}, size))
		parts := make([][]float64, (d+problem.FitBlock-1)/problem.FitBlock)
		f.Workers.Blocks(d, problem.FitBlock, func(_, b, lo, hi int) {
			parts[b] = make([]float64, k*size)
			for j := lo; j < hi; j++ {
				for t, y := range product[j*size : j*size+size] {
					floats.AddScaled(parts[b][t*k:t*k+k], y, f.axes[j*k:j*k+k])
				}
			}
		})
		parallel.SumInto(dst[first*k:(first+size)*k], parts)
	}
	for r := range k {
		for s := range r {
			mean := 0.5 * (dst[r*k+s] + dst[s*k+r])
			dst[r*k+s], dst[s*k+r] = mean, mean
		}
	}
}

// SymmetricOf returns a copy of a in full as a symmetric matrix.
func SymmetricOf(a []float64, k int) blas64.Symmetric {
	s := eigen.NewSymmetric(k)
	copy(s.Data, a)
	return s
}

// NuclearNorm returns the sum of the |eigenvalues| of a symmetric matrix in full, +Inf if it has none.
func NuclearNorm(a []float64, k int) float64 {
	e, ok := eigen.Decompose(SymmetricOf(a, k))
	if !ok {
		return math.Inf(1)
	}
	return floats.Norm(e.Values, 1)
}

// shrinkEigenvalues replaces a symmetric matrix in full by argmin_B ½‖B − a‖² + t‖B‖_*: eigenvalues within ±t become 0,
// the others are moved by t towards it. It returns the nuclear norm of what it leaves. A matrix that has no eigenvalues
// stays.
func shrinkEigenvalues(a []float64, k int, t float64) (norm float64) {
	e, ok := eigen.Decompose(SymmetricOf(a, k))
	if !ok {
		return math.Inf(1)
	}
	sum := eigen.NewSymmetric(k)
	for s, x := range e.Values {
		if size := math.Abs(x) - t; size > 0 {
			norm += size
			blas64.Syr(math.Copysign(size, x), blas64.Vector{N: k, Data: e.Vectors[s:], Inc: k}, sum)
		}
	}
	for r := range k {
		for s := r; s < k; s++ {
			a[r*k+s], a[s*k+r] = sum.Data[r*k+s], sum.Data[r*k+s]
		}
	}
	return norm
}
