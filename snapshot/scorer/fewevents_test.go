package scorer

import (
	"fmt"
	"slices"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// TestFewEventsAgainstEvidence: a fold works by events until there are as many as coordinates, Learn by coordinates.
// Both make the same rows, also where events are beyond what can be worked on by events, and where rates forget all.
func TestFewEventsAgainstEvidence(t *testing.T) {
	for _, test := range []struct {
		shape  snapshottest.Shape
		shared bool
		signal float64 // of the precision of the prior one over it
		rates  []float64
	}{
		{snapshottest.Shape{Task: format.Ordinal, Link: format.OrdinalLink, Kernel: format.ANOVA, K: 20, Linear: true,
			Mapped: ""}, true, 1, []float64{1, 0.97, 0.9}},
		{snapshottest.Shape{Task: format.Multiclass, Link: format.Softmax, Kernel: format.ANOVA, K: 20, Linear: true,
			Mapped: ""}, false, 1, []float64{1, 0.97, 0.9}},
		{snapshottest.Shape{Task: format.Multilabel, Link: format.Logistic, Kernel: format.ANOVA, K: 20, Linear: true,
			Mapped: ""}, false, 1, []float64{0.99, 0.9, 0.8, 0.7}},
		{snapshottest.Shape{Task: format.Regression, Link: format.Identity, Kernel: format.Homogeneous, K: 20, Linear: true,
			Mapped: ""}, true, 1, []float64{1}},
		{snapshottest.Shape{Task: format.Ordinal, Link: format.OrdinalLink, Kernel: format.ANOVA, K: 20, Linear: true,
			Mapped: ""}, true, 1, []float64{1, 1e-180, 1e-3}},
		{snapshottest.Shape{Task: format.Binary, Link: format.Logistic, Kernel: format.ANOVA, K: 20, Linear: true,
			Mapped: ""}, true, 1e4, []float64{1, 0.97, 0.9}},
		{snapshottest.Shape{Task: format.Regression, Link: format.Identity, Kernel: format.ANOVA, K: 20, Linear: true,
			Mapped: ""}, true, 1e9, []float64{1, 0.9, 0.8}},
	} {
		c := snapshottest.Foldable(test.shape, test.shared)
		user := &c.FoldIn.Fields[0]
		user.Rates, user.Losses = test.rates, make([]float64, len(test.rates))
		for i := range user.Precision {
			user.Precision[i] /= test.signal
		}
		m, err := NewModel(c)
		snapshottest.Must(t, err)
		for _, name := range []string{"u9", "u1"} {
			events := snapshottest.HistoryOf(c, name, 26)
			step, err := m.Fold(nil)
			snapshottest.Must(t, err)
			for i := range events {
				step, err = step.Learn(&events[i])
				snapshottest.Must(t, err)
				whole, err := m.Fold(events[:i+1])
				snapshottest.Must(t, err)
				if got, want := &whole.rows[0], &step.rows[0]; !rowmath.CloseTo(got.Basis, want.Basis, 1e-8) ||
					!rowmath.CloseTo(got.Linear, want.Linear, 1e-8) {
					t.Fatalf("%s, precisions a %g-th, rates %v, %d events of %s: %v %v, want %v %v", test.shape,
						test.signal, test.rates, i+1, name, got.Linear, got.Basis, want.Linear, want.Basis)
				}
			}
		}
	}
}

// TestFewEventsAreUsed: or the test above would compare a way with itself.
func TestFewEventsAreUsed(t *testing.T) {
	c := snapshottest.Foldable(snapshottest.Shape{Task: format.Ordinal, Link: format.OrdinalLink, Kernel: format.ANOVA,
		K: 20, Linear: true, Mapped: ""}, true)
	m, err := NewModel(c)
	snapshottest.Must(t, err)
	events := snapshottest.HistoryOf(c, "u9", 21)
	var o Overlay
	o.model = m
	snapshottest.Must(t, o.choose(""))
	f := new(folding)
	f.reset(o.shape, o.by.Rates)
	var held []bool
	for i := range events {
		snapshottest.Must(t, o.add(f, &events[i]))
		held = append(held, f.few.Row == &o.rows[0])
	}
	want := slices.Repeat([]bool{true}, 20)
	if want = append(want, false); !slices.Equal(held, want) {
		t.Errorf("held %v, want %v", fmt.Sprint(held), want)
	}
}
