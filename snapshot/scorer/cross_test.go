package scorer

import (
	"errors"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

func TestInvalidCrosses(t *testing.T) {
	for name, spoil := range map[string]func(*format.Schema){
		"one part":       func(s *format.Schema) { s.Cross[0] = []string{"user"} },
		"a list":         func(s *format.Schema) { s.Cross[0] = []string{"user", "tags"} },
		"unknown":        func(s *format.Schema) { s.Cross[0] = []string{"user", "itm"} },
		"twice in one":   func(s *format.Schema) { s.Cross[0] = []string{"user", "user"} },
		"the same cross": func(s *format.Schema) { s.Cross[1] = s.Cross[0] },
		"taken name":     func(s *format.Schema) { s.Multi = []string{"user×item"} },
	} {
		c := snapshottest.WithCrosses(snapshottest.Shapes[0])
		spoil(&c.Schema)
		if _, err := NewModel(c); !errors.Is(err, disk.ErrContents) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := snapshottest.WithCrosses(snapshottest.Shapes[0])
	plain, crossed := c.Schema, c.Schema
	plain.Cross = nil
	if format.NewManifest(&format.Contents{Schema: plain}).Format == format.NewManifest(
		&format.Contents{Schema: crossed}).Format {
		t.Error("a build that knows no crosses would score without them")
	}
}
