package encode

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
)

// TestJoinFourier: a joint map has the columns of both, but for their length, of values within the clip of both; maps
// of other kinds are not joined.
func TestJoinFourier(t *testing.T) {
	a := format.NewFourier(20, 1, []format.MapScaling{{Center: 3, Scale: 2}, {Center: -1, Scale: 0.5}})
	b := format.NewFourier(30, 2, []format.MapScaling{{Center: 4, Scale: 1.5}, {Center: 0, Scale: 0.7}})
	joint := JoinFourier(a, b)
	if err := joint.ValidateShape(2); err != nil {
		t.Fatal(err)
	}
	if err := joint.Validate(); err != nil {
		t.Fatal(err)
	}
	r, got, want := rand.New(rand.NewPCG(1, 1)), make([]float64, 50), make([]float64, 30)
	for range 100 {
		numbers := []float64{-1 + 8*r.Float64(), -2 + 3*r.Float64()}
		joint.Columns(got, numbers)
		for i, m := range []*format.FeatureMap{a, b} {
			m.Columns(want[:m.Count], numbers)
			for j := range m.Count {
				// Frequencies are rounded to 24 bits.
				if is := got[20*i+j] / joint.Amplitude() * m.Amplitude(); math.Abs(is-want[j]) > 1e-5 {
					t.Fatalf("map %d, column %d of %v: %g, want %g", i, j, numbers, is, want[j])
				}
			}
		}
	}
	if JoinFourier(a, format.NewProducts(a.Scaling)) != nil || JoinFourier(format.NewProducts(a.Scaling), a) != nil {
		t.Error("products were joined")
	}
}
