package convex

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/solver"
)

// TestMapModelIsExact: on events whose names both vocabularies know, a mapped model predicts the same.
func TestMapModelIsExact(t *testing.T) {
	events := cycletest.Stream(9, 400)
	schema := cycletest.RatingsModel(nil).Schema.Event()
	from := encode.BuildVocabulary(&schema, events, false, 1000, nil, nil)
	extra := slices.Clone(events)
	extra = append(extra, event.Event{Categorical: []string{"a-new-user", "zz-new-item"}})
	to := encode.BuildVocabulary(&schema, extra, false, 1000, nil, nil)
	r := rand.New(rand.NewPCG(3, 3))
	model := solver.NewModel(solver.ANOVA, from.NumColumns(), 2, true)
	model.NumBasis = 3
	for range from.NumColumns() * 3 {
		model.Basis = append(model.Basis, r.NormFloat64())
	}
	for range 6 {
		model.Weights = append(model.Weights, r.NormFloat64())
	}
	for i := range model.Linear {
		model.Linear[i] = r.NormFloat64()
	}
	mapped := MapModel(model, from, to)
	a, b := fitted.NewScorer(model, from), fitted.NewScorer(mapped, to)
	x, y := make([]float64, 2), make([]float64, 2)
	for i := range events {
		a.Outputs(x, &events[i])
		b.Outputs(y, &events[i])
		for c := range x {
			if math.Abs(x[c]-y[c]) > 1e-9*(1+math.Abs(x[c])) {
				t.Fatalf("event %d: %g before, %g after", i, x[c], y[c])
			}
		}
	}
	for c := range 3 {
		norm := 0.0
		for j := range mapped.NumFeatures {
			norm += mapped.Basis[j*3+c] * mapped.Basis[j*3+c]
		}
		if math.Abs(norm-1) > 1e-12 {
			t.Errorf("basis vector %d has norm² %g", c, norm)
		}
	}
}
