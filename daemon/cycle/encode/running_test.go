package encode

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestLocationOutlivesOutliers: one value in fifty is a million times too large, among the first ones, too; location
// and scale stay those of the others within a tenth of the scale. A scale that changes for good is followed.
func TestLocationOutlivesOutliers(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, from := range []int{0, 5, 500} {
		var l Location
		outliers, found := 0, 0
		for i := range 20_000 {
			v := 1000 + 3*r.NormFloat64()
			if i >= from && i%50 == from%50 {
				v *= 1e6
				if i > 2*FirstValues {
					outliers++
					if l.beyond(v) {
						found++
					}
				}
			}
			l.Add(v)
			if mean, scale := l.Of(); i > 200 && (math.Abs(mean-1000) > 1.5 || scale < 2 || scale > 6) {
				t.Fatalf("outliers from %d, value %d: location %g, scale %g; without outliers 1000 and 3", from, i,
					mean, scale)
			}
		}
		if found != outliers || outliers == 0 {
			t.Errorf("%d of %d outliers found", found, outliers)
		}
		for range 20_000 {
			l.Add(-5000 + 100*r.NormFloat64())
		}
		if mean, scale := l.Of(); math.Abs(mean+5000) > 500 || scale < 50 || scale > 2000 {
			t.Errorf("after a change to -5000 and 100: location %g, scale %g", mean, scale)
		}
	}
}

// TestLocationIsMeanAndDeviation: of values without outliers, and of constants, indicators and extreme magnitudes every
// standardised value is finite.
func TestLocationIsMeanAndDeviation(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	var l Location
	for range 10_000 {
		l.Add(7 + 0.01*r.NormFloat64())
	}
	if mean, scale := l.Of(); math.Abs(mean-7) > 1e-3 || math.Abs(scale-0.01) > 1e-3 {
		t.Errorf("location %g, scale %g", mean, scale)
	}
	for name, draw := range map[string]func() float64{
		"constant":  func() float64 { return 0.1 },
		"zero":      func() float64 { return 0 },
		"indicator": func() float64 { return float64(r.IntN(50) / 49) },
		"rare":      func() float64 { return float64(r.IntN(20)/19) * math.Exp(r.NormFloat64()) },
		"large":     func() float64 { return 1e15 * r.NormFloat64() },
		"small":     func() float64 { return 3e-308 * r.Float64() },
	} {
		var l Location
		for i := range 2000 {
			v := draw()
			z := l.Standardise(v, NumberReach)
			if math.IsNaN(z) || math.Abs(z) > NumberReach || name == "constant" && i > 0 && math.Abs(z) > 1e-6 {
				t.Fatalf("%s: %g is %g in units", name, v, z)
			}
			l.Add(v)
		}
		if low, high := (&NumberScale{Label: &l, Limited: true}).Labels(); name == "rare" &&
			(low > -5 || high < 10 || high > 100) {
			t.Errorf("rare amounts are limited to %g and %g", low, high)
		}
		if name == "indicator" && l.Standardise(1, NumberReach)-l.Standardise(0, NumberReach) < 1 {
			t.Errorf("an indicator's ends are %g apart", l.Standardise(1, NumberReach)-l.Standardise(0, NumberReach))
		}
	}
}
