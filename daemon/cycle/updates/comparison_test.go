package updates

import (
	"testing"

	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/guard"
)

// TestHugeLossesOfARareClassTell: an update that is sure and wrong on one event in 500 is left, though it gains a
// little on all others.
func TestHugeLossesOfARareClassTell(t *testing.T) {
	l, limit := UpdateComparison{Scale: evaluate.Fading{Rate: UpdateFade}}, guard.SupportedLogOdds(5000)
	for i := range 20_000 {
		if i%500 == 0 {
			l.Add(1976, 6, limit)
		} else {
			l.Add(0.0001, 0.002, limit)
		}
	}
	if l.Prefers(true, false) {
		t.Errorf("updates are preferred, mean %g units, standard error %g", l.Sum/l.N, l.deviation())
	}
}
