package updates

import (
	"math"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
)

// TestAskedAgainLessAndLess: consumers that are far behind a variant ask for an update, each time after twice as many
// events; without a difference they do not. The variant is what they would get, as long as it is there.
func TestAskedAgainLessAndLess(t *testing.T) {
	var b Behind
	s := &Score{}
	for f := range s.Forms {
		s.Forms[f] = math.NaN()
	}
	s.Published.Loss = 0.7
	var asked []int
	for i := range 2000 {
		if i >= 200 {
			s.Forms[mixture.FormTrees] = 0.2 + 0.2*math.Sin(float64(i))
		}
		if b.Add(s, math.NaN(), false); b.Asks() {
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
	if best, is := b.Best(mixture.FormFoldIn, all); !is || best != mixture.FormTrees {
		t.Errorf("variant %d is best, %t", best, is)
	}
	if best, is := b.Best(mixture.FormFoldIn, func(f mixture.Variant) bool { return f != mixture.FormTrees }); is {
		t.Errorf("variant %d is best without trees", best)
	}
	b.Lags[mixture.FormBayes] = b.Lags[mixture.FormTrees]
	for _, chosen := range []mixture.Variant{mixture.FormBayes, mixture.FormTrees} {
		if best, _ := b.Best(chosen, func(mixture.Variant) bool { return true }); best != chosen {
			t.Errorf("variant %d is no better than %d", best, chosen)
		}
	}
	b.Lags[mixture.FormBayes] = experts.Lag{}
	for range 500 {
		s.Forms[mixture.FormTrees] = s.Published.Loss
		b.Add(s, math.NaN(), false)
	}
	if b.Asks() {
		t.Error("asked without a difference")
	}
}
