package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/snapshot/verify"
)

// TestThousandEvents: on 1,000 events published models of degree 3 and of margin losses score as the formula says,
// within 1e-9 from F64 tensors and 1e-5 from F32 ones, one by one and in a batch; terms add up to that, and rankings
// are those of predictions.
func TestThousandEvents(t *testing.T) {
	tier.NotUnderRace(t)
	if n := len(snapshottest.NewForms()); n != 7 {
		t.Fatalf("%d shapes", n)
	}
	events := randomInputs(3, 1000)
	dir := t.TempDir()
	for _, s := range snapshottest.NewForms() {
		for tensors, tolerance := range map[string]float64{format.F64: 1e-9, format.F32: 1e-5} {
			t.Run(s.String()+" "+tensors, func(t *testing.T) {
				exact, c := snapshottest.TestContents(s), snapshottest.TestContents(s)
				c.Tensors = tensors
				wide := snapshottest.TestContents(s)
				snapshottest.Widen(wide, 30)
				for i := range wide.Golden {
					wide.Golden[i].Outputs = nil
				}
				wide.Tensors = tensors
				m, broad := publishedAs(t, dir, "plain", c), publishedAs(t, dir, "wide", wide)
				outputs := m.NumOutputs()
				batch, alone := make([]float64, len(events)*outputs), make([]float64, outputs)
				var scratch scorer.Scratch
				m.ScoreBatch(batch, events, &scratch)
				for i := range events {
					in := &events[i]
					m.Score(alone, in, &scratch)
					if !slices.Equal(alone, batch[i*outputs:(i+1)*outputs]) {
						t.Fatalf("event %d: %v alone, %v in a batch", i, alone, batch[i*outputs:(i+1)*outputs])
					}
					if want := snapshottest.SlowOutputs(exact, in); !rowmath.CloseTo(alone, want, tolerance) {
						t.Fatalf("event %d: %v, want %v", i, alone, want)
					}
					e, err := m.Explain(in)
					snapshottest.Must(t, err)
					sum := make([]float64, outputs)
					for _, term := range e.Terms {
						for o, v := range term.Contribution {
							sum[o] += v
						}
					}
					if !rowmath.CloseTo(sum, alone, 1e-9) {
						t.Fatalf("event %d: terms add up to %v, scored %v", i, sum, alone)
					}
					q := format.Query{Input: *in, Over: "item", K: 1 + i%12, Class: []string{"red", "green", "blue"}[i%3]}
					got, err := broad.TopK(nil, &q, &scratch)
					snapshottest.Must(t, err)
					if want := snapshottest.SlowTopK(t, broad, &q); !snapshottest.SameRanking(got, want) {
						t.Fatalf("event %d: %.300v, want %.300v", i, fmt.Sprint(got), fmt.Sprint(want))
					}
				}
			})
		}
	}
}

// publishedAs publishes contents as a separate model and opens it.
func publishedAs(t *testing.T, dir, name string, c *format.Contents) *scorer.Model {
	t.Helper()
	name = strings.ToLower(
		fmt.Sprintf("%s-%d-%d-%s-%d-%s", name, c.NumBasis, cmp.Or(c.Degree, 2), c.Kernel, len(c.MapWeights), c.Tensors))
	manifest, err := publish.NewStore(dir).Publish(t.Context(), name, c)
	snapshottest.Must(t, err)
	m, err := Open(dir, name, verify.Selector{Version: manifest.Version})
	snapshottest.Must(t, err)
	if got := m.Contents().Tensors; got != c.Tensors {
		t.Fatalf("tensors of type %s, want %s", got, c.Tensors)
	}
	return m
}
