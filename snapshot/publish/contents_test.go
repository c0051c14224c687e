package publish

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

func TestContentsRefused(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(c *format.Contents)
	}{
		{"NaN weight", func(c *format.Contents) { c.Weights[1] = math.NaN() }},
		{"infinite bias", func(c *format.Contents) { c.Bias[0] = math.Inf(-1) }},
		{"NaN basis", func(c *format.Contents) { c.Basis[0] = math.NaN() }},
		{"NaN linear", func(c *format.Contents) { c.Linear[0] = math.NaN() }},
		{"overflowing outputs", func(c *format.Contents) { c.Basis[0], c.Basis[5*2] = 1e300, 1e300 }},
		{"all zero", func(c *format.Contents) { clear(c.Weights); clear(c.Linear); clear(c.Bias) }},
		{"short basis", func(c *format.Contents) { c.Basis = c.Basis[1:] }},
		{"short linear", func(c *format.Contents) { c.Linear = c.Linear[1:] }},
		{"empty linear", func(c *format.Contents) { c.Linear = []float64{} }},
		{"no bias", func(c *format.Contents) { c.Bias = nil }},
		{"negative size", func(c *format.Contents) { c.NumBasis = -1 }},
		{"huge size", func(c *format.Contents) { c.NumFeatures = math.MaxInt }},
		{"missing column", func(c *format.Contents) { c.Vocabulary[0] = c.Vocabulary[0][1:] }},
		{"missing field", func(c *format.Contents) { c.Vocabulary = c.Vocabulary[1:] }},
		{"repeated name", func(c *format.Contents) { c.Vocabulary[0][1] = "u1" }},
		{"empty name", func(c *format.Contents) { c.Vocabulary[0][1] = "" }},
		{"name not UTF-8", func(c *format.Contents) { c.Vocabulary[0][1] = "\xff" }},
		{"unknown kernel", func(c *format.Contents) { c.Kernel = "rbf" }},
		{"unknown degree", func(c *format.Contents) { c.Degree = 4 }},
		{"degree 1", func(c *format.Contents) { c.Degree = 1 }},
		{"fold-in of degree 3", func(c *format.Contents) {
			*c = *snapshottest.Foldable(snapshottest.Shape{Task: format.Ordinal, Link: format.OrdinalLink, Kernel: format.ANOVA,
				K: 2, Linear: true, Mapped: ""}, true)
			c.Degree = 3
		}},
		{"unknown task", func(c *format.Contents) { c.Schema.Task = "ranking" }},
		{"softmax of a binary label", func(c *format.Contents) { c.Link = format.Softmax }},
		{"repeated field", func(c *format.Contents) { c.Schema.Multi[0] = "user" }},
		{"scale of zero", func(c *format.Contents) { c.Schema.Numeric[0].Scale = 0 }},
		{"infinite center", func(c *format.Contents) { c.Schema.Numeric[0].Center = math.Inf(1) }},
		{"infinite label range", func(c *format.Contents) { c.Schema.LabelMax = math.Inf(1) }},
		{"no golden events", func(c *format.Contents) { c.Golden = nil }},
		{"golden event of another schema", func(c *format.Contents) { c.Golden[0].Input.Categorical = []string{"u1"} }},
		{"trainer disagrees", func(c *format.Contents) {
			c.Golden[1].Outputs = snapshottest.SlowOutputs(c, &c.Golden[1].Input)
			c.Golden[1].Outputs[0] += 1e-6
		}},
		{"no creation time", func(c *format.Contents) { c.Meta.Created = time.Time{} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := NewStore(t.TempDir())
			c := snapshottest.TestContents(snapshottest.Shape{Task: format.Binary, Link: format.Logistic, Kernel: format.ANOVA,
				K: 2, Linear: true, Mapped: ""})
			for i := range c.Golden {
				c.Golden[i].Outputs = nil // or they would betray every change
			}
			test.spoil(c)
			if _, err := store.Publish(t.Context(), "m", c); !errors.Is(err, disk.ErrContents) {
				t.Errorf("Publish: %v, want ErrContents", err)
			}
			if v, err := store.Versions("m"); len(v) > 0 || !errors.Is(err, disk.ErrNotFound) {
				t.Errorf("Versions = %v, %v: something was published", v, err)
			}
		})
	}
}
