package mixture

import (
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/snapshot/format"
	"gonum.org/v1/gonum/floats"
)

// PooledUpdate is the weights with which forms of an update predict best together, as they are at the delay of
// consumers. Outputs are summed, so that versions can hold the sum: of classes as LogitPool does, of numbers as
// Stacking does. O(forms²·m) an event.
type PooledUpdate struct {
	Used   *PooledWeights         // of the newest update; nil without
	Out    [len(PooledForms)]bool // cannot be in a sum with the others: not there
	away   [len(PooledForms)]bool // was missing at the last event
	target *encode.Target
	parts  []part
	pool   *LogitPool // of classes
	stack  *Stacking  // of numbers
	value  []float64
	// of the event in hand
	outputs []float64
	events  int
}

// PooledWeights are the factor of each form and what all of them together lack in each output. They do not change.
type PooledWeights struct{ Factors, Constant []float64 }

// PooledForms are those that are pooled. A missing one counts as the first that is there.
var PooledForms = [...]Variant{FormFoldIn, FormNewton, FormAdaGrad, FormBayes, FormTrees}

// pooledEvents is how many events are learned before there are weights. Chosen by hand.
const pooledEvents = 100

// IsPooled reports whether sums of outputs predict the labels of a target: those of classes that are not ordered, and
// numbers.
func IsPooled(t *encode.Target) bool {
	return experts.HasProbabilities(t) && (!t.IsNumeric() || t.Outputs() == 1 && t.Link == format.Identity)
}

// NewPooledUpdate returns the pool of a target for which IsPooled.
func NewPooledUpdate(t *encode.Target) *PooledUpdate {
	u, m, n := &PooledUpdate{target: t}, 1, len(PooledForms)
	if t.IsNumeric() {
		u.stack = newStacking(n)
	} else {
		m = t.Outputs()
		u.pool = newLogitPool(n, m, t.Link)
	}
	u.parts, u.value, u.outputs = make([]part, n), make([]float64, m), make([]float64, m)
	for i := range u.parts {
		u.parts[i].Value = make([]float64, m)
	}
	return u
}

// Learn takes up an event that nothing has learned, given the outputs of every form, m each, NaN of a missing
// one. It returns the outputs of the sum by the weights before, nil of the first events.
func (u *PooledUpdate) Learn(outputs []float64, label float64, targets []float64) (sum []float64) {
	m, first := u.target.Outputs(), -1
	for i, f := range PooledForms {
		own := outputs[int(f)*m : int(f+1)*m]
		if u.Out[i] || math.IsNaN(own[0]) {
			own = nil
		}
		if take(&u.parts[i], u.target, own); u.parts[i].Present && first < 0 {
			first = i
		}
	}
	if first < 0 {
		return nil
	}
	for i := range u.parts {
		p := &u.parts[i]
		if isBack := u.away[i] && p.Present; u.pool != nil && u.events > 0 && u.away[i] == p.Present {
			if isBack {
				u.pool.admit(i)
			} else {
				u.pool.leave(i)
			}
		}
		u.away[i] = !p.Present
		if !p.Present {
			copy(p.Value, u.parts[first].Value)
			p.Present = true
		}
	}
	if u.stack != nil {
		u.outputs[0], _ = u.stack.predict(u.parts)
		u.stack.learn(label)
	} else {
		u.pool.predict(u.value, u.parts)
		outputsOf(u.outputs, u.value, u.target.Link)
		u.pool.learn(targets)
	}
	if u.events++; u.events <= pooledEvents {
		return nil
	}
	return u.outputs
}

// Weights returns the weights of the forms that there are, nil while too few events were learned.
func (u *PooledUpdate) Weights(there func(Variant) bool) *PooledWeights {
	if u.events < pooledEvents {
		return nil
	}
	w := &PooledWeights{Constant: make([]float64, len(u.value))}
	if u.stack != nil {
		w.Factors, w.Constant[0] = slices.Clone(u.stack.weights), u.stack.unit*u.stack.weights[0]
		w.Factors[0] = 1 - floats.Sum(w.Factors[1:])
	} else {
		w.Factors = u.pool.weights
		u.pool.experts.Weigh()
		for e, b := range u.pool.bias {
			floats.AddScaled(w.Constant, u.pool.experts.Weights[e], b)
		}
	}
	return w.Among(there)
}

// Among returns weights in which a missing form counts as the first that is there.
func (w *PooledWeights) Among(there func(Variant) bool) *PooledWeights {
	out := &PooledWeights{Factors: slices.Clone(w.Factors), Constant: w.Constant}
	first := slices.IndexFunc(PooledForms[:], there)
	for i, f := range PooledForms {
		if first >= 0 && !there(f) {
			out.Factors[first] += out.Factors[i]
			out.Factors[i] = 0
		}
	}
	return out
}

// Has reports whether the newest update has a form in its sum.
func (u *PooledUpdate) Has(f Variant) bool {
	i := slices.Index(PooledForms[:], f)
	return u != nil && u.Used != nil && i >= 0 && u.Used.Factors[i] != 0
}
