package posterior

import (
	"math"
	"slices"
)

// Sum returns the posterior of what parts predict before their biases, each times its factor, added up: an additive
// model whose coordinates are those of all parts. Parts share z, have the same features in the same groups, and are
// taken without covariances; factors are not 0. The likelihood, the biases (one for each output) and the noise are the
// given ones. The prior of a linear weight is as wide as those of the parts together, which are not
// independent; coordinates keep theirs, scaled as they are. O(d·k) for all k.
func Sum(l Likelihood, bias []float64, noise float64, parts []*State, factors []float64) *State {
	first := parts[0]
	s := &State{
		Likelihood: l,
		Bias:       slices.Clone(bias),
		Noise:      noise,
		Field:      first.Field,
		NumFields:  first.NumFields,
		Group:      first.Group,
	}
	for i, p := range parts {
		for _, sign := range p.Sign {
			s.Sign = append(s.Sign, math.Copysign(1, factors[i])*sign)
		}
		s.NumBasis += p.NumBasis
	}
	q := s.RowSize()
	s.Precision, s.Mean = make([]float64, s.NumFields*q), make([]float64, len(s.Field)*q)
	scale := make([][]float64, len(parts))
	for i, p := range parts {
		scale[i] = sumFactors(p.RowSize(), factors[i])
	}
	for f := range s.NumFields {
		d, width, at := s.PrecisionOf(f), 0.0, 1
		for i, p := range parts {
			own := p.PrecisionOf(f)
			width += math.Abs(factors[i]) / math.Sqrt(own[0])
			for a := 1; a < len(own); a++ {
				d[at] = own[a] / (scale[i][a] * scale[i][a])
				at++
			}
		}
		d[0] = 1 / (width * width)
		if only := !slices.ContainsFunc(parts, func(p *State) bool { return !p.IsMainOnly(f) }); only {
			if s.MainOnly == nil {
				s.MainOnly = make([]bool, s.NumFields)
			}
			s.MainOnly[f] = true
		}
	}
	rows := make([][]float64, len(parts))
	for j := range s.Field {
		for i, p := range parts {
			rows[i], _ = p.Row(j)
		}
		mean, _ := s.Row(j)
		SumRow(mean, factors, rows)
	}
	return s
}

// sumFactors returns what the rows of a part are multiplied with: each of two coordinates that are multiplied with a
// root, whose sign the vector has.
func sumFactors(q int, factor float64) []float64 {
	root := math.Sqrt(math.Abs(factor))
	out := make([]float64, q)
	for a := range out {
		out[a] = root
	}
	out[0] = factor
	return out
}

// SumRow stores in dst (one more than all coordinates) the mean row of Sum that the mean rows of its parts make.
func SumRow(dst, factors []float64, rows [][]float64) {
	dst[0] = 0
	at := 1
	for i, row := range rows {
		root := math.Sqrt(math.Abs(factors[i]))
		dst[0] += factors[i] * row[0]
		for _, x := range row[1:] {
			dst[at] = root * x
			at++
		}
	}
}
