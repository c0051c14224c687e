package convexfm

import (
	"math"

	"github.com/refitd/refitd/solver/internal/eigen"
	"github.com/refitd/refitd/solver/internal/gamma"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
)

// Alike is the |cosine| of vectors that are not worth having both.
const Alike = 0.9

// Spectrum is what a solve knows of Z = Σ_r v_r h_r h_r' in addition to the vectors and their weights.
type Spectrum struct {
	Fit     *CorrectiveFit // nil for diagonal refits
	Split   int            // of Rows.split, for ANOVA
	Factors *factorDescent // nil where refits move no vectors: those of the whole Z, or WeightsOnly
}

// Moves reports whether refits move the vectors together with their weights.
func (s *Spectrum) Moves() bool { return s != nil && s.Factors != nil }

// WholeColumns is up to how many columns, if MaxBasis leaves room for all, refits are of the whole Z: a pass over dense
// rows then costs no more than one over the span of so many vectors, and no vector is missing from it, so that one
// refit takes the place of dozens. On 500 dense rows of 50 columns and small λ the way over spans took half a minute.
const WholeColumns = 64

// WholeSteps is after how many steps refits of the whole Z are given up: one that reaches its optimum leaves no vector
// to enter, and ordinary problems take one to six steps. Those of separable classes and a λ near 0 took hundreds. From
// there on refits are those of Algorithm 1.
const WholeSteps = 8

// IsWhole reports whether refits are of the whole Z.
func (s *Spectrum) IsWhole() bool { return s != nil && s.Fit != nil && s.Fit.Whole }

// carefulSteps are the Krylov vectors of careful searches, where they are no more than BoundRoom numbers: with fewer,
// those that start from the vectors found before miss others close to them.
const carefulSteps = 60

// Search returns the search for eigenvectors: for one output there is room for more of them.
func (s *Spectrum) Search(o gamma.OracleSearch, d int) gamma.OracleSearch {
	if s == nil {
		return o
	}
	o.Eigen.Further = gamma.FurtherDominant
	if o.Eigen.Tolerance <= gamma.FineSearch.Tolerance {
		o.Eigen.Dimension = max(o.Eigen.Dimension, min(carefulSteps, int(gamma.BoundRoom)/max(1, d)))
	}
	return o
}

// Entering returns the vectors that enter together, at most room of them: the selected one and those further
// eigenvectors that violate optimality.
func (s *Spectrum) Entering(found gamma.Found, threshold float64, room int) [][]float64 {
	if s == nil {
		return [][]float64{found.Basis}
	}
	var chosen [][]float64
	enter := func(h []float64, value float64) {
		if s.Split > 0 && value > 0 { // mirrored, so that it gets a positive weight like the others
			h = append([]float64(nil), h...)
			floats.Scale(-1, h[s.Split:])
		}
		for _, other := range chosen {
			if math.Abs(floats.Dot(h, other)) > Alike {
				return
			}
		}
		chosen = append(chosen, h)
	}
	enter(found.Basis, found.Gradient[0])
	for t, value := range found.Eigen.FurtherValues {
		if math.Abs(value) > threshold && len(chosen) < room {
			enter(found.Eigen.Further[t], value)
		}
	}
	return chosen
}

// MatrixOverAll is MatrixOver in the coordinates of the columns.
func MatrixOverAll(vectors [][]float64, v []float64) (axes [][]float64, sum blas64.Symmetric) {
	d := len(vectors[0])
	sum = eigen.NewSymmetric(d)
	for r, h := range vectors {
		blas64.Syr(v[r], blas64.Vector{N: d, Data: h, Inc: 1}, sum)
	}
	for j := range d {
		axis := make([]float64, d)
		axis[j] = 1
		axes = append(axes, axis)
	}
	return axes, sum
}

// Fold returns eigenvectors and eigenvalues that predict the same from as few vectors as can be where every row has
// one feature of each of two fields. Only the block B of Z between the fields counts there: each vector (a, b) of
// weight v is as good as (a, −b) of weight −v, so that half a dozen of mixed signs may represent a B of rank three.
// Half of Z less its mirror image has the eigenvalues ±σ/2 for the singular values σ of B; those above 0, twice, have
// the same B and a nuclear norm no larger than that of Z.
func (s *Spectrum) Fold(vectors [][]float64, values []float64) ([][]float64, []float64) {
	if s.Split == 0 || len(vectors) == 0 {
		return vectors, values
	}
	var both [][]float64
	var weights []float64
	for r, h := range vectors {
		mirrored := append([]float64(nil), h...)
		floats.Scale(-1, mirrored[s.Split:])
		both, weights = append(both, h, mirrored), append(weights, values[r], -values[r])
	}
	axes, sum := eigen.MatrixOver(both, weights)
	all, eigenvalues, ok := eigen.EigenvectorsOf(sum, axes)
	if !ok {
		return vectors, values
	}
	vectors, values = nil, nil
	for r, x := range eigenvalues {
		if x > 0 {
			vectors, values = append(vectors, all[r]), append(values, x)
		}
	}
	return vectors, values
}
