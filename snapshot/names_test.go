package snapshot

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/verify"
)

// TestBinaryNames: a binary label that has names is predicted and read by them.
func TestBinaryNames(t *testing.T) {
	t.Parallel()
	c := snapshottest.TestContents(snapshottest.Shape{Task: format.Binary, Link: format.Logistic, Kernel: format.ANOVA,
		K: 2, Linear: true, Mapped: ""})
	c.Schema.Positive, c.Schema.Negative = "UP", "DOWN"
	dir := t.TempDir()
	_, err := publish.NewStore(dir).Publish(t.Context(), "m", c)
	snapshottest.Must(t, err)
	m, err := Open(dir, "m", verify.Selector{Version: 1})
	snapshottest.Must(t, err)
	seen := map[any]bool{}
	for i := range 50 {
		p, err := m.Predict(&format.Input{Categorical: []string{"u1", "i1"}, Numeric: []float64{float64(4 * i)}})
		snapshottest.Must(t, err)
		want := "DOWN"
		if p.Probabilities[1] > 0.5 {
			want = "UP"
		}
		if names := p.Names(); p.Label() != want || !reflect.DeepEqual(names, []string{"DOWN", "UP"}) ||
			names[int(p.Value)] != want {
			t.Errorf("%v %v %v of %v, want %s", p.Label(), p.Value, p.Probabilities, names, want)
		}
		seen[p.Label()] = true
	}
	if len(seen) != 2 {
		t.Errorf("one label alone was predicted: %v", seen)
	}
	s := format.Schema{Task: format.Binary, Label: "y", Positive: "2", Negative: "1", Categorical: []string{"item"}}
	open := s
	open.Negative = ""
	for _, test := range []struct {
		schema *format.Schema
		label  any
		want   float64 // NaN is refused
	}{
		{&s, "2", 1}, {&s, 2, 1}, {&s, "1", 0}, {&s, 1, 0}, {&s, 2.0, 1}, {&s, 0, 0}, {&s, "3", math.NaN()},
		{&open, "2", 1}, {&open, "other", 0}, {&open, 1, 1}, {&open, 0, 0},
	} {
		e, err := test.schema.LabelledFromMap(map[string]any{"item": "i", "y": test.label})
		if errors.Is(err, disk.ErrInput) != math.IsNaN(test.want) || err == nil && e.Label != test.want {
			t.Errorf("%v of %q and %q: %g, %v, want %g", test.label, test.schema.Positive, test.schema.Negative,
				e.Label, err, test.want)
		}
	}
}
