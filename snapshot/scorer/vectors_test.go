package scorer

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// byVectors ranks names by inner products alone.
func byVectors(t *testing.T, v *Vectors, in *format.Input, k int) []format.Item {
	t.Helper()
	query, offset, err := v.Query(nil, in, new(Scratch))
	snapshottest.Must(t, err)
	type ranked struct {
		format.Item
		place int
	}
	var list []ranked
	snapshottest.Must(t, v.Each(func(name string, place int, vector []float64) error {
		if place < 0 {
			place = math.MaxInt
		}
		list = append(list, ranked{format.Item{Name: name, Value: offset + rowmath.Dot(query, vector)}, place})
		return nil
	}))
	slices.SortStableFunc(list, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.place, b.place))
	})
	items := make([]format.Item, 0, k)
	for _, x := range list[:min(k, len(list))] {
		items = append(items, x.Item)
	}
	return items
}

// TestVectorsAreTheModel: an event's value plus the inner product is what TopK finds, with tables, after deltas, and in
// every form that has vectors; each other form says why it has none.
func TestVectorsAreTheModel(t *testing.T) {
	for seed := range uint64(6) {
		x := newTabled(t, seed, 60)
		for range 20 {
			x.change(t)
			v, err := x.model.Vectors("item", "")
			snapshottest.Must(t, err)
			q := format.Query{Input: *x.given("u3", "i7"), Over: "item", K: 10}
			want, err := x.model.TopK(nil, &q, new(Scratch))
			snapshottest.Must(t, err)
			if got := byVectors(t, v, &q.Input, q.K); !sameWithin(got, want) {
				t.Fatalf("seed %d: %v, want %v", seed, got, want)
			}
		}
		if _, err := x.model.Vectors("genre", ""); !errors.Is(err, disk.ErrInput) {
			t.Errorf("a column of a table: %v", err)
		}
	}
	have := 0
	for _, s := range snapshottest.Shapes {
		m, err := NewModel(snapshottest.TestContents(s))
		snapshottest.Must(t, err)
		class := ""
		if c := m.Schema().Classes; len(c) > 0 {
			class = c[1]
		}
		v, err := m.Vectors("item", class)
		if err != nil {
			if isPairwise := !strings.HasSuffix(s.Kernel, "3") && s.Link != format.Softmax &&
				s.Link != format.OrdinalLink; isPairwise || !errors.Is(err, disk.ErrInput) {
				t.Errorf("%s: %v", s, err)
			}
			continue
		}
		have++
		for _, in := range snapshottest.TestInputs() {
			q := format.Query{Input: in, Over: "item", K: 4, Class: class}
			want, err := m.TopK(nil, &q, new(Scratch))
			if err != nil {
				continue // an event that lacks a field
			}
			out, event := make([]float64, m.NumOutputs()), in
			for i := range want { // whose values are behind the link
				event.Categorical = []string{"", want[i].Name}
				copy(event.Categorical, in.Categorical[:min(1, len(in.Categorical))])
				m.Score(out, &event, new(Scratch))
				want[i].Value = out[v.output]
			}
			if got := byVectors(t, v, &in, q.K); !sameWithin(got, want) {
				t.Errorf("%s: %v, want %v", s, got, want)
			}
		}
	}
	if have < 10 {
		t.Errorf("%d forms have vectors", have)
	}
}

// TestNoVectors: what is no inner product is refused with the reason.
func TestNoVectors(t *testing.T) {
	pair := snapshottest.Shape{Task: format.Regression, Link: format.Identity, Kernel: format.ANOVA, K: 2, Linear: true}
	for reason, c := range map[string]*format.Contents{
		"trees": snapshottest.WithTrees(snapshottest.TestContents(pair)),
		"cross": snapshottest.WithCrosses(pair),
		"degree 3": snapshottest.TestContents(snapshottest.Shape{Task: format.Regression, Link: format.Identity,
			Kernel: snapshottest.Anova3, K: 2}),
	} {
		m, err := NewModel(c)
		snapshottest.Must(t, err)
		if _, err := m.Vectors("item", ""); !errors.Is(err, disk.ErrInput) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// sameWithin reports whether rankings agree but for rounding.
func sameWithin(got, want []format.Item) bool {
	return slices.EqualFunc(got, want, func(a, b format.Item) bool {
		return a.Name == b.Name && math.Abs(a.Value-b.Value) <= 1e-12*(1+math.Abs(b.Value))
	})
}
