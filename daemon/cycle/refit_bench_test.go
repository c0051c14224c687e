package cycle

import (
	"fmt"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/cycle/cycletest"
)

// BenchmarkRefitNumbers refits a model of numbers and many classes from nothing, and again from there: 2,000 training
// rows.
func BenchmarkRefitNumbers(b *testing.B) {
	for _, s := range []struct{ d, classes, spots int }{{21, 40, 1}, {21, 40, 3}, {2, 4, 40}} {
		b.Run(fmt.Sprintf("%dx%d/spots=%d", s.d, s.classes, s.spots), func(b *testing.B) {
			m := cycletest.NumericModel(s.d, s.classes)
			m.Train.MaxBasis = 20
			events := cycletest.Spots(1, 2500, s.d, s.classes, s.spots)
			b.ResetTimer()
			for range b.N {
				c, err := New(m, time.Now)
				if err != nil {
					b.Fatal(err)
				}
				ch, err := c.Refit(b.Context(), sampleOf(events))
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(*ch.Version.Gate.Accuracy), "accuracy")
			}
		})
	}
}
