package scorer

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// TestFoldedOutputsAreLimited: so are outputs with the last events of an entity, which are learned from as without a
// limit.
func TestFoldedOutputsAreLimited(t *testing.T) {
	c := snapshottest.Foldable(snapshottest.Shape{Task: format.Binary, Link: format.Logistic, Kernel: format.ANOVA, K: 2,
		Linear: true, Mapped: ""}, true)
	free, err := NewModel(c)
	snapshottest.Must(t, err)
	history := snapshottest.HistoryOf(c, "u9", 40)
	for i := range history {
		history[i].Label = 1
	}
	over, err := free.Fold(history)
	snapshottest.Must(t, err)
	want, got := make([]float64, 1), make([]float64, 1)
	in := &history[0].Input
	over.Score(want, in, new(Scratch))
	for _, limit := range []float64{math.Abs(want[0]) / 2, math.Abs(want[0])} {
		limited, err := NewModel(snapshottest.WithLimit(c, limit))
		snapshottest.Must(t, err)
		over, err := limited.Fold(history)
		snapshottest.Must(t, err)
		if over.Score(got, in, new(Scratch)); got[0] != math.Copysign(limit, want[0]) {
			t.Errorf("output %g with a limit of %g, without one %g", got[0], limit, want[0])
		}
	}
}

// TestLimitedListsKeepTheirOrder: a limit makes values equal, not lists other ones, and the values are those of
// Predict.
func TestLimitedListsKeepTheirOrder(t *testing.T) {
	for _, s := range snapshottest.Shapes {
		t.Run(s.String(), func(t *testing.T) {
			c := snapshottest.TestContents(s)
			snapshottest.Widen(c, 300)
			free, err := NewModel(c)
			snapshottest.Must(t, err)
			limited, err := NewModel(snapshottest.WithLimit(c, 0.5))
			snapshottest.Must(t, err)
			for _, in := range snapshottest.TestInputs() {
				q := &format.Query{Input: in, Over: "item", K: 12, Class: "red"}
				plain, err := free.TopK(nil, q, new(Scratch))
				snapshottest.Must(t, err)
				got, err := limited.TopK(nil, q, new(Scratch))
				snapshottest.Must(t, err)
				var names, all []string
				for i := range got {
					names, all = append(names, got[i].Name), append(all, plain[i].Name)
					if isOne := s.Link != format.Softmax && s.Link != format.OrdinalLink; i > 0 && isOne &&
						got[i].Value > got[i-1].Value {
						t.Fatalf("%s of value %g comes after %g", got[i].Name, got[i].Value, got[i-1].Value)
					}
				}
				if !slices.Equal(names, all) {
					t.Fatalf("%v with a limit, %v without", names, all)
				}
				for _, x := range got {
					of := q.Input
					of.Categorical = []string{"", x.Name}
					if q.Input.Categorical != nil {
						of.Categorical[0] = q.Input.Categorical[0]
					}
					want := snapshottest.SlowTopK(t, limited, &format.Query{Input: of, Over: "item", K: 1000, Class: q.Class})
					if i := slices.IndexFunc(want, func(w format.Item) bool { return w.Name == x.Name }); !snapshottest.SameRanking(
						[]format.Item{x}, want[i:i+1]) {
						t.Fatalf("%v, Predict says %v", x, want[i])
					}
				}
			}
		})
	}
}

// TestLimitHidesNoError: a number that is too far is refused as without a limit; a limit that says nothing is none.
func TestLimitHidesNoError(t *testing.T) {
	got := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 3, -3, 0.5}
	format.Limit(got, 2)
	if want := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 2, -2, 0.5}; !slices.EqualFunc(
		got,
		want,
		func(a, b float64) bool {
			return math.Float64bits(a) == math.Float64bits(b)
		},
	) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, none := range []float64{0, -1, math.NaN()} {
		got := []float64{1e300}
		if format.Limit(got, none); got[0] != 1e300 {
			t.Errorf("a limit of %g gives %g", none, got[0])
		}
	}
	m, err := NewModel(snapshottest.WithLimit(snapshottest.TestContents(snapshottest.Shapes[2]), 1))
	snapshottest.Must(t, err)
	in := snapshottest.TestInputs()[0]
	in.Numeric = []float64{1e300}
	if _, err := m.Predict(&in); !errors.Is(err, disk.ErrInput) {
		t.Errorf("a number that is too far: %v", err)
	}
	if _, err := m.TopK(nil, &format.Query{Input: in, Over: "item", K: 1}, new(Scratch)); !errors.Is(err, disk.ErrInput) {
		t.Errorf("a list with a number that is too far: %v", err)
	}
}
