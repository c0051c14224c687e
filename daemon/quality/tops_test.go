package quality

import (
	"cmp"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/report"
)

// The errors are those of a ranking by sorting, ties included, whichever way the events are divided.
func TestTopsAgainstSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, classes := range []int{2, 3, 4, 5, 6, 10, 11, 26} {
		var first, second Tops
		missed := map[int]int64{}
		const events = 500
		for i := range events {
			outputs := make([]float64, classes)
			for c := range outputs {
				outputs[c] = float64(rng.IntN(2 * classes)) // some are equal
			}
			class := rng.IntN(classes)
			order := make([]int, classes)
			for c := range order {
				order[c] = c
			}
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(outputs[b], outputs[a]) })
			at := slices.Index(order, class)
			for _, top := range []int{3, 5, 10} {
				if at >= top {
					missed[top]++
				}
			}
			if place := Place(outputs, class); place != at+1 {
				t.Fatalf("class %d of %v has place %d, want %d", class, outputs, place, at+1)
			}
			half := &first
			if i%3 == 0 {
				half = &second
			}
			half.Add(Place(outputs, class))
		}
		first.Merge(&second)
		m := report.Metrics{N: events}
		first.AddTo(&m, classes)
		for top, got := range map[int]*report.Number{3: m.Top3Error, 5: m.Top5Error, 10: m.Top10Error} {
			if want := float64(missed[top]) / events; (got != nil) != (classes > top) ||
				got != nil && float64(*got) != want {
				t.Errorf("%d classes: error of the first %d is %v, want %g", classes, top, got, want)
			}
		}
		other := report.Metrics{N: events + 1}
		if first.AddTo(&other, classes); other.Top3Error != nil {
			t.Error("events without a ranking count as right")
		}
		b, err := json.Marshal(first)
		if err != nil {
			t.Fatal(err)
		}
		var back Tops
		if err := json.Unmarshal(b, &back); err != nil || back != first {
			t.Errorf("%s reads back as %+v (%v)", b, back, err)
		}
	}
	for class := range 3 {
		if outputs := []float64{math.NaN(), math.NaN(), math.NaN()}; Place(outputs, class) != 3 {
			t.Errorf("class %d of outputs that are no numbers has place %d, want the last", class,
				Place(outputs, class))
		}
	}
}
