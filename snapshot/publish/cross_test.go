package publish

import (
	"errors"
	"slices"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/snapshot/verify"
)

// asGiven returns a model that has the crosses of c as fields that events give, and the same event for it.
func asGiven(t *testing.T, c *format.Contents) (*scorer.Model, func(*format.Input) format.Input) {
	t.Helper()
	twin := *c
	twin.Schema.Cross = nil
	twin.Schema.Categorical = slices.Concat(c.Schema.Categorical, []string{"first", "second"})
	twin.Schema.Optional = nil
	twin.Golden = nil
	m, err := scorer.NewModel(&twin)
	snapshottest.Must(t, err)
	return m, func(in *format.Input) format.Input {
		out := *in
		if in.Categorical == nil {
			return out
		}
		u, i := in.Categorical[0], in.Categorical[1]
		names := []string{u + "×" + i, i + "×" + u}
		if u == "" || i == "" {
			names = []string{"", ""}
		}
		out.Categorical = slices.Concat(in.Categorical, names)
		return out
	}
}

// TestCrosses: a model with crosses scores events that do not give them as one would that has them as fields of events,
// ranks by all of them, and reads itself back.
func TestCrosses(t *testing.T) {
	for _, s := range snapshottest.Shapes {
		t.Run(s.String(), func(t *testing.T) {
			c := snapshottest.WithCrosses(s)
			dir := t.TempDir()
			_, err := NewStore(dir).Publish(t.Context(), "m", c)
			snapshottest.Must(t, err)
			m, err := verify.Trust{}.Open(dir, "m", verify.Selector{Version: 1})
			snapshottest.Must(t, err)
			number := 4
			if _, degree := s.KernelOf(); degree == format.Cubic {
				number = 5
			}
			if m.Manifest().Format != number || !slices.EqualFunc(m.Schema().Cross, c.Schema.Cross, slices.Equal) {
				t.Fatalf("format %d, crosses %q", m.Manifest().Format, m.Schema().Cross)
			}
			twin, give := asGiven(t, c)
			got, want := make([]float64, m.NumOutputs()), make([]float64, m.NumOutputs())
			var scratch scorer.Scratch
			var crossed bool
			for i, in := range append(snapshottest.TestInputs(), format.Input{Categorical: []string{"u1", "i2"}},
				format.Input{Categorical: []string{"u9",
					"i1"}}) {
				full := give(&in)
				m.Score(got, &in, &scratch)
				twin.Score(want, &full, &scratch)
				if !slices.Equal(got, want) {
					t.Errorf("event %d %q: outputs %v, want %v", i, in.Categorical, got, want)
				}
				e, err := m.Explain(&in)
				if err == nil {
					for _, term := range e.Terms {
						crossed = crossed || slices.Contains(term.Features, "user×item=u1×i2")
					}
				}
				q := format.Query{Input: in, Over: "item", K: 3, Class: "green"}
				items, err := m.TopK(nil, &q, &scratch)
				if errors.Is(err, disk.ErrInput) {
					continue
				}
				snapshottest.Must(t, err)
				if want := snapshottest.SlowTopK(t, m, &q); !snapshottest.SameRanking(items, want) {
					t.Errorf("event %d: top %v, want %v", i, items, want)
				}
			}
			if !crossed && (c.Linear != nil || c.NumBasis > 0) {
				t.Error("no term is explained by the pair of u1 and i2")
			}
			in := format.Input{Categorical: []string{"u9", "i2"}}
			if n := m.Score(got, &in, &scratch); n != 1 { // u9: its pairs are nothing to count
				t.Errorf("%d names unseen", n)
			}
			if n := testing.AllocsPerRun(10, func() { m.Score(got, &in, &scratch) }); n > 0 {
				t.Errorf("%g allocations to score", n)
			}
		})
	}
}
