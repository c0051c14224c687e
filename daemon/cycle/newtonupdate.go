package cycle

import (
	"gonum.org/v1/gonum/floats"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
)

// freeze returns the learner as an ordinary model: weights of numbers as they are scaled in v, and of a feature map with the running location and scale
// of each field as they are now. Numbers beyond the range of v count as its end in the former. Outputs of classes are not shrunk by their variance.
func (l *newtonLearner) freeze(v *Vocabulary, kernel solver.Kernel) (*solver.Model, *Vocabulary) {
	out := *v
	features := *l.features
	features.Scaling = make([]snapshot.MapScaling, len(l.numbers.z))
	for f := range features.Scaling {
		features.Scaling[f].Center, features.Scaling[f].Scale = l.numbers.fields[f].of()
	}
	out.Map = &features
	return l.frozen(l.weights, v, kernel), &out
}

// mark keeps the weights for going.
func (l *newtonLearner) mark() { l.before = append(l.before[:0], l.weights...) }

// going returns the weights as they will be if they go on as since the last mark, half as far again: between two updates that is where they are on average.
// It is nil before there was a mark.
func (l *newtonLearner) going() []float64 {
	if l.before == nil {
		return nil
	}
	out := make([]float64, len(l.weights))
	for i, w := range l.weights {
		out[i] = w + (w-l.before[i])/2
	}
	return out
}

// frozen returns the model of freeze with the given weights.
func (l *newtonLearner) frozen(weights []float64, v *Vocabulary, kernel solver.Kernel) *solver.Model {
	m, n := len(l.outputsOf), len(l.inputs)
	model := solver.NewModel(kernel, v.NumColumns(), m, true)
	model.Map = make([]float64, newtonFourier*m)
	linear := n - 1 - newtonFourier
	first := v.NumColumns() - (v.NumFields() - len(v.Names))
	for c := range m {
		w := weights[c*n : c*n+n]
		model.Bias[c] = w[0]
		for f, x := range w[1 : 1+linear] {
			field := &v.Numeric[f]
			center, scale := l.numbers.fields[f].of()
			model.Bias[c] += x * (field.Center - center) / scale
			model.Linear[(first+f)*m+c] = x * field.Scale / scale
		}
		for j, x := range w[1+linear:] {
			model.Map[j*m+c] = x
		}
	}
	if l.scaled {
		mean, deviation := l.numbers.label.of()
		for _, list := range [][]float64{model.Bias, model.Linear, model.Map} {
			floats.Scale(deviation, list)
		}
		model.Bias[0] += mean
	}
	return model
}
