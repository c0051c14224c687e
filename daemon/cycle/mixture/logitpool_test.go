package mixture

import (
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
)

// TestPoolSlopes compares the slope of the pool's log likelihood in the weights with differences. It compares the
// curvature for independent classes with differences of slopes.
func TestPoolSlopes(t *testing.T) {
	for _, link := range []string{format.Softmax, format.Logistic} {
		parts := []part{
			{Present: true, Value: []float64{0.2, 0.5, 0.3}},
			{Present: true, Value: []float64{0.6, 0.1, 0.3}},
			{Value: []float64{0, 0, 0}},
		}
		targets := []float64{-1, 1, -1}
		p := newLogitPool(len(parts), 3, link)
		p.experts.Losses = []float64{0, 1e3, 1e3, 1e3} // the one without a bias
		got := make([]float64, 3)
		slopes := func(weights ...float64) []float64 {
			copy(p.weights, weights)
			if !p.predict(got, parts) {
				t.Fatal("no prediction")
			}
			clear(p.curvature)
			p.derive(targets)
			return slices.Clone(p.slope)
		}
		loss := func() (sum float64) {
			for c, v := range got {
				if targets[c] > 0 {
					sum += math.Log(v)
				} else if link == format.Logistic {
					sum += math.Log1p(-v)
				}
			}
			return sum
		}
		const h = 1e-5
		at := []float64{0.4, 0.3, 0.2}
		slope, curvature := slopes(at...), slices.Clone(p.curvature)
		for i := range at {
			up, down := slices.Clone(at), slices.Clone(at)
			up[i], down[i] = at[i]+h, at[i]-h
			highSlope := slopes(up...)
			high := loss()
			lowSlope := slopes(down...)
			if want := (high - loss()) / (2 * h); math.Abs(want-slope[i]) > 1e-6 {
				t.Errorf("%s: slope %d is %g, by differences %g", link, i, slope[i], want)
			}
			for j := range i + 1 {
				if want := -(highSlope[j] - lowSlope[j]) / (2 * h); math.Abs(
					want-curvature[i*3+j]) > 1e-5+(1-poolFade)*poolRidge*float64(1-min(i-j, 1)) {
					t.Errorf("%s: curvature %d, %d is %g, by differences %g", link, i, j, curvature[i*3+j], want)
				}
			}
		}
	}
}
