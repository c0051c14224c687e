package snapshot

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// newForms are the shapes of kernels of degree 3 and of margin losses.
func newForms() (list []shape) {
	for _, s := range shapes {
		if _, degree := s.kernelOf(); degree == cubic || s == ofMargin {
			list = append(list, s)
		}
	}
	return list
}

// randomInputs are events of the fields of testContents: names that are known, unknown and absent, and numbers.
func randomInputs(seed uint64, n int) []Input {
	rng := rand.New(rand.NewPCG(seed, 6))
	name := func(names ...string) string { return names[rng.IntN(len(names))] }
	list := make([]Input, n)
	for i := range list {
		tags := []string{}
		for range rng.IntN(4) {
			tags = append(tags, name("a", "b", "zzz", "naïve \"<\\\u2028"))
		}
		list[i] = Input{
			Categorical: []string{name("u1", "u2", "u3", "u9", ""), name("i1", "i2", "i9", "")},
			Numeric:     []float64{40 + 30*rng.NormFloat64()},
			Multi:       [][]string{tags},
		}
	}
	return list
}

// TestThousandEvents: on 1,000 events published models of degree 3 and of margin losses score as the formula says,
// within 1e-9 from F64 tensors and 1e-5 from F32 ones, one by one and in a batch; terms add up to that, and rankings
// are those of predictions.
func TestThousandEvents(t *testing.T) {
	if n := len(newForms()); n != 7 {
		t.Fatalf("%d shapes", n)
	}
	events := randomInputs(3, 1000)
	dir := t.TempDir()
	for _, s := range newForms() {
		for tensors, tolerance := range map[string]float64{F64: 1e-9, F32: 1e-5} {
			t.Run(s.String()+" "+tensors, func(t *testing.T) {
				exact, c := testContents(s), testContents(s)
				c.Tensors = tensors
				wide := testContents(s)
				widen(wide, 30)
				for i := range wide.Golden {
					wide.Golden[i].Outputs = nil
				}
				wide.Tensors = tensors
				m, broad := publishedAs(t, dir, "plain", c), publishedAs(t, dir, "wide", wide)
				outputs := m.NumOutputs()
				batch, alone := make([]float64, len(events)*outputs), make([]float64, outputs)
				var scratch Scratch
				m.ScoreBatch(batch, events, &scratch)
				for i := range events {
					in := &events[i]
					m.Score(alone, in, &scratch)
					if !slices.Equal(alone, batch[i*outputs:(i+1)*outputs]) {
						t.Fatalf("event %d: %v alone, %v in a batch", i, alone, batch[i*outputs:(i+1)*outputs])
					}
					if want := slowOutputs(exact, in); !closeTo(alone, want, tolerance) {
						t.Fatalf("event %d: %v, want %v", i, alone, want)
					}
					e, err := m.Explain(in)
					must(t, err)
					sum := make([]float64, outputs)
					for _, term := range e.Terms {
						for o, v := range term.Contribution {
							sum[o] += v
						}
					}
					if !closeTo(sum, alone, 1e-9) {
						t.Fatalf("event %d: terms add up to %v, scored %v", i, sum, alone)
					}
					q := Query{Input: *in, Over: "item", K: 1 + i%12, Class: []string{"red", "green", "blue"}[i%3]}
					got, err := broad.TopK(nil, &q, &scratch)
					must(t, err)
					if want := slowTopK(t, broad, &q); !sameRanking(got, want) {
						t.Fatalf("event %d: %.300v, want %.300v", i, fmt.Sprint(got), fmt.Sprint(want))
					}
				}
			})
		}
	}
}

// publishedAs publishes contents as a separate model and opens it.
func publishedAs(t *testing.T, dir, name string, c *Contents) *Model {
	t.Helper()
	name = strings.ToLower(
		fmt.Sprintf("%s-%d-%d-%s-%d-%s", name, c.NumBasis, cmp.Or(c.Degree, 2), c.Kernel, len(c.MapWeights), c.Tensors),
	)
	manifest, err := NewStore(dir).Publish(t.Context(), name, c)
	must(t, err)
	m, err := Open(dir, name, Selector{Version: manifest.Version})
	must(t, err)
	if got := m.Contents().Tensors; got != c.Tensors {
		t.Fatalf("tensors of type %s, want %s", got, c.Tensors)
	}
	return m
}
