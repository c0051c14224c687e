package margin

import (
	"runtime"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver"
)

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestFootprint: a fit, from nothing and from the dual variables of another, takes no more than it says, nor far less
// from nothing: one that begins where another ended needs no step.
func TestFootprint(t *testing.T) {
	tier.NotUnderRace(t)
	for _, c := range []struct{ n, d, m int }{{4000, 12, 3}, {3000, 12, 26}, {2000, 60, 10}, {500, 800, 10}} {
		for _, kind := range []Kind{MaxHinge, WeightedUsunier} {
			loss := Loss{Kind: kind}
			if kind == WeightedUsunier {
				loss.Weights = []float64{0.6, 0.4}
			}
			p, s := planted(3, c.n, c.d, c.m, loss), settings(1)
			entries := (len(p.X.Index) + c.n - 1) / c.n
			var warm *solver.Warm
			for _, from := range []string{"nothing", "dual variables"} {
				before, most := heap(), int64(0)
				s.OnStep = func(solver.Step, *solver.Model) bool {
					most = max(most, heap()-before)
					return false
				}
				r := fitted(t, SVM{}, p, warm, s)
				said := Footprint(c.n, entries, c.d, c.m)
				if most > said+said/10 || warm == nil && 4*most < said {
					t.Errorf("%d rows of %d entries, %d columns, %d classes, %s, from %s: %d bytes, said to be %d", c.n,
						entries, c.d, c.m, kind, from, most, said)
				}
				warm = &solver.Warm{Model: r.Model, Dual: r.Dual}
			}
			runtime.KeepAlive(p)
		}
	}
}
