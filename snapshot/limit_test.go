package snapshot

import (
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/snapshot/verify"
)

// TestOutputsAreLimited: every way to score a version clips its outputs to the limit that the manifest states, before
// and after a delta, and changes no bit of outputs below it.
func TestOutputsAreLimited(t *testing.T) {
	const limit = 0.75
	for _, s := range snapshottest.Shapes {
		t.Run(s.String(), func(t *testing.T) {
			c := snapshottest.TestContents(s)
			free, err := scorer.NewModel(c)
			snapshottest.Must(t, err)
			dir := t.TempDir()
			_, err = publish.NewStore(dir).Publish(t.Context(), "m", snapshottest.WithLimit(c, limit))
			snapshottest.Must(t, err)
			limited, err := Open(dir, "m", verify.Selector{Version: 1})
			snapshottest.Must(t, err)
			delta := &format.Delta{
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
func afterDelta(t *testing.T, m *scorer.Model, d format.Delta) *scorer.Model {
	t.Helper()
	at := m.Position()
	d.Model, d.Base, d.BaseDigest = m.Manifest().Model, at.Version, m.Manifest().Digest
	d.Sequence, d.Previous, d.Created = at.Sequence+1, at.Digest, snapshottest.Created
	_, err := d.Encode(m.Shape(), nil) // for its digest
	snapshottest.Must(t, err)
	next, err := m.Apply(&d)
	snapshottest.Must(t, err)
	return next
}

// checkLimited compares what a model with a limit says of an event with what it says without, and returns how many
// outputs were clipped.
func checkLimited(t *testing.T, free, limited *scorer.Model, in *format.Input, limit float64) (clipped int) {
	t.Helper()
	want := make([]float64, free.NumOutputs())
	free.Score(want, in, new(scorer.Scratch))
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
	limited.Score(got, in, new(scorer.Scratch))
	same("Score", got)
	limited.ScoreBatch(got, []format.Input{*in}, new(scorer.Scratch))
	same("ScoreBatch", got)
	p, err := limited.Predict(in)
	snapshottest.Must(t, err)
	same("Predict", p.Outputs)
	for _, v := range p.Probabilities {
		if limited.Manifest().Link == format.Logistic && limited.Schema().Task != format.Multiclass &&
			(v < rowmath.Sigmoid(-limit) || v > rowmath.Sigmoid(limit)) {
			t.Fatalf("a probability of %g", v)
		}
	}
	e, err := limited.Explain(in)
	snapshottest.Must(t, err)
	same("Explain", e.Outputs)
	return clipped
}
