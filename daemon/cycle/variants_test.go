package cycle

import (
	"math"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
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

// TestChoosesOther: consumers should have another variant once it has predicted better, also in place of the refit, and
// an update of the same one never.
func TestChoosesOther(t *testing.T) {
	u := publisher{race: updates.NewVariantSelector(), comparison: updates.NewUpdateComparison()}
	u.deltas = &updates.DeltaStream{Form: mixture.FormFoldIn}
	for _, form := range []mixture.Variant{mixture.FormFoldIn, mixture.FormTrees} {
		u.deltas.Forms[form] = new(updates.DeltaEncoder)
	}
	var losses [mixture.NumForms]float64
	for f := range losses {
		losses[f] = math.NaN()
	}
	for i := range 3000 {
		u.deltas.Published = i%2 == 0
		switch got := u.choosesOther(); {
		case i > 200 && i < 500 && got:
			t.Fatalf("asked at %d, where the refit is best", i)
		case i > 1700 && i < 2000 && got == u.deltas.Published:
			t.Fatalf("asked %t at %d, where the fold-in is best", got, i)
		case i > 2900 && !got:
			t.Fatalf("not asked at %d, where trees are best", i)
		}
		by := 0.1 * math.Sin(float64(i))
		losses[mixture.FormFoldIn], losses[mixture.FormTrees] = 0.6+by, 0.7
		if i >= 500 {
			losses[mixture.FormFoldIn] = 0.2 + by
		}
		if i >= 2000 {
			losses[mixture.FormTrees] = -1.5
		}
		u.comparison.Add(losses[mixture.FormFoldIn], 0.5, math.Inf(1))
		u.race.Add(&losses, 0.5, math.Inf(1))
	}
}
