package experts

import (
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/solver"
)

// Freeze returns the learner as an ordinary model: weights of numbers as they are scaled in v, and of a feature map
// with the running location and scale of each field as they are now. Numbers beyond the range of v count as its end in
// the former. Outputs of classes are not shrunk by their variance.
func (l *Newton) Freeze(v *encode.Vocabulary, kernel solver.Kernel) (*solver.Model, *encode.Vocabulary) {
	out := *v
	features := *l.features
	features.Scaling = mapScaling(l.Numbers)
	out.Map = &features
	return l.Frozen(l.Weights, v, kernel), &out
}

// Mark keeps the weights for going.
func (l *Newton) Mark() { l.Before = append(l.Before[:0], l.Weights...) }

// Extrapolated returns the weights plus half of their change since the last mark. If the change continues, they are
// there on average until the next update. It is nil before there was a mark.
func (l *Newton) Extrapolated() []float64 {
	if l.Before == nil {
		return nil
	}
	out := make([]float64, len(l.Weights))
	for i, w := range l.Weights {
		out[i] = w + (w-l.Before[i])/2
	}
	return out
}

// Frozen returns the model of freeze with the given weights.
func (l *Newton) Frozen(weights []float64, v *encode.Vocabulary, kernel solver.Kernel) *solver.Model {
	m, n := len(l.OutputsOf), len(l.Inputs)
	model := solver.NewModel(kernel, v.NumColumns(), m, true)
	model.Map = make([]float64, newtonFourier*m)
	linear := n - 1 - newtonFourier
	first := v.NumColumns() - (v.NumFields() - len(v.Names))
	for c := range m {
		w := weights[c*n : c*n+n]
		model.Bias[c] = w[0]
		freezeNumbers(model, l.Numbers, v, w[1:1+linear], first, c)
		for j, x := range w[1+linear:] {
			model.Map[j*m+c] = x
		}
	}
	if l.Scaled {
		unscaleLabel(model, l.Numbers)
	}
	return model
}
