package updates

import (
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/gate"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver/posterior"
)

// VariantSelector chooses the form of updates that predicts best at the delay of consumers. Every form is scored, as it
// was at the newest update, on the events after it, and the losses are compared pair by pair. O(NumForms²) an event.
type VariantSelector struct {
	Pairs  [mixture.NumForms][mixture.NumForms]UpdateComparison // [a][b], for a after b: of a against b
	Refits [mixture.NumForms]UpdateComparison                   // of each form against the last promoted refit
	Chosen mixture.Variant
}

func NewVariantSelector() VariantSelector {
	var r VariantSelector
	for a := range mixture.NumForms {
		r.Refits[a] = NewUpdateComparison()
		for b := range a {
			r.Pairs[a][b] = NewUpdateComparison()
		}
	}
	return r
}

// Forget has all comparisons begin anew.
func (r *VariantSelector) Forget() {
	for a := range mixture.NumForms {
		r.Refits[a].Forget()
		for b := range a {
			r.Pairs[a][b].Forget()
		}
	}
}

// Add takes up the losses of every form, NaN for a form without a model, and of the refit on one event. limit is that
// of UpdateComparison.Add.
func (r *VariantSelector) Add(losses *[mixture.NumForms]float64, refit, limit float64) {
	for a := range mixture.NumForms {
		if math.IsNaN(losses[a]) {
			continue
		}
		r.Refits[a].Add(losses[a], refit, limit)
		for b := range a {
			if !math.IsNaN(losses[b]) {
				r.Pairs[a][b].Add(losses[a], losses[b], limit)
			}
		}
	}
}

// Difference returns by how much less a loses than b, in units and in standard errors, 0 where too few events say so.
func (r *VariantSelector) Difference(a, b mixture.Variant) (units, errors float64) {
	l, sign := &r.Pairs[max(a, b)][min(a, b)], -1.0
	if l.N < UpdateEvents {
		return 0, 0
	}
	if a < b {
		sign = 1
	}
	units = sign * l.Sum / l.N
	if errors = units / l.deviation(); math.IsNaN(errors) {
		errors = 0
	}
	return units, errors
}

// Best returns the form that updates should be made of, one of those that there are: the last one until another has
// predicted better by a standard error, then the best of such.
func (r *VariantSelector) Best(there func(mixture.Variant) bool) mixture.Variant {
	from := r.Chosen
	if !there(from) {
		from = mixture.FormFoldIn
	}
	chosen, best := from, 0.0
	for f := range mixture.NumForms {
		if f == from || !there(f) {
			continue
		}
		if units, errors := r.Difference(f, from); errors > 1 && units > best {
			chosen, best = f, units
		}
	}
	return chosen
}

// Candidate is the live model in one form, and where there is one the posterior whose mean it is, or what versions of
// it say of fold-in. Without a model there is no such form.
type Candidate struct {
	fitted.FixedModel
	Folded *posterior.State
	FoldIn *format.FoldIn
	// NoFoldIn is why versions have no fold-in, where that is not of the refit.
	NoFoldIn string
	Link     *encode.LevelLink          // of a number as levels; nil without
	Sum      *mixture.LinearCombination // what folded is the sum of; nil without
	Blend    *mixture.StackedWeights
	Pooled   *PooledForms // nil but of a sum of variants
}

// PooledForms are what a sum of variants is made of.
type PooledForms struct {
	*mixture.PooledWeights
	Of *[mixture.NumForms]Candidate
}

// Of returns a champion with the model in this form.
func (of *Candidate) Of(ch *fitted.Fitted) *fitted.Fitted {
	u := *ch
	u.Popular = of.Popular
	if u.Model, u.Vocabulary, u.Folded, u.FoldIn, u.NoFoldIn = of.Model, of.Vocab, of.Folded, of.FoldIn,
		of.NoFoldIn; u.Folded == nil {
		u.Posterior = nil
	}
	return &u
}

// NonForgettingFields returns, for each field, whether it is one of those that the fold-in forgets by but not of
// entities; nil without such a field.
func NonForgettingFields(m *config.Model, schema *event.Schema) (steady []bool) {
	entities := gate.JudgedFields(m, schema)
	for _, name := range m.Train.FoldIn.By {
		if f := slices.Index(schema.Categorical, name); !slices.Contains(entities, f) {
			if steady == nil {
				steady = make([]bool, len(schema.Categorical)+len(schema.Multi)+len(schema.Numeric)+1)
			}
			steady[f] = true
		}
	}
	return steady
}
