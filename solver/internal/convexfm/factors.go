package convexfm

import (
	"math"

	"github.com/refitd/refitd/solver/internal/columns"
	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/problem"
	"gonum.org/v1/gonum/floats"
)

// factorDescent moves all basis vectors of a convex factorization machine and their eigenvalues at once, with linear
// term and bias: for factors p_r = √|v_r| h_r of fixed signs s_r,
//
//	min over P, w and b of  Σ_i w_i ℓ(t_i, ⟨w,x_i⟩ + b + Σ_r s_r K(p_r, x_i)) + λ Σ_r ‖p_r‖² + ½ α ‖w‖² + ½ α_b b²,
//
// is the convex problem where P has as many columns as Z has eigenvalues, as ‖Z‖_* is the least Σ ‖p_r‖² (Srebro,
// Rennie and Jaakkola 2004). Refits over the span of the vectors, which move none of them, take dozens of eigenvectors
// to come as near.
//
// It is coordinate descent, feature by feature over all factors and w_j, exact in every coordinate of squared loss: K
// of ANOVA is linear in one, with that of Homogeneous the objective is a polynomial of degree four in it (quarticStep).
// For another loss each sweep minimises the bound of its second derivatives by Loss.Curvature. The objective never
// rises. A sweep costs O(nnz(X) k); it runs on one goroutine, as each coordinate wants the one before.
type factorDescent struct {
	p       *problem.Problem
	squares bool // Homogeneous, else ANOVA
	lambda  float64
	linear  *linear.LinearFit
	workers parallel.Workers
	columns *columns.Matrix
	bound   float64 // of ℓ″

	k       int
	sign    []float64
	factors []float64 // P, d×k feature-major
	inner   []float64 // n×k: ⟨p_r, x_i⟩; empty where every row has two entries
	pred    []float64 // n, where the sweep began
	begun   []float64 // n: the gradients there
	slope   []float64 // n: gradients, of the bound for another loss than the squared one

	// Of one feature:
	near     []float64 // slope of its rows
	weight   []float64 // weights of its rows
	moves    []float64 // k by rows: ∂K/∂p_jr
	weighted []float64 // one of them times the weights
}

// relaxation multiplies the steps of factors, as coordinate.Descent.Relaxation does.
const relaxation = 1.5

// NewFactorDescent is for one of the kernels of degree 2.
func NewFactorDescent(p *problem.Problem, kernel problem.Kernel, linear *linear.LinearFit, lambda float64,
	workers parallel.Workers) *factorDescent {
	x := p.X
	return &factorDescent{
		p: p, squares: kernel == problem.Homogeneous, lambda: lambda, linear: linear, workers: workers,
		bound: p.Loss.Curvature(1), columns: columns.New(x.NumColumns, x.Start, x.Index, x.Value),
	}
}

// Begin takes unit vectors, their weights and the predictions of the whole model, which it copies.
func (f *factorDescent) Begin(vectors [][]float64, v, pred []float64) {
	d, n := f.p.X.NumColumns, f.p.X.NumRows()
	f.k = len(vectors)
	f.sign, f.factors = problem.Room(f.sign, f.k), problem.Room(f.factors, d*f.k)
	for r, h := range vectors {
		f.sign[r] = math.Copysign(1, v[r])
		size := math.Sqrt(math.Abs(v[r]))
		for j, x := range h {
			f.factors[j*f.k+r] = size * x
		}
	}
	if f.columns.Mate == nil {
		f.inner = problem.Room(f.inner, n*f.k)
		for i := range n {
			index, value := f.p.X.Row(i)
			for e, j := range index {
				dense.AddScaled(f.inner[i*f.k:(i+1)*f.k], value[e], f.factors[int(j)*f.k:int(j+1)*f.k])
			}
		}
	}
	f.pred, f.begun, f.slope = append(f.pred[:0], pred...), problem.Room(f.begun, n), problem.Room(f.slope, n)
}

// End returns unit vectors and weights, without those that came to nothing.
func (f *factorDescent) End() (vectors [][]float64, v []float64) {
	for r := range f.k {
		h := make([]float64, f.p.X.NumColumns)
		for j := range h {
			h[j] = f.factors[j*f.k+r]
		}
		if size := dense.Norm2(h); size > 0 && !math.IsInf(1/size, 0) {
			floats.Scale(1/size, h)
			vectors, v = append(vectors, h), append(v, f.sign[r]*size*size)
		}
	}
	return vectors, v
}

// Run sweeps until one lowers the objective by less than tolerance of it, at most so often. Called off, it leaves what
// it has moved by then, whose objective is no higher.
func (f *factorDescent) Run(sweeps int, tolerance float64) {
	for range sweeps {
		loss := linear.RowLosses(f.workers, f.p, f.pred, f.slope)
		if f.workers.Cancelled() { // the slopes are not those of all rows
			return
		}
		objective := loss + f.linear.Penalty() + f.lambda*floats.Dot(f.factors, f.factors)
		copy(f.begun, f.slope)
		fall, ok := f.sweep()
		if !ok {
			return
		}
		for i, x := range f.slope {
			if w := f.bound * f.p.Weight(i); w > 0 {
				f.pred[i] += (x - f.begun[i]) / w
			}
		}
		if fall <= tolerance*objective {
			return
		}
	}
}

// descentPause is the number of entries after which a sweep checks whether to continue.
const descentPause = 1 << 14

// sweep moves every coordinate once and returns by what the objective, or its bound, fell. It reports false if it was
// called off.
func (f *factorDescent) sweep() (fall float64, ok bool) {
	fall = f.moveBias()
	entries := 0
	for j := range f.p.X.NumColumns {
		if entries += f.columns.Start[j+1] - f.columns.Start[j]; entries >= descentPause || j == 0 {
			if entries = 0; !f.workers.Yield() {
				return fall, false
			}
		}
		fall += f.moveFeature(j)
	}
	return fall, true
}

// moveBias moves the bias.
func (f *factorDescent) moveBias() (fall float64) {
	if f.linear.BiasRidge == 0 {
		return 0
	}
	bias := &f.linear.Theta[len(f.linear.Theta)-1]
	slope, curve := floats.Sum(f.slope)+f.linear.BiasRidge**bias, f.linear.BiasRidge
	for i := range f.slope {
		curve += f.bound * f.p.Weight(i)
	}
	step := slope / curve
	*bias -= step
	for i := range f.slope {
		f.slope[i] -= step * f.bound * f.p.Weight(i)
	}
	return 0.5 * step * slope
}

// moveFeature moves the linear weight of feature j and its coordinate of every factor.
func (f *factorDescent) moveFeature(j int) (fall float64) {
	rows, values := f.columns.Column(j)
	f.nearOf(j)
	if f.linear.Ridge > 0 {
		fall += f.move(&f.linear.Theta[j], values, 1, f.linear.Ridge, 1)
	}
	chunk := max(1, min(f.k, MaxMoves/max(1, len(rows))))
	for lo := 0; lo < f.k; lo += chunk {
		fall += f.moveFactors(j, lo, min(f.k, lo+chunk))
	}
	f.slopesOf(j)
	return fall
}

// nearOf gathers slopes and weights of the rows of feature j.
func (f *factorDescent) nearOf(j int) {
	rows, _ := f.columns.Column(j)
	f.near, f.weight = f.near[:0], f.weight[:0]
	for _, i := range rows {
		f.near = append(f.near, f.slope[i])
	}
	if f.p.Weights != nil {
		for _, i := range rows {
			f.weight = append(f.weight, f.p.Weights[i])
		}
	}
}

// slopesOf takes them back.
func (f *factorDescent) slopesOf(j int) {
	rows, _ := f.columns.Column(j)
	for e, i := range rows {
		f.slope[i] = f.near[e]
	}
}

// MaxMoves bounds the derivatives that are kept at a time.
const MaxMoves = 1 << 20

// moveFactors moves coordinate j of the factors from lo to hi.
func (f *factorDescent) moveFactors(j, lo, hi int) (fall float64) {
	f.movesTo(j, lo, hi)
	rows, values := f.columns.Column(j)
	n, own := len(rows), f.factors[j*f.k+lo:j*f.k+hi]
	for r := range own {
		if moves := f.moves[r*n : (r+1)*n]; f.squares {
			fall += f.moveSquare(&own[r], moves, values, f.sign[lo+r])
		} else {
			fall += f.move(&own[r], moves, f.sign[lo+r], 2*f.lambda, relaxation)
		}
	}
	if f.columns.Mate != nil {
		return fall
	}
	for e, i := range rows {
		x, inner := values[e], f.inner[int(i)*f.k+lo:int(i)*f.k+hi]
		if x == 0 {
			continue
		}
		for r, p := range own { // what the other features of the row give, and the new coordinate
			inner[r] = f.moves[r*n+e]/x + x*p
		}
	}
	return fall
}

// movesTo stores x_ij times what the other features of a row give ⟨p_r, x_i⟩ in moves, for the rows of feature j and
// the factors from lo to hi: ∂K/∂p_jr of ANOVA, and half of it of Homogeneous but for the square of x_ij p_jr.
func (f *factorDescent) movesTo(j, lo, hi int) {
	from, to := f.columns.Start[j], f.columns.Start[j+1]
	n, k := to-from, f.k
	if cap(f.moves) < n*(hi-lo) {
		f.moves = make([]float64, n*(hi-lo))
	}
	f.moves = f.moves[:n*(hi-lo)]
	if f.columns.Mate != nil {
		for e, l := range f.columns.Mate[from:to] {
			x := f.columns.Product[from+e]
			for r, p := range f.factors[int(l)*k+lo : int(l)*k+hi] {
				f.moves[r*n+e] = x * p
			}
		}
		return
	}
	own := f.factors[j*k+lo : j*k+hi]
	for e, i := range f.columns.Rows[from:to] {
		x := f.columns.Value[from+e]
		for r, p := range f.inner[int(i)*k+lo : int(i)*k+hi] {
			f.moves[r*n+e] = x * (p - x*own[r])
		}
	}
}

// move moves one coordinate, on which predictions of the rows in near depend by sign·direction, with a ridge ½·ridge·x²
// on it. It returns by what the objective fell.
func (f *factorDescent) move(x *float64, direction []float64, sign, ridge, relax float64) (fall float64) {
	weighted := direction
	if f.p.Weights != nil {
		f.weighted = append(f.weighted[:0], direction...)
		floats.Mul(f.weighted, f.weight)
		weighted = f.weighted
	}
	curve := f.bound*dense.Dot(weighted, direction) + ridge
	if !(curve > 0) {
		return 0
	}
	step := relax * (sign*dense.Dot(direction, f.near) + ridge**x) / curve
	if step == 0 || math.IsNaN(step) {
		return 0
	}
	*x -= step
	dense.AddScaled(f.near, -sign*step*f.bound, weighted)
	return 0.5 * step * step * curve * (2 - relax) / relax
}

// StepSweeps are the sweeps of a refit between two selections, StartSweeps those of the linear term before the first.
const (
	StepSweeps  = 6
	StartSweeps = 10
)

// Shares of Tolerance at which the sweeps of a warm start end, relative to the objective: mostly the first is enough
// for a certificate of Tolerance, and a sweep saved is a twelfth of a warm refit.
const (
	WarmShare      = 0.015
	WarmShareAgain = 0.002
)
