package encode

import (
	"math"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// rescaling is how the values of a column over one vocabulary are made of those over another: factor·x + shift, where
// neither is an outlier.
type rescaling struct {
	column        int
	factor, shift float64
}

// rescalings returns those of the numeric columns that have another scale in to than in from: of values over to, those
// over from.
func rescalings(from, to *Vocabulary) (all []rescaling) {
	first := to.NumColumns() - to.NumFields() + len(to.Names)
	for f := range to.Numeric {
		a, b := &from.Numeric[f], &to.Numeric[f]
		if a.Center != b.Center || a.Scale != b.Scale {
			all = append(all, rescaling{first + f, b.Scale / a.Scale, (b.Center - a.Center) / a.Scale})
		}
	}
	return all
}

// RescalePosterior takes a posterior over the names of to, but with the scales of from, over to those of to.
func RescalePosterior(s *posterior.State, from, to *Vocabulary) {
	for _, r := range rescalings(from, to) {
		s.Rescale(r.column, r.factor, r.shift)
	}
}

// RescaleModel is RescalePosterior of a model: what it predicts stays the same. A model of degree 3, or without linear
// weights where there is no constant either, cannot hold the products of the shift and other features. These are left
// to the refit.
func RescaleModel(m *solver.Model, from, to *Vocabulary) {
	for _, r := range rescalings(from, to) {
		rescaleColumn(m, r, to.Augment)
	}
}

func rescaleColumn(m *solver.Model, r rescaling, augmented bool) {
	k, outputs := m.NumBasis, m.NumOutputs
	if m.Linear != nil {
		for c := range outputs {
			w := &m.Linear[r.column*outputs+c]
			m.Bias[c] += r.shift * *w
			*w *= r.factor
		}
	}
	for a := range k {
		h := &m.Basis[r.column*k+a]
		shift := r.shift * *h
		*h *= r.factor
		switch {
		case shift == 0 || m.Kernel.Degree() != 2:
		case m.Kernel == solver.Homogeneous && augmented:
			m.Basis[(m.NumFeatures-1)*k+a] += shift
		case m.Linear != nil:
			shiftVector(m, r.column, a, shift)
		}
	}
}

// shiftVector gives to linear weights and biases what basis vector a says where its inner product p with every row is
// greater by δ than its coordinates make it: V((p + δ)² − p²), and of ANOVA, where it is h_j x_j alone that is greater,
// Vδ Σ_{l≠j} h_l x_l.
func shiftVector(m *solver.Model, j, a int, delta float64) {
	k, outputs := m.NumBasis, m.NumOutputs
	for c := range outputs {
		v := m.Weights[a*outputs+c] * delta
		if m.Kernel == solver.Homogeneous {
			m.Bias[c] += v * delta
			v *= 2
		}
		for l := range m.NumFeatures {
			if l != j || m.Kernel == solver.Homogeneous {
				m.Linear[l*outputs+c] += v * m.Basis[l*k+a]
			}
		}
	}
}

// A number keeps the scale of the version that a refit starts from while its values lie much the same. centerMoves is
// how far the center may have moved, in scales. scaleShrink and scaleGrowth bound the ratio of the new scale to the
// kept one. Values beyond the kept scale are cut off at the end.
const (
	centerMoves = 0.1
	scaleShrink = 0.5
	scaleGrowth = 1.05
)

// stillFits reports whether a scale can be kept where another would be chosen now.
func stillFits(kept, now *format.NumericField) bool {
	growth := now.Scale / kept.Scale
	return math.Abs(now.Center-kept.Center) <= centerMoves*kept.Scale && growth >= scaleShrink && growth <= scaleGrowth
}
