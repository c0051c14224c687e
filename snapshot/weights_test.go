package snapshot

import (
	"math"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/snapshot/verify"
)

// TestListWeights: a name of a list of 1, 2 and 200 names counts 1/n or 1/√n in every model, as the definition has it;
// a version with weights is of format 6, its payload another one, and one without is as it was.
func TestListWeights(t *testing.T) {
	lists := [][]string{{"a"}, {"a", "a"}, {"b", "unseen"}, longList()}
	for _, s := range snapshottest.Shapes {
		t.Run(s.String(), func(t *testing.T) {
			digests := map[string]bool{}
			for name, weights := range map[string][]string{"none": nil, "mean": {format.WeightMean},
				"sqrt": {format.WeightSqrt}} {
				c := withWeights(s, weights)
				dir := t.TempDir()
				manifest, err := publish.NewStore(dir).Publish(t.Context(), "m", c)
				snapshottest.Must(t, err)
				_, degree := s.KernelOf()
				plain := c.Schema
				plain.MultiWeights = nil
				want := format.NewManifest(&format.Contents{Schema: plain, Degree: degree}).Format
				if weights != nil {
					want = 6
				}
				if digests[manifest.PayloadDigest] = true; manifest.Format != want {
					t.Errorf("weight %s is written as format %d, want %d", name, manifest.Format, want)
				}
				m, err := Open(dir, "m", verify.Selector{Version: 1})
				snapshottest.Must(t, err)
				got := make([]float64, m.NumOutputs())
				for _, list := range lists {
					in := format.Input{Categorical: []string{"u1", "i2"}, Numeric: []float64{50}, Multi: [][]string{list}}
					m.Score(got, &in, &scorer.Scratch{})
					for o, v := range snapshottest.SlowOutputs(c, &in) {
						if math.Abs(got[o]-v) > 1e-9*(1+math.Abs(v)) {
							t.Errorf("weight %s, list of %d: outputs %v, want %g in place %d", name, len(list), got, v,
								o)
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
