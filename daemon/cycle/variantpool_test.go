package cycle

import (
	"math"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// TestAskedAgainLessAndLess: consumers that are far behind a variant ask for an update, each time after twice as many
// events; without a difference they do not. The variant is what they would get, as long as it is there.
func TestAskedAgainLessAndLess(t *testing.T) {
	var b behind
	s := &updates.Score{}
	for f := range s.Forms {
		s.Forms[f] = math.NaN()
	}
	s.Published.Loss = 0.7
	var asked []int
	for i := range 2000 {
		if i >= 200 {
			s.Forms[mixture.FormTrees] = 0.2 + 0.2*math.Sin(float64(i))
		}
		if b.add(s, math.NaN(), false); b.asks(false) {
			asked = append(asked, i)
		}
	}
	if len(asked) < 3 || len(asked) > 6 || asked[0] < 220 || asked[0] > 300 {
		t.Errorf("asked at events %v", asked)
	}
	for i := 2; i < len(asked); i++ {
		if asked[i]-asked[i-1] != 2*(asked[i-1]-asked[i-2]) {
			t.Errorf("asked at events %v", asked)
		}
	}
	all := func(mixture.Variant) bool { return true }
	if best, is := b.best(mixture.FormFoldIn, all); !is || best != mixture.FormTrees {
		t.Errorf("variant %d is best, %t", best, is)
	}
	if best, is := b.best(mixture.FormFoldIn, func(f mixture.Variant) bool { return f != mixture.FormTrees }); is {
		t.Errorf("variant %d is best without trees", best)
	}
	b.lags[mixture.FormBayes] = b.lags[mixture.FormTrees]
	for _, chosen := range []mixture.Variant{mixture.FormBayes, mixture.FormTrees} {
		if best, _ := b.best(chosen, func(mixture.Variant) bool { return true }); best != chosen {
			t.Errorf("variant %d is no better than %d", best, chosen)
		}
	}
	b.lags[mixture.FormBayes] = experts.Lag{}
	for range 500 {
		s.Forms[mixture.FormTrees] = s.Published.Loss
		b.add(s, math.NaN(), false)
	}
	if b.asks(false) {
		t.Error("asked without a difference")
	}
	if b = (behind{}); !b.asks(true) || b.asks(true) {
		t.Error("another variant is asked for at once, and again after a while")
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
