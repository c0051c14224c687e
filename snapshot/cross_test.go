package snapshot

import (
	"errors"
	"math"
	"slices"
	"testing"
)

// withCrosses gives a model of testContents crosses: one of its fields by each other, of which some pairs are known.
func withCrosses(s shape) *Contents {
	c := testContents(s)
	users, items := c.Vocabulary[0], c.Vocabulary[1]
	pairs := []string{"u1×i2", "u1×i1", "u3×i1", users[0] + "×" + items[0]}
	slices.Sort(pairs)
	pairs = slices.Compact(pairs)
	backwards := []string{items[0] + "×" + users[0]}
	at, added := len(users)+len(items), len(pairs)+len(backwards)
	c.Schema.Cross = [][]string{{"user", "item"}, {"item", "user"}}
	c.Vocabulary = slices.Insert(c.Vocabulary, 2, pairs, backwards)
	c.NumFeatures += added
	grow := func(table []float64, width int) []float64 {
		if table == nil {
			return nil
		}
		rows := make([]float64, added*width)
		for i := range rows {
			rows[i] = math.Sin(float64(i + 1))
		}
		return slices.Insert(slices.Clone(table), at*width, rows...)
	}
	c.Basis, c.Linear = grow(c.Basis, c.NumBasis), grow(c.Linear, c.NumOutputs)
	for i := range c.Golden {
		c.Golden[i].Outputs = nil
	}
	return c
}

// asGiven returns a model that has the crosses of c as fields that events give, and the same event for it.
func asGiven(t *testing.T, c *Contents) (*Model, func(*Input) Input) {
	t.Helper()
	twin := *c
	twin.Schema.Cross = nil
	twin.Schema.Categorical = slices.Concat(c.Schema.Categorical, []string{"first", "second"})
	twin.Schema.Optional = nil
	twin.Golden = nil
	m, err := NewModel(&twin)
	must(t, err)
	return m, func(in *Input) Input {
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

// TestNamedIsACopy: a caller that changes the list of fields does not change the schema.
func TestNamedIsACopy(t *testing.T) {
	s := Schema{Categorical: []string{"user", "item"}}
	clear(s.Named())
	if s.Categorical[0] != "user" || s.Categorical[1] != "item" {
		t.Errorf("fields are now %q", s.Categorical)
	}
}

// TestCrosses: a model with crosses scores events that do not give them as one would that has them as fields of events,
// ranks by all of them, and reads itself back.
func TestCrosses(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.String(), func(t *testing.T) {
			c := withCrosses(s)
			dir := t.TempDir()
			_, err := NewStore(dir).Publish(t.Context(), "m", c)
			must(t, err)
			m, err := Trust{}.Open(dir, "m", Selector{Version: 1})
			must(t, err)
			number := 4
			if _, degree := s.kernelOf(); degree == cubic {
				number = 5
			}
			if m.Manifest().Format != number || !slices.EqualFunc(m.Schema().Cross, c.Schema.Cross, slices.Equal) {
				t.Fatalf("format %d, crosses %q", m.Manifest().Format, m.Schema().Cross)
			}
			twin, give := asGiven(t, c)
			got, want := make([]float64, m.NumOutputs()), make([]float64, m.NumOutputs())
			var scratch Scratch
			var crossed bool
			for i, in := range append(testInputs(), Input{Categorical: []string{"u1", "i2"}}, Input{Categorical: []string{"u9",
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
				q := Query{Input: in, Over: "item", K: 3, Class: "green"}
				items, err := m.TopK(nil, &q, &scratch)
				if errors.Is(err, ErrInput) {
					continue
				}
				must(t, err)
				if want := slowTopK(t, m, &q); !sameRanking(items, want) {
					t.Errorf("event %d: top %v, want %v", i, items, want)
				}
			}
			if !crossed && (c.Linear != nil || c.NumBasis > 0) {
				t.Error("no term is explained by the pair of u1 and i2")
			}
			in := Input{Categorical: []string{"u9", "i2"}}
			if n := m.Score(got, &in, &scratch); n != 1 { // u9: its pairs are nothing to count
				t.Errorf("%d names unseen", n)
			}
			if n := testing.AllocsPerRun(10, func() { m.Score(got, &in, &scratch) }); n > 0 {
				t.Errorf("%g allocations to score", n)
			}
		})
	}
}

func TestInvalidCrosses(t *testing.T) {
	for name, spoil := range map[string]func(*Schema){
		"one part":       func(s *Schema) { s.Cross[0] = []string{"user"} },
		"a list":         func(s *Schema) { s.Cross[0] = []string{"user", "tags"} },
		"unknown":        func(s *Schema) { s.Cross[0] = []string{"user", "itm"} },
		"twice in one":   func(s *Schema) { s.Cross[0] = []string{"user", "user"} },
		"the same cross": func(s *Schema) { s.Cross[1] = s.Cross[0] },
		"taken name":     func(s *Schema) { s.Multi = []string{"user×item"} },
	} {
		c := withCrosses(shapes[0])
		spoil(&c.Schema)
		if _, err := NewModel(c); !errors.Is(err, ErrContents) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := withCrosses(shapes[0])
	plain, crossed := c.Schema, c.Schema
	plain.Cross = nil
	if newManifest(&Contents{Schema: plain}).Format == newManifest(&Contents{Schema: crossed}).Format {
		t.Error("a build that knows no crosses would score without them")
	}
}
