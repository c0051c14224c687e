package snapshot

import (
	"fmt"
	"slices"
	"testing"
)

// TestFewEventsAgainstEvidence: a fold works by events until there are as many as coordinates, Learn by coordinates.
// Both make the same rows, also where events are beyond what can be worked on by events, and where rates forget all.
func TestFewEventsAgainstEvidence(t *testing.T) {
	for _, test := range []struct {
		shape  shape
		shared bool
		signal float64 // of the precision of the prior one over it
		rates  []float64
	}{
		{shape{Ordinal, OrdinalLink, ANOVA, 20, true, ""}, true, 1, []float64{1, 0.97, 0.9}},
		{shape{Multiclass, Softmax, ANOVA, 20, true, ""}, false, 1, []float64{1, 0.97, 0.9}},
		{shape{Multilabel, Logistic, ANOVA, 20, true, ""}, false, 1, []float64{0.99, 0.9, 0.8, 0.7}},
		{shape{Regression, Identity, Homogeneous, 20, true, ""}, true, 1, []float64{1}},
		{shape{Ordinal, OrdinalLink, ANOVA, 20, true, ""}, true, 1, []float64{1, 1e-180, 1e-3}},
		{shape{Binary, Logistic, ANOVA, 20, true, ""}, true, 1e4, []float64{1, 0.97, 0.9}},
		{shape{Regression, Identity, ANOVA, 20, true, ""}, true, 1e9, []float64{1, 0.9, 0.8}},
	} {
		c := foldable(test.shape, test.shared)
		user := &c.FoldIn.Fields[0]
		user.Rates, user.Losses = test.rates, make([]float64, len(test.rates))
		for i := range user.Precision {
			user.Precision[i] /= test.signal
		}
		m, err := NewModel(c)
		must(t, err)
		for _, name := range []string{"u9", "u1"} {
			events := historyOf(c, name, 26)
			step, err := m.Fold(nil)
			must(t, err)
			for i := range events {
				step, err = step.Learn(&events[i])
				must(t, err)
				whole, err := m.Fold(events[:i+1])
				must(t, err)
				if got, want := &whole.rows[0], &step.rows[0]; !closeTo(got.basis, want.basis, 1e-8) ||
					!closeTo(got.linear, want.linear, 1e-8) {
					t.Fatalf(
						"%s, precisions a %g-th, rates %v, %d events of %s: %v %v, want %v %v",
						test.shape,
						test.signal,
						test.rates,
						i+1,
						name,
						got.linear,
						got.basis,
						want.linear,
						want.basis,
					)
				}
			}
		}
	}
}

// TestFewEventsAreUsed: or the test above would compare a way with itself.
func TestFewEventsAreUsed(t *testing.T) {
	c := foldable(shape{Ordinal, OrdinalLink, ANOVA, 20, true, ""}, true)
	m, err := NewModel(c)
	must(t, err)
	events := historyOf(c, "u9", 21)
	var o Overlay
	o.model = m
	must(t, o.choose(""))
	f := new(folding)
	f.reset(o.shape, o.by.Rates)
	var held []bool
	for i := range events {
		must(t, o.add(f, &events[i]))
		held = append(held, f.few.row == &o.rows[0])
	}
	want := slices.Repeat([]bool{true}, 20)
	if want = append(want, false); !slices.Equal(held, want) {
		t.Errorf("held %v, want %v", fmt.Sprint(held), want)
	}
}
