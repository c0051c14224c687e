package solver

import (
	"math"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/refitd/refitd/solver/internal/dense"
)

// wholeNewton refits a whole Z of few columns together with linear term and bias, for a loss other than the squared one, by the proximal Newton method (Lee,
// Sun and Saunders 2014): a step minimises the quadratic model of the loss plus λ‖Z‖_* and the ridges. On dense rows squares and products of the columns
// depend on each other and on the linear term, so that FISTA took thousands of passes over them where this takes a few: the model is one of matrices of
// d(d+1)/2 + d + 1 numbers a side, out of which linear term and bias are eliminated.
//
// The coordinates of Z are its diagonal and √2 times its entries off the diagonal, so that lengths are those of ‖Z‖_F.
type wholeNewton struct {
	f      *correctiveFit // what it predicts with, and of
	linear *linearFit

	d, size int // columns, and coordinates of Z
	all     int // with those of linear term and bias

	hessian []float64 // all×(all+1): with the gradient as the last column
	schur   []float64 // size×size
	slope   []float64 // size

	short int // models whose minimum modelSteps did not reach
}

const (
	// newtonColumns bounds the columns: with more the matrices cost more than the passes they save.
	newtonColumns = 20
	// newtonSteps bounds the steps of a refit, which takes three to ten.
	newtonSteps = 30
	// modelSteps bounds the proximal gradient steps on one model, each of O(d⁴) whatever n is, and modelAccuracy is the part of the first one's length at
	// which they end.
	modelSteps    = 2000
	modelAccuracy = 1e-4
	// shortModels are how many models of a solve may end at modelSteps before Newton steps are given up: with fewer
	// rows than coordinates, or classes that are all but separated, λ alone curves a model, whose gradient steps then
	// get nowhere. Of ordinary problems one model in hundreds ends there.
	shortModels = 2
)

// newWholeNewton returns nil where the refit is better left to FISTA.
func newWholeNewton(f *correctiveFit, linear *linearFit) *wholeNewton {
	d := f.p.X.NumColumns
	if _, squared := f.p.Loss.(Squared); squared || d > newtonColumns || d == 0 {
		return nil
	}
	s := &wholeNewton{f: f, linear: linear, d: d, size: d * (d + 1) / 2}
	s.all = s.size + d + 1
	s.schur, s.slope = make([]float64, s.size*s.size), make([]float64, s.size)
	return s
}

// run improves a (d×d, in full) and theta until a step lowers the objective by no more than tolerance of it, and returns the steps. Called off, it leaves the
// last point that was evaluated whole. It reports false where the models have no minimum to be found, or none in
// modelSteps.
func (s *wholeNewton) run(a, theta []float64, tolerance float64) (steps int, ok bool) {
	f := s.f
	s.linear.predictTo(f.offset, theta)
	f.predict(f.current, a)
	value := rowLosses(f.workers, f.p, f.current, f.g.grad) + f.lambda*nuclearNorm(a, s.d) + s.linear.ridgeOf(theta, theta)
	next, change, moved := make([]float64, len(a)), make([]float64, len(a)), make([]float64, len(theta))
	pred := make([]float64, len(f.current))
	for steps = range newtonSteps {
		if s.model(theta); f.workers.cancelled() {
			return steps, true
		}
		if !s.step(next, moved, a, theta) || s.short >= shortModels {
			return steps, false
		}
		copy(change, next)
		floats.Sub(change, a)
		expected := f.lambda*(nuclearNorm(next, s.d)-nuclearNorm(a, s.d)) + s.along(change, moved)
		if !(expected < 0) {
			return steps, true
		}
		s.linear.predictTo(f.offset, moved)
		f.predict(f.next, change)
		fall := 0.0
		for t := 1.0; t > 1e-4; t /= 2 {
			for i, x := range f.next {
				pred[i] = f.current[i] + t*x
			}
			floats.AddScaledTo(next, a, t, change)
			to := append([]float64(nil), theta...)
			floats.AddScaled(to, t, moved)
			trial := rowLosses(f.workers, f.p, pred, f.g.grad) + f.lambda*nuclearNorm(next, s.d) + s.linear.ridgeOf(to, to)
			if f.workers.cancelled() {
				return steps, true
			}
			if trial <= value+1e-4*t*expected {
				fall = value - trial
				value = trial
				copy(a, next)
				copy(theta, to)
				f.current, pred = pred, f.current
				break
			}
		}
		if fall <= tolerance*value {
			return steps + 1, true
		}
	}
	return newtonSteps, true
}

// model stores second derivatives and gradient of the smooth part of the objective at the current predictions, whose gradients are in g.grad.
func (s *wholeNewton) model(theta []float64) {
	f, n, width := s.f, s.f.p.X.NumRows(), s.all+1
	size := max(minGammaBlock, (n+gammaBlocks-1)/gammaBlocks)
	size = (size + fitTile - 1) / fitTile * fitTile
	parts := make([][]float64, (n+size-1)/size)
	f.workers.blocks(n, size, func(worker, b, lo, hi int) {
		part := make([]float64, s.all*width)
		columns := make([][]float64, s.all)
		for c := range columns {
			columns[c] = make([]float64, fitTile)
		}
		weighted, curve := make([]float64, width*fitTile), make([]float64, fitTile)
		x := make([]float64, s.d)
		for ; lo < hi && f.workers.yield(); lo += fitTile {
			rows := min(hi-lo, fitTile)
			for i := range rows {
				s.rowTo(columns, x, lo+i, i)
			}
			var weight []float64
			if f.p.Weights != nil {
				weight = f.p.Weights[lo : lo+rows]
			}
			s.linear.scratch[worker].loss.curvature(curve[:rows], f.current[lo:lo+rows], f.p.Targets[lo:lo+rows], weight, rows)
			for c, column := range columns {
				floats.MulTo(weighted[c*fitTile:c*fitTile+rows], column[:rows], curve[:rows])
			}
			copy(weighted[s.all*fitTile:], f.g.grad[lo:lo+rows])
			dense.DotAdd(part, columns, 0, rows, weighted, fitTile, width)
		}
		parts[b] = part
	})
	s.hessian = room(s.hessian, s.all*width)
	sumInto(s.hessian, parts)
	for c := range s.d + 1 {
		ridge, at := s.linear.ridge, s.size+c
		if c == s.d {
			ridge = s.linear.biasRidge
		}
		s.hessian[at*width+at] += ridge
		s.hessian[at*width+s.all] += ridge * theta[c]
		if ridge > 0 {
			continue
		}
		for o := range s.all { // a block that is left out stays as it is
			s.hessian[at*width+o], s.hessian[o*width+at] = 0, 0
		}
		s.hessian[at*width+at], s.hessian[at*width+s.all] = 1, 0
	}
}

// rowTo stores the derivatives of the prediction of row i in place to of the columns. X has room for a row.
func (s *wholeNewton) rowTo(columns [][]float64, x []float64, i, to int) {
	clear(x)
	index, value := s.f.p.X.Row(i)
	for e, j := range index {
		x[j] = value[e]
	}
	square, product := 1.0, math.Sqrt2
	if s.f.g.kernel == ANOVA {
		square, product = 0, math.Sqrt2/2
	}
	c := 0
	for j, y := range x {
		columns[c][to] = square * y * y
		for l, z := range x[j+1:] {
			columns[c+1+l][to] = product * y * z
		}
		c += s.d - j
	}
	for j, y := range x {
		columns[s.size+j][to] = y
	}
	columns[s.size+s.d][to] = 1
}

// coordinates stores those of a in full in u, whole the other way round.
func (s *wholeNewton) coordinates(u, a []float64) {
	c := 0
	for j := range s.d {
		u[c] = a[j*s.d+j]
		for l := j + 1; l < s.d; l++ {
			u[c+l-j] = math.Sqrt2 * a[j*s.d+l]
		}
		c += s.d - j
	}
}

func (s *wholeNewton) whole(a, u []float64) {
	c := 0
	for j := range s.d {
		a[j*s.d+j] = u[c]
		for l := j + 1; l < s.d; l++ {
			a[j*s.d+l] = u[c+l-j] / math.Sqrt2
			a[l*s.d+j] = a[j*s.d+l]
		}
		c += s.d - j
	}
}

// along returns the slope of the smooth part in a direction.
func (s *wholeNewton) along(change, moved []float64) float64 {
	u, width, sum := make([]float64, s.size), s.all+1, 0.0
	s.coordinates(u, change)
	for c, x := range append(u, moved...) {
		sum += s.hessian[c*width+s.all] * x
	}
	return sum
}

// step stores in next the Z that minimises the model, and in moved what linear term and bias move by. It reports false where it cannot.
func (s *wholeNewton) step(next, moved, a, theta []float64) bool {
	width, rest := s.all+1, s.d+1
	factor := newSymmetric(rest)
	cross := blas64.General{Rows: rest, Cols: s.size + 1, Stride: s.size + 1, Data: make([]float64, rest*(s.size+1))} // with the gradient as the last column
	for r := range rest {
		from := s.hessian[(s.size+r)*width : (s.size+r+1)*width]
		copy(factor.Data[r*rest:(r+1)*rest], from[s.size:s.all])
		copy(cross.Data[r*cross.Stride:], from[:s.size])
		cross.Data[r*cross.Stride+s.size] = from[s.all]
	}
	triangle, ok := lapack64.Potrf(factor)
	if !ok {
		return false
	}
	lapack64.Potrs(triangle, cross)
	for c := range s.size { // S = H_uu − H_uθ H_θθ⁻¹ H_θu, and the gradient likewise
		row := s.schur[c*s.size : (c+1)*s.size]
		copy(row, s.hessian[c*width:c*width+s.size])
		s.slope[c] = s.hessian[c*width+s.all]
		for r := range rest {
			h := s.hessian[c*width+s.size+r]
			floats.AddScaled(row, -h, cross.Data[r*cross.Stride:r*cross.Stride+s.size])
			s.slope[c] -= h * cross.Data[r*cross.Stride+s.size]
		}
	}
	begun, end := make([]float64, s.size), make([]float64, s.size)
	s.coordinates(begun, a)
	if copy(end, begun); !s.minimise(end, begun, next) {
		return false
	}
	s.whole(next, end)
	floats.Sub(end, begun)
	for r := range rest {
		moved[r] = -cross.Data[r*cross.Stride+s.size] - floats.Dot(cross.Data[r*cross.Stride:r*cross.Stride+s.size], end)
	}
	return true
}

// minimise moves u, which begins at begun, to min ½ (u − begun)'S(u − begun) + slope'(u − begun) + λ‖Z‖_*, by FISTA with gradient restart. Work is d×d.
func (s *wholeNewton) minimise(u, begun, work []float64) bool {
	matrix := newSymmetric(s.size)
	copy(matrix.Data, s.schur)
	e, ok := decompose(matrix)
	if !ok {
		return false
	}
	smooth, _ := e.largest()
	if !(smooth > 0) || math.IsInf(smooth, 1) {
		return false
	}
	y, gradient, last := append([]float64(nil), u...), make([]float64, s.size), make([]float64, s.size)
	momentum, first := 1.0, 0.0
	for t := range modelSteps {
		for c := range gradient {
			last[c] = y[c] - begun[c]
		}
		blas64.Symv(1, blas64.Symmetric{N: s.size, Stride: s.size, Data: s.schur, Uplo: matrix.Uplo}, blas64.Vector{N: s.size, Data: last, Inc: 1}, 0,
			blas64.Vector{N: s.size, Data: gradient, Inc: 1})
		floats.Add(gradient, s.slope)
		copy(last, u)
		floats.AddScaledTo(u, y, -1/smooth, gradient)
		s.whole(work, u)
		shrinkEigenvalues(work, s.d, s.f.lambda/smooth)
		s.coordinates(u, work)
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
	s.short++
	return true
}
