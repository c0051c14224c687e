package encode

import (
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/snapshot/format"
)

// TestScaleWithNames: numbers have their mean at 0 and what is farthest from it at 1, one value that all have is no
// scale, and none overflows.
func TestScaleWithNames(t *testing.T) {
	const most = math.MaxFloat64
	for _, test := range []struct{ values, want []float64 }{
		{[]float64{1, 2, 6}, []float64{3, 3}},
		{slices.Repeat([]float64{0.003467}, 999), []float64{0.003467, 1}},
		{[]float64{-most, 0, most}, []float64{0, most}},
		{[]float64{most, most / 2, most}, []float64{0.75 * most, 0.25 * most}},
		{nil, []float64{0, 1}},
	} {
		f := scaleOf("x", test.values, true)
		if math.Abs(f.Center-test.want[0]) > 1e-12*f.Scale || math.Abs(f.Scale-test.want[1]) > 1e-12*f.Scale {
			t.Errorf("%d values: center %g, scale %g, want %g", len(test.values), f.Center, f.Scale, test.want)
		}
	}
}

// TestScalesThatStillFit: numbers keep their scale from version to version until their values lie elsewhere.
func TestScalesThatStillFit(t *testing.T) {
	kept := format.NumericField{Name: "x", Center: 10, Scale: 20, Clip: 1}
	for _, test := range []struct {
		center, scale float64
		fits          bool
	}{{10, 20, true}, {11.9, 20, true}, {12.1, 20, false}, {10, 20.9, true}, {10, 21.1, false}, {10, 10.1, true}, {10, 9.9,
		false}, {math.NaN(), 20, false}} {
		now := format.NumericField{Name: "x", Center: test.center, Scale: test.scale, Clip: 1}
		if stillFits(&kept, &now) != test.fits {
			t.Errorf("values of center %g and scale %g: fits is %t", test.center, test.scale, !test.fits)
		}
	}
	schema, events := cycletest.TripsModel().Schema.Event(), cycletest.Trips(5, 3000)
	first := BuildVocabulary(&schema, events, false, 1000, nil, nil)
	second := BuildVocabulary(&schema, events[:2900], false, 1000, nil, first.Numeric)
	if fresh := BuildVocabulary(&schema, events[:2900], false, 1000, nil, nil); fresh.Numeric[0] == first.Numeric[0] ||
		second.Numeric[0] != first.Numeric[0] {
		t.Errorf("scale %+v, then %+v where %+v would be chosen anew", first.Numeric[0], second.Numeric[0],
			fresh.Numeric[0])
	}
}
