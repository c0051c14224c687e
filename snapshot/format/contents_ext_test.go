package format_test

import (
	"math"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

func TestPayloadDigest(t *testing.T) {
	s := snapshottest.Shape{Task: format.Ordinal, Link: format.OrdinalLink, Kernel: format.ANOVA, K: 2, Linear: true}
	want, err := format.PayloadDigest(snapshottest.TestContents(s))
	if err != nil {
		t.Fatal(err)
	}
	later := snapshottest.TestContents(s)
	later.Meta = format.Meta{Created: snapshottest.Created.Add(time.Hour), Kind: "update", Rows: 9}
	later.Golden = later.Golden[:1]
	if got, err := format.PayloadDigest(later); err != nil || got != want {
		t.Errorf("other times and metrics: %s, %v, want %s", got, err, want)
	}
	for name, change := range map[string]func(c *format.Contents){
		"weight":  func(c *format.Contents) { c.Weights[0] = math.Nextafter(c.Weights[0], 9) },
		"name":    func(c *format.Contents) { c.Vocabulary[0][0] = "u0" },
		"kernel":  func(c *format.Contents) { c.Kernel = format.Homogeneous },
		"degree":  func(c *format.Contents) { c.Degree = 3 },
		"scaling": func(c *format.Contents) { c.Schema.Numeric[0].Center = 41 },
		"linear":  func(c *format.Contents) { c.Linear = nil },
	} {
		c := snapshottest.TestContents(s)
		change(c)
		if got, err := format.PayloadDigest(c); err != nil || got == want {
			t.Errorf("another %s: %s, %v, want another digest", name, got, err)
		}
	}
}
