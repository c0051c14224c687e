package cycle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// tripsModel is a model of fares, most of which a number says.
func tripsModel() *config.Model {
	return ratingsModel(func(m *config.Model) {
		m.Schema = config.Schema{Task: "regression", Label: "fare", TimeUnit: "ms", Categorical: []string{"from", "to", "driver"}, Numeric: []string{"km"}}
	})
}

// tripNoise is the standard deviation of what nothing says of a fare.
const tripNoise = 0.8

// trips draws events whose label is a number far from 0, with a long tail, and something of names, of which drivers come a few times.
func trips(seed uint64, n int) []event.Event {
	r := rand.New(rand.NewPCG(seed, 8))
	events := make([]event.Event, n)
	for i := range events {
		from, to, km := r.IntN(40), r.IntN(40), 3+5*r.ExpFloat64()
		events[i] = event.Event{Weight: 1, Time: int64(i), Categorical: []string{fmt.Sprint("z", from), fmt.Sprint("z", to), fmt.Sprint("d", r.IntN(n/3))},
			Numeric: []float64{km}, Label: 2.5 + 1.8*km + 0.4*float64(from%7) + 0.3*float64(to%5) + tripNoise*r.NormFloat64()}
	}
	return events
}

// TestNumbersBesideNames: where a number says most of a label that is one, refits tell it from names at once, and go on from each other as it reaches
// further.
func TestNumbersBesideNames(t *testing.T) {
	events := trips(3, 9000)
	c := newCycle(t, tripsModel())
	for _, n := range []int{2500, 5000, 9000} {
		ch := refit(t, c, sampleOf(events[:n]))
		if rmse := float64(*ch.Version.Gate.RMSE); ch.Version.Decision != "promoted" || rmse > 1.15*tripNoise {
			t.Errorf("%d events: %s (%s) with a gate RMSE of %.3f, the noise is %.1f", n, ch.Version.Decision, ch.Version.Reason, rmse, tripNoise)
		}
		c.Install(ch)
	}
}

// TestFoldInRescales: the posterior of a fold-in, and that of a version, predict the same over other scales of numbers; a refit on much the same rows keeps
// the scales.
func TestFoldInRescales(t *testing.T) {
	events := trips(6, 2100)
	c := newCycle(t, tripsModel())
	ch := refit(t, c, sampleOf(events[:2000]))
	c.Install(ch)
	if next := refit(t, c, sampleOf(events)); !slices.Equal(next.Vocabulary.Numeric, ch.Vocabulary.Numeric) {
		t.Errorf("scales %+v, were %+v", next.Vocabulary.Numeric, ch.Vocabulary.Numeric)
	}
	to := new(Vocabulary)
	*to = *ch.Vocabulary
	to.Numeric = []snapshot.NumericField{{Name: "km", Center: 4, Scale: 100}}
	l := newPosteriorLearner(c.config, &c.schema, c.target, ch)
	before := newScorer(ch.posterior.Model(), ch.Vocabulary)
	for _, s := range []*posterior.State{l.state(to, nil), mapPosterior(ch.posterior, ch.Vocabulary, to)} {
		after := newScorer(s.Model(), to)
		x, y := make([]float64, 1), make([]float64, 1)
		for i := range events[:50] {
			before.outputs(x, &events[i])
			after.outputs(y, &events[i])
			if math.Abs(x[0]-y[0]) > 1e-9*(1+math.Abs(x[0])) {
				t.Errorf("event %d: %.12g, was %.12g", i, y[0], x[0])
			}
		}
	}
}

// TestFoldInBeforeHasItsScales: the fold-in before goes on beside the next while numbers have the scales that it learned by, and no longer.
func TestFoldInBeforeHasItsScales(t *testing.T) {
	for _, scale := range []float64{0, 100} {
		events := trips(7, 2000)
		c := newCycle(t, tripsModel())
		for _, n := range []int{1900, 2000, 2000} {
			ch := refit(t, c, sampleOf(events[:n]))
			last := n == 2000 && c.companion(partBefore) != nil
			if last && scale > 0 {
				ch.Vocabulary.Numeric = []snapshot.NumericField{{Name: "km", Center: 4, Scale: scale}}
			}
			c.drift.alarm, c.drift.events = 1, 1
			c.Install(ch)
			if got := c.companion(partBefore) != nil; last && got != (scale == 0) {
				t.Errorf("new scale %g: the fold-in before goes on is %t", scale, got)
			}
		}
	}
}

// scaledVocabularies returns two that are the same but for the scales of their two numbers.
func scaledVocabularies(augment bool) (from, to *Vocabulary) {
	scales := []snapshot.NumericField{{Name: "a", Center: 3, Scale: 10}, {Name: "b", Center: -1, Scale: 2},
		{Name: "a", Center: 5, Scale: 14}, {Name: "b", Center: -1, Scale: 3}}
	for i, v := range []**Vocabulary{&from, &to} {
		*v = &Vocabulary{Names: [][]string{{"u0", "u1"}, {"i0", "i1", "i2"}}, Numeric: scales[2*i : 2*i+2], Augment: augment}
		(*v).number()
	}
	return from, to
}

// TestMapModelRescales: over other scales of numbers a mapped model predicts the same, wherever it has room for that.
func TestMapModelRescales(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 8))
	for _, of := range []struct {
		kernel          solver.Kernel
		linear, augment bool
	}{{solver.ANOVA, true, false}, {solver.ANOVA, true, true}, {solver.Homogeneous, true, false}, {solver.Homogeneous, true, true},
		{solver.Homogeneous, false, true}} {
		from, to := scaledVocabularies(of.augment)
		model := solver.NewModel(of.kernel, from.NumColumns(), 2, of.linear)
		model.NumBasis, model.Basis, model.Weights = 3, make([]float64, 3*from.NumColumns()), make([]float64, 6)
		for _, part := range [][]float64{model.Basis, model.Weights, model.Linear, model.Bias} {
			for i := range part {
				part[i] = r.NormFloat64()
			}
		}
		before, after := newScorer(model, from), newScorer(mapModel(model, from, to), to)
		x, y := make([]float64, 2), make([]float64, 2)
		for i := range 20 {
			ev := event.Event{Categorical: []string{fmt.Sprint("u", i%2), fmt.Sprint("i", i%4)}, Numeric: []float64{20 * r.Float64(), r.NormFloat64()}}
			before.outputs(x, &ev)
			after.outputs(y, &ev)
			for c := range x {
				if math.Abs(x[c]-y[c]) > 1e-9*(1+math.Abs(x[c])) {
					t.Errorf("%v of degree 2, linear %t, augmented %t: event %d has %.12g, had %.12g", of.kernel, of.linear, of.augment, i, y[c], x[c])
				}
			}
		}
	}
}

// TestScaleBesideNames: numbers have their mean at 0 and what is farthest from it at 1, one value that all have is no scale, and none overflows.
func TestScaleBesideNames(t *testing.T) {
	const most = math.MaxFloat64
	for _, test := range []struct{ values, want []float64 }{
		{[]float64{1, 2, 6}, []float64{3, 3}},
		{slices.Repeat([]float64{0.003467}, 999), []float64{0.003467, 1}},
		{[]float64{-most, 0, most}, []float64{0, most}},
		{[]float64{most, most / 2, most}, []float64{0.75 * most, 0.25 * most}},
		{nil, []float64{0, 1}},
	} {
		f := scaleOf("x", test.values, true)
		if math.Abs(f.Center-test.want[0]) > 1e-12*f.Scale || math.Abs(f.Scale-test.want[1]) > 1e-12*f.Scale {
			t.Errorf("%d values: center %g, scale %g, want %g", len(test.values), f.Center, f.Scale, test.want)
		}
	}
}

// TestScalesThatStillFit: numbers keep their scale from version to version until their values lie elsewhere.
func TestScalesThatStillFit(t *testing.T) {
	kept := snapshot.NumericField{Name: "x", Center: 10, Scale: 20, Clip: 1}
	for _, test := range []struct {
		center, scale float64
		fits          bool
	}{{10, 20, true}, {11.9, 20, true}, {12.1, 20, false}, {10, 20.9, true}, {10, 21.1, false}, {10, 10.1, true}, {10, 9.9, false}, {math.NaN(), 20, false}} {
		now := snapshot.NumericField{Name: "x", Center: test.center, Scale: test.scale, Clip: 1}
		if stillFits(&kept, &now) != test.fits {
			t.Errorf("values of center %g and scale %g: fits is %t", test.center, test.scale, !test.fits)
		}
	}
	schema, events := tripsModel().Schema.Event(), trips(5, 3000)
	first := buildVocabulary(&schema, events, false, 1000, nil, nil)
	second := buildVocabulary(&schema, events[:2900], false, 1000, nil, first.Numeric)
	if fresh := buildVocabulary(&schema, events[:2900], false, 1000, nil, nil); fresh.Numeric[0] == first.Numeric[0] || second.Numeric[0] != first.Numeric[0] {
		t.Errorf("scale %+v, then %+v where %+v would be chosen anew", first.Numeric[0], second.Numeric[0], fresh.Numeric[0])
	}
}
