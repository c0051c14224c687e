package experts

import (
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
	"gonum.org/v1/gonum/floats"
)

// mapScaling returns the running location and scale of each number as they are now, for a version's feature map.
func mapScaling(n *encode.NumberScale) []format.MapScaling {
	scaling := make([]format.MapScaling, len(n.Fields))
	for f := range scaling {
		scaling[f].Center, scaling[f].Scale = n.Fields[f].Of()
	}
	return scaling
}

// freezeNumbers adds weights of numbers in running units to output c of a model whose numbers are scaled as in v. Their
// columns begin at first.
func freezeNumbers(model *solver.Model, n *encode.NumberScale, v *encode.Vocabulary, weights []float64, first, c int) {
	for f, w := range weights {
		field := &v.Numeric[f]
		center, scale := n.Fields[f].Of()
		model.Bias[c] += w * (field.Center - center) / scale
		model.Linear[(first+f)*model.NumOutputs+c] = w * field.Scale / scale
	}
}

// unscaleLabel puts a model without vectors, of a number in running units, in units of the label.
func unscaleLabel(model *solver.Model, n *encode.NumberScale) {
	mean, deviation := n.Label.Of()
	for _, list := range [][]float64{model.Bias, model.Linear, model.Map} {
		floats.Scale(deviation, list)
	}
	model.Bias[0] += mean
}
