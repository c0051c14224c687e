package experts

import (
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
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

// Linear is a learner that is linear in names and numbers, or in their products: versions can hold it as it is.
type Linear interface {
	Learner
	// Freeze returns the learner as an ordinary model without basis vectors, on the names of v.
	Freeze(v *encode.Vocabulary, kernel solver.Kernel) (*solver.Model, *encode.Vocabulary)
	// FreezeShared stores what is no name's in a model: the bias, the weights of numbers, whose columns begin at first,
	// and those of a feature map.
	FreezeShared(model *solver.Model, v *encode.Vocabulary, first int)
	// FreezeName stores the weights of a name, one for each output, and reports whether the learner has any.
	FreezeName(dst []float64, field int, name string) bool
	// Weigh has the settings that run side by side count by their losses so far, the last event's included.
	Weigh()
	// NumOutputs returns m.
	NumOutputs() int
	// Names returns the slots of the names that the learner has.
	Names() *rows.Slots
}

// freeze returns the weights of a learner as a model on the names of v. Crosses of v's own have none. O(names).
func freeze(l Linear, v *encode.Vocabulary, kernel solver.Kernel) *solver.Model {
	m := l.NumOutputs()
	model := solver.NewModel(kernel, v.NumColumns(), m, true)
	l.FreezeShared(model, v, int(v.NumNames()))
	column, own := 0, v.FirstOwn()
	for f, names := range v.Names {
		field := f
		switch {
		case f >= own+v.Own:
			field -= v.Own
		case f >= own: // a cross of v alone
			column += len(names)
			continue
		}
		for _, name := range names {
			l.FreezeName(model.Linear[column*m:column*m+m], field, name)
			column++
		}
	}
	return model
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
