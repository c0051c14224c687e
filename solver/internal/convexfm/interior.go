package convexfm

import (
	"cmp"
	"math"
	"slices"

	"github.com/refitd/refitd/solver/internal/eigen"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/problem"
	"github.com/refitd/refitd/solver/ridge"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// Interior solves the problem of a convex factorization machine with few rows and columns by a barrier method in its
// dual (Boyd and Vandenberghe 2004, section 11.6). With K(h, x_i) = h'A_i h and Γ(g) = Σ_i g_i A_i it is
//
//	max over g of  D(g) = −Σ_i w_i ℓ*(g_i/w_i) − ‖X'g‖²/(2α) − (Σ_i g_i)²/(2α_b)  with  −λI ≼ Γ(g) ≼ λI,
//
// where g are the derivatives of the losses. Newton's method maximises τD(g) + log det(λI − Γ) + log det(λI + Γ), with
// a logarithm of the distance to each bound that ℓ* has, for a τ that grows. At its maximum
//
//	Z = ((λI + Γ)⁻¹ − (λI − Γ)⁻¹)/τ,  w = −X'g/α,  b = −Σ_i g_i/α_b
//
// are a point of the problem whose objective is above D by the number of logarithms over τ. Where λ is near 0 and the
// rows can be fitted, only λ curves the objective in Z along most directions: refits lower it by a millionth a step,
// far from the optimum. Here λ is a scale, and the steps are as many whatever it is.
type Interior struct {
	p       *problem.Problem
	linear  *linear.LinearFit
	lambda  float64
	workers parallel.Workers

	rows    []int     // of a weight above 0, n
	matrix  []float64 // n×d²: A_i
	gram    []float64 // n×n: what linear term and bias add to −D, twice differentiated
	bounded int       // bounds of ℓ* in each row: 1 of the squared hinge, 2 of the logistic loss

	g, step, slope []float64
	hessian        []float64 // n×n, lower triangle
	turned         []float64 // n×d²: L⁻¹A_iL⁻ᵀ
	factors        [2]blas64.Triangular
	steps          int
}

const (
	// interiorWork bounds the multiplications of a step, to about 0.02 s, and interiorNumbers those of all A_i, to 4 MB.
	interiorWork    = 2e7
	interiorNumbers = 1 << 19
	// interiorSteps bounds the steps, of which there are five to ten for each τ. τ grows by interiorGrowth.
	interiorSteps, interiorGrowth = 500, 10
	// A maximum is reached once Newton's decrement is below centred. A step is cut short by damping while the decrement
	// is above full (Nesterov and Nemirovskii 1994).
	centred, full = 1e-3, 0.25
	// droppedShare of the gap that is asked for may come from eigenvalues that are left out.
	droppedShare = 0.1
)

// InteriorFits reports whether n rows of d columns are few enough for an Interior.
func InteriorFits(n, d int) bool {
	rows, columns := float64(n), float64(d)
	work := 4*rows*columns*columns*columns + 2*rows*rows*columns*columns + rows*rows*rows/3
	return work <= interiorWork && rows*columns*columns <= interiorNumbers
}

// NewInterior is for one output, one of the kernels of degree 2, and a loss of ConvexFM. It returns nil for another
// loss.
func NewInterior(p *problem.Problem, kernel problem.Kernel, linear *linear.LinearFit, lambda float64,
	workers parallel.Workers) *Interior {
	f := &Interior{p: p, linear: linear, lambda: lambda, workers: workers}
	switch p.Loss.(type) {
	case loss.Squared:
	case loss.BinarySquaredHinge:
		f.bounded = 1
	case loss.BinaryLogistic:
		f.bounded = 2
	default:
		return nil
	}
	for i := range p.X.NumRows() {
		if p.Weight(i) > 0 {
			f.rows = append(f.rows, i)
		}
	}
	n, d := len(f.rows), p.X.NumColumns
	f.matrix, f.turned = make([]float64, n*d*d), make([]float64, n*d*d)
	f.gram, f.hessian = make([]float64, n*n), make([]float64, n*n)
	f.g, f.step, f.slope = make([]float64, n), make([]float64, n), make([]float64, n)
	dense := make([]float64, n*d)
	for r, i := range f.rows {
		index, value := p.X.Row(i)
		for e, j := range index {
			dense[r*d+int(j)] = value[e]
			for o, l := range index {
				x := value[e] * value[o]
				switch {
				case kernel != problem.ANOVA:
				case j == l:
					x = 0
				default:
					x *= 0.5
				}
				f.matrix[r*d*d+int(j)*d+int(l)] = x
			}
		}
	}
	for r := range n {
		for s := range r + 1 {
			if linear.Ridge > 0 {
				f.gram[r*n+s] += floats.Dot(dense[r*d:r*d+d], dense[s*d:s*d+d]) / linear.Ridge
			}
			if linear.BiasRidge > 0 {
				f.gram[r*n+s] += 1 / linear.BiasRidge
			}
			f.gram[s*n+r] = f.gram[r*n+s]
		}
	}
	return f
}

// Solution is a point of the problem, and a bound of its optimum.
type Solution struct {
	Vectors   [][]float64 // eigenvectors of Z
	Weights   []float64   // its eigenvalues
	Theta     []float64   // linear weights and bias
	Objective float64
	Lower     float64 // no point has a lower objective
	Steps     int
}

// Run returns a solution of at most so many vectors whose objective is within a part of it of Lower, or the one nearest
// to that. It reports false where rounding or the end of the solve leaves none.
func (f *Interior) Run(part float64, most int) (best Solution, ok bool) {
	if !f.begin() {
		return Solution{}, false
	}
	logarithms := float64(2*f.p.X.NumColumns + f.bounded*len(f.rows))
	losses := 0.0 // without a model
	for _, i := range f.rows {
		losses += f.p.Weight(i) * f.p.Loss.Eval(nil, []float64{0}, f.p.Target(i))
	}
	if !(losses > 0) {
		return Solution{}, false
	}
	for tau := logarithms / losses; f.centre(tau); tau *= interiorGrowth {
		s, valid := f.solution(tau, part, most)
		if !valid {
			break
		}
		if ok {
			s.Lower = max(s.Lower, best.Lower)
		}
		if !ok || s.Objective-s.Lower < best.Objective-best.Lower {
			best, ok = s, true
		}
		if s.Objective-s.Lower <= part*s.Objective || logarithms/tau <= droppedShare*part*s.Lower {
			break // what is left is for vectors that there is no room for
		}
	}
	best.Steps = f.steps
	return best, ok
}

// begin takes a g inside the bounds.
func (f *Interior) begin() bool {
	if f.bounded == 0 {
		clear(f.g)
		return f.factorise(f.g)
	}
	for share := 0.5; share > 0; share /= 2 {
		for r, i := range f.rows {
			f.g[r] = -share * f.p.Weight(i) * f.p.Target(i)[0]
		}
		if f.factorise(f.g) {
			return true
		}
	}
	return false
}

// factorise takes the factors of λI − Γ(g) and λI + Γ(g). It reports false where g is not inside the bounds.
func (f *Interior) factorise(g []float64) bool {
	d := f.p.X.NumColumns
	for r, i := range f.rows {
		if f.bounded > 0 {
			if c := -g[r] / f.p.Weight(i) * f.p.Target(i)[0]; !(c > 0) || f.bounded == 2 && !(c < 1) {
				return false
			}
		}
	}
	sum := f.sum(g)
	for side, sign := range [2]float64{-1, 1} {
		s := blas64.Symmetric{N: d, Stride: d, Data: make([]float64, d*d), Uplo: blas.Upper}
		floats.AddScaled(s.Data, sign, sum)
		for j := range d {
			s.Data[j*d+j] += f.lambda
		}
		factor, ok := lapack64.Potrf(s)
		if !ok {
			return false
		}
		f.factors[side] = factor
	}
	return true
}

// sum returns Γ(g).
func (f *Interior) sum(g []float64) []float64 {
	d := f.p.X.NumColumns
	sum := make([]float64, d*d)
	for r, x := range g {
		floats.AddScaled(sum, x, f.matrix[r*d*d:(r+1)*d*d])
	}
	return sum
}

// conjugate returns ℓ* of row r at g and its first two derivatives in g, weighted.
func (f *Interior) conjugate(r int, g float64) (value, slope, curve float64) {
	w, t := f.p.Weight(f.rows[r]), f.p.Target(f.rows[r])[0]
	a := g / w
	switch f.bounded {
	case 0:
		return w * a * (t + 0.5*a), t + a, 1 / w
	case 1:
		return w * a * (t + 0.25*a), t + 0.5*a, 0.5 / w
	}
	c := -a * t // probability of the other class
	odds := math.Log(c) - math.Log1p(-c)
	return w * (c*odds + math.Log1p(-c)), -t * odds, 1 / (c * (1 - c)) / w
}

// centre maximises for a τ, and reports false where it cannot.
func (f *Interior) centre(tau float64) bool {
	for ; f.steps < interiorSteps && f.workers.Yield(); f.steps++ {
		f.derive(tau)
		if floats.ScaleTo(f.step, -1, f.slope); !ridge.Solve(f.hessian, f.step) {
			return false
		}
		decrement := math.Sqrt(-floats.Dot(f.slope, f.step))
		if !(decrement >= 0) || math.IsInf(decrement, 1) {
			return false
		}
		length := 1.0
		if decrement > full {
			length = 1 / (1 + decrement)
		}
		next := make([]float64, len(f.g))
		for {
			if floats.AddScaledTo(next, f.g, length, f.step); f.factorise(next) {
				break
			}
			if length *= 0.5; length < 1e-6 {
				return false
			}
		}
		copy(f.g, next)
		if decrement < centred {
			return true
		}
	}
	return false
}

// derive stores gradient and Hessian of what is minimised.
func (f *Interior) derive(tau float64) {
	n, d := len(f.rows), f.p.X.NumColumns
	for r, g := range f.g {
		_, slope, curve := f.conjugate(r, g)
		f.slope[r] = tau * (slope + floats.Dot(f.gram[r*n:r*n+n], f.g))
		floats.ScaleTo(f.hessian[r*n:r*n+n], tau, f.gram[r*n:r*n+n])
		f.hessian[r*n+r] += tau * curve
		if f.bounded > 0 {
			f.slope[r] -= 1 / g
			f.hessian[r*n+r] += 1 / (g * g)
		}
		if f.bounded == 2 {
			i := f.rows[r]
			rest := g + f.p.Weight(i)*f.p.Target(i)[0]
			f.slope[r] -= 1 / rest
			f.hessian[r*n+r] += 1 / (rest * rest)
		}
	}
	turned := blas64.General{Rows: n, Cols: d * d, Stride: d * d, Data: f.turned}
	for side, sign := range [2]float64{1, -1} {
		factor := f.factors[side]
		copy(f.turned, f.matrix)
		for r := range n {
			a := blas64.General{Rows: d, Cols: d, Stride: d, Data: f.turned[r*d*d : (r+1)*d*d]}
			blas64.Trsm(blas.Left, blas.Trans, 1, factor, a)
			blas64.Trsm(blas.Right, blas.NoTrans, 1, factor, a)
			for j := range d {
				f.slope[r] += sign * a.Data[j*d+j]
			}
		}
		blas64.Syrk(blas.NoTrans, 1, turned, 1,
			blas64.Symmetric{N: n, Stride: n, Data: f.hessian, Uplo: blas.Lower})
	}
}

// solution returns the point of the problem that belongs to g.
func (f *Interior) solution(tau, part float64, most int) (s Solution, ok bool) {
	n, d := len(f.rows), f.p.X.NumColumns
	z := eigen.NewSymmetric(d)
	for side, sign := range [2]float64{-1, 1} {
		inverse := blas64.General{Rows: d, Cols: d, Stride: d, Data: make([]float64, d*d)}
		for j := range d {
			inverse.Data[j*d+j] = sign / tau
		}
		lapack64.Potrs(f.factors[side], inverse)
		floats.Add(z.Data, inverse.Data)
	}
	s.Theta = make([]float64, d+1)
	s.Lower = -0.5 * quadratic(f.gram, f.g)
	for r, i := range f.rows {
		value, _, _ := f.conjugate(r, f.g[r])
		s.Lower -= value
		index, x := f.p.X.Row(i)
		for e, j := range index {
			if f.linear.Ridge > 0 {
				s.Theta[j] -= f.g[r] * x[e] / f.linear.Ridge
			}
		}
		if f.linear.BiasRidge > 0 {
			s.Theta[d] -= f.g[r] / f.linear.BiasRidge
		}
	}
	values, ok := f.eigenvectors(&s, z)
	if !ok {
		return s, false
	}
	kernel := make([]float64, n) // Σ_r v_r K(h_r, x_i) of the vectors so far
	all := make([]float64, d+1)  // objectives of so many vectors
	for k := range all {
		if k > 0 {
			f.addKernel(kernel, s.Vectors[k-1], values[k-1])
		}
		all[k] = f.objective(kernel, s.Theta) + f.lambda*floats.Norm(values[:k], 1)
	}
	least := floats.Min(all[:min(most, d)+1])
	k := slices.IndexFunc(all, func(v float64) bool { return v <= least+droppedShare*part*least })
	if k < 0 || !(all[k] >= 0) || math.IsInf(all[k], 1) || math.IsNaN(s.Lower) {
		return s, false
	}
	s.Vectors, s.Weights, s.Objective = s.Vectors[:k], values[:k], all[k]
	return s, true
}

// eigenvectors stores those of z, the largest |eigenvalue| first, and returns the eigenvalues.
func (f *Interior) eigenvectors(s *Solution, z blas64.Symmetric) (values []float64, ok bool) {
	d := z.N
	e, ok := eigen.Decompose(z)
	if !ok {
		return nil, false
	}
	order := make([]int, d)
	for t := range order {
		order[t] = t
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(math.Abs(e.Values[b]), math.Abs(e.Values[a]))
	})
	for _, t := range order {
		h := make([]float64, d)
		e.Vector(h, 1, t)
		s.Vectors, values = append(s.Vectors, h), append(values, e.Values[t])
	}
	return values, true
}

// addKernel adds v·K(h, x_i) to each row.
func (f *Interior) addKernel(to, h []float64, v float64) {
	d := len(h)
	for r := range to {
		to[r] += v * quadratic(f.matrix[r*d*d:(r+1)*d*d], h)
	}
}

// objective returns the losses of predictions and the ridge terms.
func (f *Interior) objective(kernel, theta []float64) float64 {
	sum, d := f.linear.RidgeOf(theta, theta), len(theta)-1
	for r, i := range f.rows {
		o := kernel[r] + theta[d]
		index, x := f.p.X.Row(i)
		for e, j := range index {
			o += theta[j] * x[e]
		}
		sum += f.p.Weight(i) * f.p.Loss.Eval(nil, []float64{o}, f.p.Target(i))
	}
	return sum
}

// quadratic returns x'ax of a matrix in full.
func quadratic(a, x []float64) float64 {
	sum, n := 0.0, len(x)
	for r, v := range x {
		sum += v * floats.Dot(a[r*n:r*n+n], x)
	}
	return sum
}
