package train

import (
	"math"

	"github.com/refitd/refitd/daemon/report"
)

// ageBins is how many bins the histogram of ages has: the first of one event, each of the others twice as wide as the
// one before.
const ageBins = 32

// agesOf returns how many rows are how many events old: bins whose edges are powers of two, up to the last that is not
// empty.
func agesOf(ages []float64) *report.SampleAges {
	out := &report.SampleAges{Rows: make([]int64, ageBins)}
	last := 0
	for _, age := range ages {
		bin := min(max(0, math.Ilogb(max(age, 1))), ageBins-1)
		out.Rows[bin]++
		last = max(last, bin)
	}
	out.Rows = out.Rows[:last+1]
	return out
}
