package experts

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
)

// TestTreesAreExact compares neighbours found by the trees with those found by looking at all rows, bit by bit: of
// numbers with many ties, with names and without, over several turns of the ring. Most rows are not looked at.
func TestTreesAreExact(t *testing.T) {
	for fields := range 2 {
		m := cycletest.NumericModel(3, 3)
		target, err := encode.NewTarget(m, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(5, uint64(fields)))
		n := encode.NewNumberScale(3, target)
		l := newNeighbours(n, target, fields)
		l.window = 3000
		ev := &event.Event{Categorical: make([]string, fields)}
		byTree := [2][]float64{make([]float64, 3), make([]float64, 3)}
		seen, all := 0, 0
		for e := range 7000 {
			for f := range n.Z {
				if n.Z[f] = r.NormFloat64(); f < 2 {
					n.Z[f] = math.Round(2 * n.Z[f])
				}
			}
			for f := range fields {
				ev.Categorical[f] = fmt.Sprint(r.IntN(3))
			}
			l.Gather(ev)
			nearest := slices.Clone(l.nearest)
			copy(byTree[0], l.each[0])
			copy(byTree[1], l.each[1])
			l.nearest = l.nearest[:0]
			short := min(shortWindow, l.n)
			l.search(0, short)
			l.mean(l.each[0])
			l.search(short, l.n)
			l.mean(l.each[1])
			if !slices.Equal(nearest, l.nearest) || !slices.Equal(byTree[0], l.each[0]) ||
				!slices.Equal(byTree[1], l.each[1]) {
				t.Fatalf("%d names, event %d: by the trees %v and %v, of %v; of all rows %v and %v, of %v", fields, e,
					byTree[0], byTree[1], nearest, l.each[0], l.each[1], l.nearest)
			}
			class := make([]float64, 3)
			class[r.IntN(3)] = 1
			l.Learn(ev, class, 1)
			seen, all = seen+l.long.seen, all+l.long.tried*len(l.long.Rows)
		}
		if 4*seen > all {
			t.Errorf("%d names: %d of %d rows of the longer window were looked at", fields, seen, all)
		}
	}
}
