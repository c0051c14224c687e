package posterior

import (
	"math"
	"testing"

	"github.com/refitd/refitd/solver/posterior/posteriortest"
)

// TestSharpen: a quadratic is that of the bound where a label surprises, or the output is within two standard
// deviations of 0, and from four on has the slope and the curvature of the loss.
func TestSharpen(t *testing.T) {
	loss := func(target, o float64) float64 { return softplus(-target * o) }
	for _, target := range []float64{-1, 1} {
		for _, at := range []float64{0, 1e-3, 0.3, 1, 2, 5, 12, 700} {
			for _, o := range []float64{at, -at} {
				for _, deviations := range []float64{1, 2, 3, 4, 5, math.Inf(1)} {
					deviation := at / deviations
					omega, slope := observeLogistic(false, target, o, deviation*deviation)
					bound, by := observeLogistic(true, target, o, deviation*deviation)
					if target*o <= 0 || deviations <= 2 {
						if omega != bound || slope != by {
							t.Errorf("label %g at %g ± %g: ω %g, slope %g, those of the bound are %g and %g", target, o,
								deviation, omega, slope, bound, by)
						}
						continue
					}
					p := 1 / (1 + math.Exp(target*o))
					if deviations == 3 {
						posteriortest.Nearly(t, "ω half way", omega, (bound+p*(1-p))/2, 1e-9)
						posteriortest.Nearly(t, "slope half way", slope, (by+target*p)/2, 1e-9)
						continue
					}
					h := 1e-4
					if d := (loss(target, o-h) - loss(target, o+h)) / (2 * h); math.Abs(slope-d) > 1e-7 {
						t.Errorf("label %g at %g ± %g: slope %g, by differences %g", target, o, deviation, slope, d)
					}
					posteriortest.Nearly(t, "ω", omega, p*(1-p), 1e-12)
				}
			}
		}
	}
}
