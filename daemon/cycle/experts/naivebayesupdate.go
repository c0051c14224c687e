package experts

import (
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/solver"
	"gonum.org/v1/gonum/floats"
)

// Freeze returns the learner as an ordinary model without basis vectors: the mean of its sums by their weights as they
// are now, which is linear in names as each of them is. Numbers have no weight. O(names).
func (l *NaiveBayes) Freeze(v *encode.Vocabulary, kernel solver.Kernel) (*solver.Model, *encode.Vocabulary) {
	return freeze(l, v, kernel), v
}

// FreezeShared stores what is no name's in a model: the bias.
func (l *NaiveBayes) FreezeShared(model *solver.Model, _ *encode.Vocabulary, _ int) {
	l.Weigh()
	for e, share := range l.experts.Weights {
		for c := range model.Bias {
			model.Bias[c] += share * (l.base[c] + l.Each[e].bias[c])
		}
	}
}

// Weigh has the learner's sums count by their losses so far, the last event's included.
func (l *NaiveBayes) Weigh() { l.experts.Weigh() }

// FreezeName stores the weights of a name, one for each output, and reports whether the learner has any. Sums count as
// they did at the last Weigh, FreezeShared or event.
func (l *NaiveBayes) FreezeName(dst []float64, field int, name string) bool {
	at := l.Slots.Find(field, name)
	if clear(dst); at < 0 || int(at) >= len(l.rows) {
		return false
	}
	for e, share := range l.experts.Weights {
		floats.AddScaled(dst, share*l.Each[e].slope[field], l.evidenceOf(at, e))
	}
	return true
}

// NumOutputs returns m.
func (l *NaiveBayes) NumOutputs() int { return l.outputsN }

// Names returns the slots of the names that the learner has.
func (l *NaiveBayes) Names() *rows.Slots { return l.Slots }
