package posterior

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// Levels returns the posterior of a number, Gaussian with one output, as one of the levels of an ordinal label whose output c is threshold[c] less slope
// times the number: a linear change of every row, of its covariance and of the prior. slope is above 0.
func (s *State) Levels(threshold []float64, slope float64) *State {
	out := s.Clone()
	out.Likelihood, out.Noise, out.Bias = Logistic, 1, make([]float64, len(threshold))
	for c, t := range threshold {
		out.Bias[c] = t - slope*s.Bias[0]
	}
	floats.Scale(-1, out.Sign)
	q := out.rowSize()
	factor := levelFactors(q, slope)
	for f := range out.NumFields {
		for a := range factor {
			out.Precision[f*q+a] /= factor[a] * factor[a]
		}
	}
	for j := range out.Field {
		mean, cov := out.Row(j)
		floats.Mul(mean, factor)
		if cov == nil {
			continue
		}
		for a := range factor {
			row := cov[a*(a+1)/2 : a*(a+1)/2+a+1]
			floats.Mul(row, factor[:a+1])
			floats.Scale(factor[a], row)
		}
	}
	return out
}

// levelFactors returns what Levels multiplies rows with.
func levelFactors(q int, slope float64) []float64 {
	root := math.Sqrt(slope) // of each of two coordinates that are multiplied
	factor := make([]float64, q)
	for a := range factor {
		factor[a] = root
	}
	factor[0] = -slope
	return factor
}

// LevelsRow makes the mean row of a number's posterior that of Levels, in place.
func LevelsRow(mean []float64, slope float64) { floats.Mul(mean, levelFactors(len(mean), slope)) }
