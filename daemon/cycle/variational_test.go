package cycle

import (
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
)

// TestVectorsThatAreNamed: the variational stage has as many basis vectors as train.variational_basis says, whatever
// the rows, in cold refits and warm ones, and so have updates of it; without, their number goes by the rows.
func TestVectorsThatAreNamed(t *testing.T) {
	for vectors, want := range map[config.Vectors]int{0: 4, 9: 9} {
		m := cycletest.RatingsModel(func(m *config.Model) { m.Train.MaxBasis, m.Train.Variational = 12, vectors })
		c := newCycle(t, m)
		events := cycletest.Stream(5, 1200)
		for round := range 2 {
			observeAll(c, events)
			ch := mustRefit(t, c, sampleOf(events))
			if ch.Posterior == nil {
				t.Fatalf("%d named: refit %d has no variational stage", vectors, round)
			}
			if ch.Posterior.NumBasis != want {
				t.Errorf("%d named: %d vectors in refit %d, want %d", vectors, ch.Posterior.NumBasis, round, want)
			}
			c.Install(ch)
		}
	}
}
