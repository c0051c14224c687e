package snapshot

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
)

// withWeights gives the list of a model of testContents a weight; golden outputs are those by definition.
func withWeights(s shape, weights []string) *Contents {
	c := testContents(s)
	c.Schema.MultiWeights, c.Golden = weights, nil
	for _, in := range append(testInputs(), Input{Categorical: []string{"u1", "i2"}, Numeric: []float64{50},
		Multi: [][]string{longList()}}) {
		c.Golden = append(c.Golden, Golden{Input: in, Outputs: slowOutputs(c, &in)})
	}
	return c
}

// longList has 200 names, of which two are known and come 50 times each.
func longList() []string {
	list := slices.Repeat([]string{"a", "b", "a", "b"}, 25)
	for i := range 100 {
		list = append(list, fmt.Sprint("unseen", i))
	}
	return list
}

// TestListWeights: a name of a list of 1, 2 and 200 names counts 1/n or 1/√n in every model, as the definition has it;
// a version with weights is of format 6, its payload another one, and one without is as it was.
func TestListWeights(t *testing.T) {
	lists := [][]string{{"a"}, {"a", "a"}, {"b", "unseen"}, longList()}
	for _, s := range shapes {
		t.Run(s.String(), func(t *testing.T) {
			digests := map[string]bool{}
			for name, weights := range map[string][]string{"none": nil, "mean": {WeightMean}, "sqrt": {WeightSqrt}} {
				c := withWeights(s, weights)
				dir := t.TempDir()
				manifest, err := NewStore(dir).Publish(t.Context(), "m", c)
				must(t, err)
				_, degree := s.kernelOf()
				plain := c.Schema
				plain.MultiWeights = nil
				want := newManifest(&Contents{Schema: plain, Degree: degree}).Format
				if weights != nil {
					want = 6
				}
				if digests[manifest.PayloadDigest] = true; manifest.Format != want {
					t.Errorf("weight %s is written as format %d, want %d", name, manifest.Format, want)
				}
				m, err := Open(dir, "m", Selector{Version: 1})
				must(t, err)
				got := make([]float64, m.NumOutputs())
				for _, list := range lists {
					in := Input{Categorical: []string{"u1", "i2"}, Numeric: []float64{50}, Multi: [][]string{list}}
					m.Score(got, &in, &Scratch{})
					for o, v := range slowOutputs(c, &in) {
						if math.Abs(got[o]-v) > 1e-9*(1+math.Abs(v)) {
							t.Errorf(
								"weight %s, list of %d: outputs %v, want %g in place %d",
								name,
								len(list),
								got,
								v,
								o,
							)
						}
					}
				}
			}
			if len(digests) != 3 {
				t.Errorf("%d payload digests of three weights", len(digests))
			}
		})
	}
}

func TestInvalidListWeights(t *testing.T) {
	for _, weights := range [][]string{{"one"}, {""}, {WeightSqrt, WeightSqrt}} {
		c := testContents(small)
		c.Schema.MultiWeights = weights
		if _, err := NewModel(c); !errors.Is(err, ErrContents) {
			t.Errorf("weights %q: %v", weights, err)
		}
	}
}
