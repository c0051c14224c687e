package cycle

import (
	"fmt"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/experts"
)

// BenchmarkNames measures the learner on names alone: predict and learn.
func BenchmarkNames(b *testing.B) {
	for _, more := range []int{0, 7} {
		b.Run(fmt.Sprintf("fields=%d", 3+more), func(b *testing.B) {
			m := clicksModel(more)
			events := clicked(40_000, more, 1, 1)
			c := newCycle(b, m)
			l := experts.NewPairwise(&c.schema, c.target, m.Train.FoldIn.MaxRows)
			dst, target := make([]float64, 1), make([]float64, 1)
			step := func(i int) {
				l.Outputs(dst, &events[i])
				target[0] = 2*events[i].Label - 1
				l.Learn(&events[i], target, 1)
			}
			for i := range events[:experts.PairTrial+1] {
				step(i)
			}
			b.ReportAllocs()
			for i := range b.N {
				step(i % len(events))
			}
		})
	}
}
