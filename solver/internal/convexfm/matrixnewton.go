package convexfm

import (
	"math"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/eigen"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/problem"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// WholeNewton refits a whole Z of few columns together with linear term and bias, for a loss other than the squared
// one, by the proximal Newton method (Lee, Sun and Saunders 2014): a step minimises the quadratic model of the loss
// plus λ‖Z‖_* and the ridges. On dense rows squares and products of the columns depend on each other and on the
// linear term, so that FISTA took thousands of passes over them where this takes a few: the model is one of matrices of
// d(d+1)/2 + d + 1 numbers a side, out of which linear term and bias are eliminated.
//
// The coordinates of Z are its diagonal and √2 times its entries off the diagonal, so that lengths are those of ‖Z‖_F.
type WholeNewton struct {
	F      *CorrectiveFit // what it predicts with, and of
	Linear *linear.LinearFit

	D, Size int // columns, and coordinates of Z
	All     int // with those of linear term and bias

	Hessian []float64 // all×(all+1): with the gradient as the last column
	schur   []float64 // size×size
	slope   []float64 // size

	Short int // models whose minimum modelSteps did not reach
	spent int // steps on the models of all refits
}

const (
	// NewtonColumns bounds the columns: with more the matrices cost more than the passes they save.
	NewtonColumns = 20
	// NewtonSteps bounds the steps of a refit, which takes three to ten.
	NewtonSteps = 30
	// modelSteps bounds the proximal gradient steps on one model, each of O(d⁴) whatever n is, and modelAccuracy is the
	// part of the first one's length at which they end.
	modelSteps    = 2000
	modelAccuracy = 1e-4
	// solveSteps bounds them over all refits of a solve, after which Newton steps are given up, too: rows that are fewer
	// than columns took 10⁵, other problems 4,000 to the last digit. Chosen by hand.
	solveSteps = 8000
	// ShortModels are how many models of a solve may end at modelSteps before Newton steps are given up: with fewer
	// rows than coordinates, or classes that are all but separated, λ alone curves a model, whose gradient steps then
	// get nowhere. Of ordinary problems one model in hundreds ends there.
	ShortModels = 2
)

// NewWholeNewton returns nil where the refit is better left to FISTA.
func NewWholeNewton(f *CorrectiveFit, linear *linear.LinearFit) *WholeNewton {
	d := f.P.X.NumColumns
	if _, squared := f.P.Loss.(loss.Squared); squared || d > NewtonColumns || d == 0 {
		return nil
	}
	s := &WholeNewton{F: f, Linear: linear, D: d, Size: d * (d + 1) / 2}
	s.All = s.Size + d + 1
	s.schur, s.slope = make([]float64, s.Size*s.Size), make([]float64, s.Size)
	return s
}

// Run improves a (d×d, in full) and theta until a step lowers the objective by no more than tolerance of it, and
// returns the steps. Called off, it leaves the last point that was evaluated whole. It reports false where the models
// have no minimum to be found, or none in modelSteps.
func (s *WholeNewton) Run(a, theta []float64, tolerance float64) (steps int, ok bool) {
	f := s.F
	s.Linear.PredictTo(f.Offset, theta)
	f.Predict(f.Current, a)
	value := linear.RowLosses(f.Workers, f.P, f.Current, f.G.Grad) + f.Lambda*NuclearNorm(a,
		s.D) + s.Linear.RidgeOf(theta, theta)
	next, change, moved := make([]float64, len(a)), make([]float64, len(a)), make([]float64, len(theta))
	pred := make([]float64, len(f.Current))
	for steps = range NewtonSteps {
		if s.Model(theta); f.Workers.Cancelled() {
			return steps, true
		}
		if !s.Step(next, moved, a, theta) || s.Short >= ShortModels {
			return steps, false
		}
		copy(change, next)
		floats.Sub(change, a)
		expected := f.Lambda*(NuclearNorm(next, s.D)-NuclearNorm(a, s.D)) + s.along(change, moved)
		if !(expected < 0) {
			return steps, true
		}
		s.Linear.PredictTo(f.Offset, moved)
		f.Predict(f.next, change)
		fall := 0.0
		for t := 1.0; t > 1e-4; t /= 2 {
			for i, x := range f.next {
				pred[i] = f.Current[i] + t*x
			}
			floats.AddScaledTo(next, a, t, change)
			to := append([]float64(nil), theta...)
			floats.AddScaled(to, t, moved)
			trial := linear.RowLosses(f.Workers, f.P, pred, f.G.Grad) + f.Lambda*NuclearNorm(next,
				s.D) + s.Linear.RidgeOf(to, to)
			if f.Workers.Cancelled() {
				return steps, true
			}
			if trial <= value+1e-4*t*expected {
				fall = value - trial
				value = trial
				copy(a, next)
				copy(theta, to)
				f.Current, pred = pred, f.Current
				break
			}
		}
		if fall <= tolerance*value {
			return steps + 1, true
		}
	}
	return NewtonSteps, true
}

// Model stores second derivatives and gradient of the smooth part of the objective at the current predictions, whose
// gradients are in g.grad.
func (s *WholeNewton) Model(theta []float64) {
	f, n, width := s.F, s.F.P.X.NumRows(), s.All+1
	size := max(gamma.MinGammaBlock, (n+gamma.GammaBlocks-1)/gamma.GammaBlocks)
	size = (size + loss.FitTile - 1) / loss.FitTile * loss.FitTile
	parts := make([][]float64, (n+size-1)/size)
	f.Workers.Blocks(n, size, func(worker, b, lo, hi int) {
		part := make([]float64, s.All*width)
		columns := make([][]float64, s.All)
		for c := range columns {
			columns[c] = make([]float64, loss.FitTile)
		}
		weighted, curve := make([]float64, width*loss.FitTile), make([]float64, loss.FitTile)
		x := make([]float64, s.D)
		for ; lo < hi && f.Workers.Yield(); lo += loss.FitTile {
			rows := min(hi-lo, loss.FitTile)
			for i := range rows {
				s.rowTo(columns, x, lo+i, i)
			}
			var weight []float64
			if f.P.Weights != nil {
				weight = f.P.Weights[lo : lo+rows]
			}
			s.Linear.Scratch[worker].Loss.Curvature(curve[:rows], f.Current[lo:lo+rows], f.P.Targets[lo:lo+rows],
				weight, rows)
			for c, column := range columns {
				floats.MulTo(weighted[c*loss.FitTile:c*loss.FitTile+rows], column[:rows], curve[:rows])
			}
			copy(weighted[s.All*loss.FitTile:], f.G.Grad[lo:lo+rows])
			dense.DotAdd(part, columns, 0, rows, weighted, loss.FitTile, width)
		}
		parts[b] = part
	})
	s.Hessian = problem.Room(s.Hessian, s.All*width)
	parallel.SumInto(s.Hessian, parts)
	for c := range s.D + 1 {
		ridge, at := s.Linear.Ridge, s.Size+c
		if c == s.D {
			ridge = s.Linear.BiasRidge
		}
		s.Hessian[at*width+at] += ridge
		s.Hessian[at*width+s.All] += ridge * theta[c]
		if ridge > 0 {
			continue
		}
		for o := range s.All { // a block that is left out stays as it is
			s.Hessian[at*width+o], s.Hessian[o*width+at] = 0, 0
		}
		s.Hessian[at*width+at], s.Hessian[at*width+s.All] = 1, 0
	}
}

// rowTo stores the derivatives of the prediction of row i in place to of the columns. X has room for a row.
func (s *WholeNewton) rowTo(columns [][]float64, x []float64, i, to int) {
	clear(x)
	index, value := s.F.P.X.Row(i)
	for e, j := range index {
		x[j] = value[e]
	}
	square, product := 1.0, math.Sqrt2
	if s.F.G.Kernel == problem.ANOVA {
		square, product = 0, math.Sqrt2/2
	}
	c := 0
	for j, y := range x {
		columns[c][to] = square * y * y
		for l, z := range x[j+1:] {
			columns[c+1+l][to] = product * y * z
		}
		c += s.D - j
	}
	for j, y := range x {
		columns[s.Size+j][to] = y
	}
	columns[s.Size+s.D][to] = 1
}

// Coordinates stores those of a in full in u, whole the other way round.
func (s *WholeNewton) Coordinates(u, a []float64) {
	c := 0
	for j := range s.D {
		u[c] = a[j*s.D+j]
		for l := j + 1; l < s.D; l++ {
			u[c+l-j] = math.Sqrt2 * a[j*s.D+l]
		}
		c += s.D - j
	}
}

func (s *WholeNewton) Whole(a, u []float64) {
	c := 0
	for j := range s.D {
		a[j*s.D+j] = u[c]
		for l := j + 1; l < s.D; l++ {
			a[j*s.D+l] = u[c+l-j] / math.Sqrt2
			a[l*s.D+j] = a[j*s.D+l]
		}
		c += s.D - j
	}
}

// along returns the slope of the smooth part in a direction.
func (s *WholeNewton) along(change, moved []float64) float64 {
	u, width, sum := make([]float64, s.Size), s.All+1, 0.0
	s.Coordinates(u, change)
	for c, x := range append(u, moved...) {
		sum += s.Hessian[c*width+s.All] * x
	}
	return sum
}

// Step stores in next the Z that minimises the model, and in moved what linear term and bias move by. It reports false
// where it cannot.
func (s *WholeNewton) Step(next, moved, a, theta []float64) bool {
	width, rest := s.All+1, s.D+1
	factor := eigen.NewSymmetric(rest)
	cross := blas64.General{
		Rows:   rest,
		Cols:   s.Size + 1,
		Stride: s.Size + 1,
		Data:   make([]float64, rest*(s.Size+1)),
	} // with the gradient as the last column
	for r := range rest {
		from := s.Hessian[(s.Size+r)*width : (s.Size+r+1)*width]
		copy(factor.Data[r*rest:(r+1)*rest], from[s.Size:s.All])
		copy(cross.Data[r*cross.Stride:], from[:s.Size])
		cross.Data[r*cross.Stride+s.Size] = from[s.All]
	}
	triangle, ok := lapack64.Potrf(factor)
	if !ok {
		return false
	}
	lapack64.Potrs(triangle, cross)
	for c := range s.Size { // S = H_uu − H_uθ H_θθ⁻¹ H_θu, and the gradient likewise
		row := s.schur[c*s.Size : (c+1)*s.Size]
		copy(row, s.Hessian[c*width:c*width+s.Size])
		s.slope[c] = s.Hessian[c*width+s.All]
		for r := range rest {
			h := s.Hessian[c*width+s.Size+r]
			floats.AddScaled(row, -h, cross.Data[r*cross.Stride:r*cross.Stride+s.Size])
			s.slope[c] -= h * cross.Data[r*cross.Stride+s.Size]
		}
	}
	begun, end := make([]float64, s.Size), make([]float64, s.Size)
	s.Coordinates(begun, a)
	if copy(end, begun); !s.minimise(end, begun, next) {
		return false
	}
	s.Whole(next, end)
	floats.Sub(end, begun)
	for r := range rest {
		moved[r] = -cross.Data[r*cross.Stride+s.Size] - floats.Dot(cross.Data[r*cross.Stride:r*cross.Stride+s.Size],
			end)
	}
	return true
}

// minimise moves u, which begins at begun, to min ½ (u − begun)'S(u − begun) + slope'(u − begun) + λ‖Z‖_*,
// by FISTA with gradient restart. Work is d×d.
func (s *WholeNewton) minimise(u, begun, work []float64) bool {
	matrix := eigen.NewSymmetric(s.Size)
	copy(matrix.Data, s.schur)
	e, ok := eigen.Decompose(matrix)
	if !ok {
		return false
	}
	smooth, _ := e.Largest()
	if !(smooth > 0) || math.IsInf(smooth, 1) {
		return false
	}
	y, gradient, last := append([]float64(nil), u...), make([]float64, s.Size), make([]float64, s.Size)
	momentum, first := 1.0, 0.0
	for t := range modelSteps {
		if s.spent++; s.spent > solveSteps {
			s.Short = ShortModels
			return true
		}
		for c := range gradient {
			last[c] = y[c] - begun[c]
		}
		blas64.Symv(1, blas64.Symmetric{N: s.Size, Stride: s.Size, Data: s.schur, Uplo: matrix.Uplo},
			blas64.Vector{N: s.Size, Data: last, Inc: 1}, 0, blas64.Vector{N: s.Size, Data: gradient, Inc: 1})
		floats.Add(gradient, s.slope)
		copy(last, u)
		floats.AddScaledTo(u, y, -1/smooth, gradient)
		s.Whole(work, u)
		shrinkEigenvalues(work, s.D, s.F.Lambda/smooth)
		s.Coordinates(u, work)
		length, back := 0.0, 0.0
		for c := range u {
			length += (u[c] - y[c]) * (u[c] - y[c])
			back += (y[c] - u[c]) * (u[c] - last[c])
		}
		if length = math.Sqrt(length); t == 0 {
			first = length
		}
		if !(length > modelAccuracy*first) {
			return true
		}
		following := 0.5 * (1 + math.Sqrt(1+4*momentum*momentum))
		share := (momentum - 1) / following
		if momentum = following; back > 0 {
			momentum, share = 1, 0
		}
		for c := range y {
			y[c] = u[c] + share*(u[c]-last[c])
		}
	}
	s.Short++
	return true
}
