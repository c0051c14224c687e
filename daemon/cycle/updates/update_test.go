package updates

import (
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/evaluate"
)

// TestOneEventDoesNotDecideOnUpdates: after any number of events that prefer the refit or updates, an error beyond all
// bounds changes nothing, and its unit is of use again soon; while consumers have updates these may be worse by chance.
func TestOneEventDoesNotDecideOnUpdates(t *testing.T) {
	for _, outlier := range []float64{1e18, evaluate.WorstError} {
		l := UpdateComparison{Scale: evaluate.Fading{Rate: UpdateFade}}
		r := rand.New(rand.NewPCG(3, 3))
		worse := func(by float64, n int) {
			for range n {
				e := r.NormFloat64()
				l.Add(e*e+by*r.Float64(), e*e, 0)
			}
		}
		worse(0, UpdateEvents-1)
		if !l.Prefers(true, false) || !l.Prefers(false, false) {
			t.Error("updates need to prove themselves")
		}
		worse(0.2, 1000)
		l.Add(0, outlier, 0)
		worse(0.2, 1000)
		if l.Prefers(true, false) || l.Prefers(false, false) {
			t.Errorf("an outlier of %g lets updates be published that are worse", outlier)
		}
		worse(-0.2, 5000)
		l.Add(outlier, 0, 0)
		worse(-0.2, 100)
		if !l.Prefers(true, false) || !l.Prefers(false, false) {
			t.Errorf("an outlier of %g lets updates be held back that are better: %+v", outlier, l)
		}
	}
	l := UpdateComparison{Scale: evaluate.Fading{Rate: UpdateFade}}
	for i := range 2000 {
		l.Add(1+0.5*float64(1-2*(i%2)), 1, 0)
	}
	l.Add(1.2, 1, 0)
	if !l.Prefers(true, false) || l.Prefers(false, false) {
		t.Errorf("worse by chance: %v with updates, %v without", l.Prefers(true, false), l.Prefers(false, false))
	}
	l.Add(0.6, 1, 0)
	if !l.Prefers(true, false) || l.Prefers(false, false) {
		t.Errorf("better by chance: %v with updates, %v without", l.Prefers(true, false), l.Prefers(false, false))
	}
}

// TestTheFirstEventDoesNotDecideOnUpdates: of classes, an event that the refit was all but sure of sets no unit by
// which what updates lose on it counts for thousands of events.
func TestTheFirstEventDoesNotDecideOnUpdates(t *testing.T) {
	l, r := NewUpdateComparison(), rand.New(rand.NewPCG(1, 3))
	l.Add(9, 1e-6, 10)
	for range 400 {
		e := r.ExpFloat64()
		l.Add(0.3*e, e, 10)
	}
	if !l.Prefers(false, true) {
		t.Errorf("updates that lose a third are not taken up: %+v", l)
	}
}

// TestUpdatesOnCorrelatedLosses: updates that are neither better nor worse, by losses that stay for 40 events each, are
// taken for better by one standard error about as often as such an error says, 16 % of the time: single events would
// have it at nearly a half.
func TestUpdatesOnCorrelatedLosses(t *testing.T) {
	const seeds = 300
	taken := 0
	for seed := range uint64(seeds) {
		l, r, d := UpdateComparison{Scale: evaluate.Fading{Rate: UpdateFade}}, rand.New(rand.NewPCG(seed, 9)), 0.0
		for i := range 8000 {
			if i%40 == 0 {
				d = 0.3 * r.NormFloat64()
			}
			l.Add(1+d, 1, 0)
		}
		if l.Prefers(false, false) {
			taken++
		}
	}
	if taken < seeds/20 || taken > seeds/4 {
		t.Errorf("taken for better in %d of %d cases", taken, seeds)
	}
}

// TestVariantApartHasToBeBetter: a variant that is not made on the refit is taken up when it is surely better, and left
// when it is worse at all.
func TestVariantApartHasToBeBetter(t *testing.T) {
	l, r := NewUpdateComparison(), rand.New(rand.NewPCG(4, 4))
	gains := func(by float64, n int) {
		for range n {
			l.Add(1-by+0.5*r.NormFloat64(), 1, 0)
		}
	}
	if l.Prefers(false, true) || !l.Prefers(false, false) {
		t.Error("without events it is taken up, or the fold-in is not")
	}
	gains(0.001, 900)
	if l.Prefers(false, true) {
		t.Error("taken up without being better")
	}
	gains(0.1, 900)
	if !l.Prefers(false, true) || !l.Prefers(true, true) {
		t.Error("not taken up though it is better")
	}
	for l.Sum <= 0 {
		gains(-0.1, 1)
	}
	if l.Prefers(true, true) || !l.Prefers(true, false) {
		t.Error("kept though it is worse by now, or the fold-in is left for as little")
	}
}
