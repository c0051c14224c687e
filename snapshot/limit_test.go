package snapshot

import (
	"errors"
	"math"
	"slices"
	"testing"
)

// withLimit returns contents whose outputs are limited.
func withLimit(c *Contents, limit float64) *Contents {
	of, n := *c, Number(limit)
	of.Meta.OutputLimit = &n
	of.Golden = slices.Clone(c.Golden)
	for i := range of.Golden {
		of.Golden[i].Outputs = nil
	}
	return &of
}

// TestOutputsAreLimited: every way to score a version clips its outputs to the limit that the manifest states, before
// and after a delta, and changes no bit of outputs below it.
func TestOutputsAreLimited(t *testing.T) {
	const limit = 0.75
	for _, s := range shapes {
		t.Run(s.String(), func(t *testing.T) {
			c := testContents(s)
			free, err := NewModel(c)
			must(t, err)
			dir := t.TempDir()
			_, err = NewStore(dir).Publish(t.Context(), "m", withLimit(c, limit))
			must(t, err)
			limited, err := Open(dir, "m", Selector{Version: 1})
			must(t, err)
			delta := &Delta{
				Columns: []int32{0, 3},
				Bias:    slices.Repeat([]float64{0.1}, c.NumOutputs),
				Basis:   slices.Repeat([]float64{2}, 2*c.NumBasis),
			}
			if c.Linear != nil {
				delta.Linear = slices.Repeat([]float64{-3}, 2*c.NumOutputs)
			}
			clipped := 0
			for range 2 {
				for _, in := range randomInputs(4, 200) {
					clipped += checkLimited(t, free, limited, &in, limit)
				}
				free, limited = afterDelta(t, free, *delta), afterDelta(t, limited, *delta)
			}
			if clipped == 0 {
				t.Error("no output is beyond the limit")
			}
		})
	}
}

// afterDelta returns a model after a delta, which gets its place in the chain.
func afterDelta(t *testing.T, m *Model, d Delta) *Model {
	t.Helper()
	at := m.Position()
	d.Model, d.Base, d.BaseDigest = m.Manifest().Model, at.Version, m.Manifest().Digest
	d.Sequence, d.Previous, d.Created = at.Sequence+1, at.Digest, created
	_, err := d.Encode(m.Shape(), nil) // for its digest
	must(t, err)
	next, err := m.Apply(&d)
	must(t, err)
	return next
}

// checkLimited compares what a model with a limit says of an event with what it says without, and returns how many
// outputs were clipped.
func checkLimited(t *testing.T, free, limited *Model, in *Input, limit float64) (clipped int) {
	t.Helper()
	want := make([]float64, free.NumOutputs())
	free.Score(want, in, new(Scratch))
	for o, v := range want {
		if math.Abs(v) > limit {
			want[o] = math.Copysign(limit, v)
			clipped++
		}
	}
	same := func(what string, got []float64) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Fatalf("%s of %+v: %v, want %v", what, in, got, want)
		}
	}
	got := make([]float64, len(want))
	limited.Score(got, in, new(Scratch))
	same("Score", got)
	limited.ScoreBatch(got, []Input{*in}, new(Scratch))
	same("ScoreBatch", got)
	p, err := limited.Predict(in)
	must(t, err)
	same("Predict", p.Outputs)
	for _, v := range p.Probabilities {
		if limited.Manifest().Link == Logistic && limited.Schema().Task != Multiclass &&
			(v < sigmoid(-limit) || v > sigmoid(limit)) {
			t.Fatalf("a probability of %g", v)
		}
	}
	e, err := limited.Explain(in)
	must(t, err)
	same("Explain", e.Outputs)
	return clipped
}

// TestFoldedOutputsAreLimited: so are outputs with the last events of an entity, which are learned from as without a
// limit.
func TestFoldedOutputsAreLimited(t *testing.T) {
	c := foldable(shape{Binary, Logistic, ANOVA, 2, true, ""}, true)
	free, err := NewModel(c)
	must(t, err)
	history := historyOf(c, "u9", 40)
	for i := range history {
		history[i].Label = 1
	}
	over, err := free.Fold(history)
	must(t, err)
	want, got := make([]float64, 1), make([]float64, 1)
	in := &history[0].Input
	over.Score(want, in, new(Scratch))
	for _, limit := range []float64{math.Abs(want[0]) / 2, math.Abs(want[0])} {
		limited, err := NewModel(withLimit(c, limit))
		must(t, err)
		over, err := limited.Fold(history)
		must(t, err)
		if over.Score(got, in, new(Scratch)); got[0] != math.Copysign(limit, want[0]) {
			t.Errorf("output %g with a limit of %g, without one %g", got[0], limit, want[0])
		}
	}
}

// TestLimitedListsKeepTheirOrder: a limit makes values equal, not lists other ones, and the values are those of
// Predict.
func TestLimitedListsKeepTheirOrder(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.String(), func(t *testing.T) {
			c := testContents(s)
			widen(c, 300)
			free, err := NewModel(c)
			must(t, err)
			limited, err := NewModel(withLimit(c, 0.5))
			must(t, err)
			for _, in := range testInputs() {
				q := &Query{Input: in, Over: "item", K: 12, Class: "red"}
				plain, err := free.TopK(nil, q, new(Scratch))
				must(t, err)
				got, err := limited.TopK(nil, q, new(Scratch))
				must(t, err)
				var names, all []string
				for i := range got {
					names, all = append(names, got[i].Name), append(all, plain[i].Name)
					if isOne := s.link != Softmax && s.link != OrdinalLink; i > 0 && isOne &&
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
					want := slowTopK(t, limited, &Query{Input: of, Over: "item", K: 1000, Class: q.Class})
					if i := slices.IndexFunc(want, func(w Item) bool { return w.Name == x.Name }); !sameRanking(
						[]Item{x},
						want[i:i+1],
					) {
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
	Limit(got, 2)
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
		if Limit(got, none); got[0] != 1e300 {
			t.Errorf("a limit of %g gives %g", none, got[0])
		}
	}
	m, err := NewModel(withLimit(testContents(shapes[2]), 1))
	must(t, err)
	in := testInputs()[0]
	in.Numeric = []float64{1e300}
	if _, err := m.Predict(&in); !errors.Is(err, ErrInput) {
		t.Errorf("a number that is too far: %v", err)
	}
	if _, err := m.TopK(nil, &Query{Input: in, Over: "item", K: 1}, new(Scratch)); !errors.Is(err, ErrInput) {
		t.Errorf("a list with a number that is too far: %v", err)
	}
}
