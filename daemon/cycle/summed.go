package cycle

import (
	"slices"

	"github.com/refitd/refitd/solver/posterior"
)

// summed is a form that is a sum: output c is Constant[c] and, the same in all outputs, the predictions of fold-ins in closed form and of baselines, each
// times its factor. The fold-ins share z.
type summed struct {
	likelihood posterior.Likelihood
	constant   []float64 // m
	parts      []summand
	baselines  []weighed
	reduction  *posterior.Reduction // of their coordinates; nil where all are kept
	reduces    bool                 // one to as many as the largest part has is made with the next state

	factors []float64 // of the parts
	rows    [][]float64
	whole   []float64 // of the row at hand, in the coordinates of all parts
}

// summand is a fold-in of a sum.
type summand struct {
	learner *posteriorLearner
	factor  float64
	steady  []bool // fields whose names it has without forgetting
}

// weighed is a baseline of a sum.
type weighed struct {
	linear linearBaseline
	factor float64
}

// linearBaseline is a baseline that predicts a number as the sum of a constant and of the weights of names.
type linearBaseline interface {
	baseline
	// number is the prediction, not clipped, for the event that predict was called with last.
	number() float64
	constant() float64
	// weight returns that of a name, 0 of one that it does not know or of a field that says nothing to it.
	weight(field int, name string) float64
}

// bias stores what all events have in common in dst (m).
func (s *summed) bias(dst []float64) {
	shared := 0.0
	for _, p := range s.parts {
		shared += p.factor * p.learner.foldIn.Base().Bias[0]
	}
	for _, b := range s.baselines {
		shared += b.factor * b.linear.constant()
	}
	for c := range dst {
		dst[c] = s.constant[c] + shared
	}
}

// weight returns what the baselines say of a name.
func (s *summed) weight(field int, name string) (w float64) {
	for _, b := range s.baselines {
		w += b.factor * b.linear.weight(field, name)
	}
	return w
}

// state returns the sum over a vocabulary, without covariances, in the coordinates of the reduction where there is one. O(columns) for all parts.
func (s *summed) state(v *Vocabulary) *posterior.State {
	states, bias, noise := make([]*posterior.State, len(s.parts)), make([]float64, len(s.constant)), 1.0
	s.factors = make([]float64, len(s.parts))
	for i, p := range s.parts {
		states[i], s.factors[i] = p.learner.foldIn.Means(p.learner.featuresOf(v), p.steady), p.factor
	}
	if s.likelihood == posterior.Gaussian {
		noise = states[0].Noise
	}
	s.bias(bias)
	out := posterior.Sum(s.likelihood, bias, noise, states, s.factors)
	if s.reduces {
		most := 0
		for _, part := range states {
			most = max(most, part.NumBasis)
		}
		s.reduction, s.reduces = out.Reduction(most), false
	}
	if s.reduction != nil {
		out = s.reduction.State(out)
	}
	if len(s.baselines) > 0 {
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

// row appends the mean row of a name, or of a field without names where name is empty, to dst, and reports whether the first part knows it.
func (s *summed) row(dst []float64, field int, name string) (row []float64, known bool) {
	if s.parts[0].learner.slots.find(field, name) < 0 {
		return dst, false
	}
	if s.rows == nil {
		s.rows = make([][]float64, len(s.parts))
	}
	size := 1
	for i, p := range s.parts {
		s.rows[i] = p.learner.foldIn.Row(s.rows[i][:0], p.learner.feature(field, name), p.steady)
		size += len(s.rows[i]) - 1
	}
	at := len(dst)
	s.whole = slices.Grow(s.whole[:0], size)[:size]
	posterior.SumRow(s.whole, s.factors, s.rows)
	if s.reduction != nil {
		dst = s.reduction.Row(dst, s.whole)
	} else {
		dst = append(dst, s.whole...)
	}
	if name != "" {
		dst[at] += s.weight(field, name)
	}
	return dst, true
}
