package posterior

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/gonum"
)

// Reduction maps the coordinates of a state to fewer ones that say most of its interactions, the same for all rows: of
// the interactions of two rows that are drawn from the state's, the largest part that so many coordinates can have in
// mean square, by the eigenvalues of the form in coordinates of variance 1. It does not change.
type Reduction struct {
	from, to int
	sign     []float64 // to
	matrix   []float64 // to×from
}

// reduceRows is how many rows a reduction is made of at most, spread evenly, and reduceRidge what their variances are
// raised by, of the mean one. Chosen by hand.
const (
	reduceRows  = 10_000
	reduceRidge = 1e-9
)

// Reduction returns one to k coordinates, nil where the state has no more or their form cannot be taken apart. Outputs
// share z. O(rows·q² + q³).
func (s *State) Reduction(k int) *Reduction {
	n := s.NumBasis
	if n <= k || len(s.Field) == 0 {
		return nil
	}
	root, ridge := s.moments()
	var own gonum.Implementation
	if !(ridge > 0) || math.IsInf(ridge, 1) || !own.Dpotrf(blas.Lower, n, root, n) {
		return nil
	}
	form := make([]float64, n*n) // rootᵀ·sign·root, lower triangle
	for a := range n {
		for b := range a + 1 {
			for r := a; r < n; r++ {
				form[a*n+b] += root[r*n+a] * s.Sign[r] * root[r*n+b]
			}
		}
	}
	values, work := make([]float64, n), make([]float64, 4*n)
	if !isFinite(form) || !own.Dsyev(lapack.EVCompute, blas.Lower, n, form, n, values, work, len(work)) ||
		!own.Dtrtri(blas.Lower, blas.NonUnit, n, root, n) {
		return nil
	}
	vectors, back := form, root
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(math.Abs(values[b]), math.Abs(values[a])) })
	out := &Reduction{from: n, to: k, sign: make([]float64, k), matrix: make([]float64, k*n)}
	for i, v := range order[:k] {
		out.sign[i] = math.Copysign(1, values[v])
		scale, row := math.Sqrt(math.Abs(values[v])), out.matrix[i*n:(i+1)*n]
		for r := range n {
			for c := r; c < n; c++ { // back is lower triangular
				row[r] += vectors[c*n+v] * back[c*n+r]
			}
			row[r] *= scale
			if math.IsNaN(row[r]) || math.IsInf(row[r], 0) {
				return nil
			}
		}
	}
	return out
}

// moments returns the second moments of rows, of which it has the lower triangle, and the ridge in them.
func (s *State) moments() (moments []float64, ridge float64) {
	n, rows := s.NumBasis, min(len(s.Field), reduceRows)
	moments = make([]float64, n*n)
	for i := range rows {
		mean, _ := s.Row(int(int64(i) * int64(len(s.Field)) / int64(rows)))
		for r, x := range mean[1:] {
			floats.AddScaled(moments[r*n:r*n+r+1], x/float64(rows), mean[1:r+2])
		}
	}
	for r := range n {
		ridge += reduceRidge * moments[r*n+r] / float64(n)
	}
	for r := range n {
		moments[r*n+r] += ridge
	}
	return moments, ridge
}

// Row appends to dst what a mean row of the state is in the fewer coordinates; a linear weight stays as it is.
func (r *Reduction) Row(dst, row []float64) []float64 {
	dst = append(dst, row[0])
	for i := range r.to {
		dst = append(dst, floats.Dot(r.matrix[i*r.from:(i+1)*r.from], row[1:]))
	}
	return dst
}

// State returns the state in the fewer coordinates, without covariances. The prior of a coordinate has the variance
// that it has in the state's. O(d·q·k).
func (r *Reduction) State(s *State) *State {
	out := *s
	out.NumBasis, out.Sign, out.Covariance = r.to, r.sign, nil
	q := out.RowSize()
	out.Mean, out.Precision = make([]float64, 0, len(s.Field)*q), make([]float64, 0, s.NumFields*q)
	for j := range s.Field {
		mean, _ := s.Row(j)
		out.Mean = r.Row(out.Mean, mean)
	}
	for f := range s.NumFields {
		own := s.PrecisionOf(f)
		out.Precision = append(out.Precision, own[0])
		for i := range r.to {
			variance := 0.0
			for a, w := range r.matrix[i*r.from : (i+1)*r.from] {
				variance += w * w / own[1+a]
			}
			out.Precision = append(out.Precision, 1/variance)
		}
	}
	return &out
}

func isFinite(list []float64) bool {
	return !slices.ContainsFunc(list, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
}
