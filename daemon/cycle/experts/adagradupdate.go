package experts

import (
	"math"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
	"gonum.org/v1/gonum/floats"
)

// productsClip is the clip of the numbers in a version's products. Two numbers at the clip multiply to the reach of the
// learner's products. Derived.
var productsClip = math.Sqrt(productReach)

// Freeze returns the learner as an ordinary model without basis vectors: the mean of its experts by their weights as
// they are now, which is linear as each of them is. Numbers are scaled as in v, and their products are columns of a
// feature map on the running location and scale of each field. Numbers beyond the range of v count as its end, and in
// products as productsClip at most. The learner has no recent labels. O(names).
func (l *AdaGrad) Freeze(v *encode.Vocabulary, kernel solver.Kernel) (*solver.Model, *encode.Vocabulary) {
	out := *v
	if out.Map = nil; l.products {
		out.Map = format.NewProducts(mapScaling(l.Numbers))
		out.Map.Clip = productsClip
	}
	return freeze(l, v, kernel), &out
}

// FreezeShared stores what is no name's in a model: the bias, the weights of numbers, whose columns begin at first, and
// those of the map that Freeze makes.
func (l *AdaGrad) FreezeShared(model *solver.Model, v *encode.Vocabulary, first int) {
	l.experts.Weigh()
	d, m, n := len(l.Numbers.Z), l.outputsN, len(l.inputs)
	if l.products {
		model.Map = make([]float64, n*m)
	}
	weights := make([]float64, n)
	for c := range m {
		clear(weights)
		for e, share := range l.experts.Weights {
			model.Bias[c] += share * l.Each[e].bias[c]
			floats.AddScaled(weights, share, l.Each[e].weights[c*n:c*n+n])
		}
		freezeNumbers(model, l.Numbers, v, weights[:d], first, c)
		if !l.products {
			continue
		}
		at := d
		for i := range d {
			for j := range i + 1 {
				w := weights[at]
				if i == j { // the learner's squares have mean 0 and deviation 1
					w /= math.Sqrt2
					model.Bias[c] -= w
				}
				model.Map[at*m+c] = w
				at++
			}
		}
	}
	if l.scaled {
		unscaleLabel(model, l.Numbers)
	}
}

// Weigh has the learner's experts count by their losses so far, the last event's included.
func (l *AdaGrad) Weigh() { l.experts.Weigh() }

// FreezeName stores the weights of a name, one for each output, and reports whether the learner has any. Experts count
// as they did at the last Weigh, FreezeShared or event.
func (l *AdaGrad) FreezeName(dst []float64, field int, name string) bool {
	at := l.Slots.Find(field, name)
	if clear(dst); at < 0 || int(at) >= len(l.named) {
		return false
	}
	for e, share := range l.experts.Weights {
		floats.AddScaled(dst, share, l.Row(at, e)[1:])
	}
	if l.scaled {
		_, deviation := l.Numbers.Label.Of()
		floats.Scale(deviation, dst)
	}
	return true
}

// NumOutputs returns m.
func (l *AdaGrad) NumOutputs() int { return l.outputsN }

// Names returns the slots of the names that the learner has.
func (l *AdaGrad) Names() *rows.Slots { return l.Slots }
