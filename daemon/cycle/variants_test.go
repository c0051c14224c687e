package cycle

import (
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
)

// TestRowsOfVariants: each variant has a row with a name that no other has, a text and a part of the mixture. Versions
// of all but the first say what they are made of.
func TestRowsOfVariants(t *testing.T) {
	names, reasons := map[string]bool{"": true}, map[string]bool{}
	for f := range variants {
		v := &variants[f]
		if names[v.name] || v.doc == "" || v.candidate == nil {
			t.Errorf("variant %d has no name, text or candidate, or the name of another: %q %q", f, v.name, v.doc)
			continue
		}
		names[v.name] = true
		if isFirst := mixture.Variant(f) == mixture.FormFoldIn; (v.reason == "") != isFirst || reasons[v.reason] {
			t.Errorf("versions of %s say %q", v.name, v.reason)
		}
		reasons[v.reason] = true
		for _, m := range []*config.Model{cycletest.RatingsModel(nil), switchModel()} {
			part := v.part(m)
			if part != mixture.PartFoldIn && part != experts.PartBlend && experts.KindOf(part) == nil {
				t.Errorf("%s is made of %q, which is no part of the mixture", v.name, part)
			}
		}
	}
}
