package mixture

import (
	"slices"

	"github.com/refitd/refitd/daemon/cycle/baselines"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/solver/posterior"
)

// LinearCombination is a form that is a sum: output c is Constant[c] and, the same in all outputs, the predictions of
// fold-ins in closed form and of baselines, each times its factor. The fold-ins share z.
type LinearCombination struct {
	Likelihood posterior.Likelihood
	Constant   []float64 // m
	Parts      []Term
	Baselines  []BaselineTerm
	Reduction  *posterior.Reduction // of their coordinates; nil where all are kept
	Reduces    bool                 // one to as many as the largest part has is made with the next state

	factors []float64 // of the parts
	rows    [][]float64
	whole   []float64 // of the row at hand, in the coordinates of all parts
}

// Term is a fold-in of a sum.
type Term struct {
	Learner *experts.FoldIn
	Factor  float64
	Steady  []bool // fields whose names it has without forgetting
}

// BaselineTerm is a baseline of a sum.
type BaselineTerm struct {
	Linear linearBaseline
	Factor float64
}

// linearBaseline is a baseline that predicts a number as the sum of a constant and of the weights of names.
type linearBaseline interface {
	baselines.Baseline
	// Number is the prediction, not clipped, for the event that predict was called with last.
	Number() float64
	Constant() float64
	// Weight returns that of a name, 0 of one that it does not know or of a field that says nothing to it.
	Weight(field int, name string) float64
}

// Bias stores what all events have in common in dst (m).
func (s *LinearCombination) Bias(dst []float64) {
	shared := 0.0
	for _, p := range s.Parts {
		shared += p.Factor * p.Learner.FoldIn.Base().Bias[0]
	}
	for _, b := range s.Baselines {
		shared += b.Factor * b.Linear.Constant()
	}
	for c := range dst {
		dst[c] = s.Constant[c] + shared
	}
}

// weight returns what the baselines say of a name.
func (s *LinearCombination) weight(field int, name string) (w float64) {
	for _, b := range s.Baselines {
		w += b.Factor * b.Linear.Weight(field, name)
	}
	return w
}

// State returns the sum over a vocabulary, without covariances, in the coordinates of the reduction where there is one.
// O(columns) for all parts.
func (s *LinearCombination) State(v *encode.Vocabulary) *posterior.State {
	states, bias, noise := make([]*posterior.State, len(s.Parts)), make([]float64, len(s.Constant)), 1.0
	s.factors = make([]float64, len(s.Parts))
	for i, p := range s.Parts {
		states[i], s.factors[i] = p.Learner.FoldIn.Means(p.Learner.FeaturesOf(v), p.Steady), p.Factor
	}
	if s.Likelihood == posterior.Gaussian {
		noise = states[0].Noise
	}
	s.Bias(bias)
	out := posterior.Sum(s.Likelihood, bias, noise, states, s.factors)
	if s.Reduces {
		most := 0
		for _, part := range states {
			most = max(most, part.NumBasis)
		}
		s.Reduction, s.Reduces = out.Reduction(most), false
	}
	if s.Reduction != nil {
		out = s.Reduction.State(out)
	}
	if len(s.Baselines) > 0 {
		j := 0
		for f, names := range v.Names {
			for _, name := range names {
				mean, _ := out.Row(j)
				mean[0] += s.weight(f, name)
				j++
			}
		}
	}
	return out
}

// Row appends the mean row of a name, or of a field without names where name is empty, to dst, and reports whether the
// first part knows it.
func (s *LinearCombination) Row(dst []float64, field int, name string) (row []float64, known bool) {
	if s.Parts[0].Learner.Slots.Find(field, name) < 0 {
		return dst, false
	}
	if s.rows == nil {
		s.rows = make([][]float64, len(s.Parts))
	}
	size := 1
	for i, p := range s.Parts {
		s.rows[i] = p.Learner.FoldIn.Row(s.rows[i][:0], p.Learner.Feature(field, name), p.Steady)
		size += len(s.rows[i]) - 1
	}
	at := len(dst)
	s.whole = slices.Grow(s.whole[:0], size)[:size]
	posterior.SumRow(s.whole, s.factors, s.rows)
	if s.Reduction != nil {
		dst = s.Reduction.Row(dst, s.whole)
	} else {
		dst = append(dst, s.whole...)
	}
	if name != "" {
		dst[at] += s.weight(field, name)
	}
	return dst, true
}
