package drift

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// pairs are losses of what is live and of the last refit on an event that is as hard as said, without a change. shift
// is by how much the refit errs more after one.
var pairs = map[string]func(r *rand.Rand, hard, shift float64) (live, refit float64){
	"squares": func(r *rand.Rand, hard, shift float64) (live, refit float64) {
		e := hard * r.NormFloat64()
		return cycletest.Squared(e + 0.05*hard*r.NormFloat64()), cycletest.Squared(e + (0.1+shift)*r.NormFloat64())
	},
	"squares of heavy tails": func(r *rand.Rand, hard, shift float64) (live, refit float64) {
		e := hard * r.NormFloat64() / math.Sqrt(r.Float64())
		return cycletest.Squared(e + 0.05*hard*r.NormFloat64()), cycletest.Squared(e + (0.1+shift)*r.NormFloat64())
	},
	// What is live knows the chance of the hour.
	"log losses": func(r *rand.Rand, hard, shift float64) (live, refit float64) {
		chance := 0.25 * hard
		says, said := chance*math.Exp(0.1*r.NormFloat64()), 0.25*math.Exp(-shift+0.2*r.NormFloat64())
		if r.Float64() < chance {
			return -math.Log(says), -math.Log(said)
		}
		return -math.Log1p(-min(says, 0.99)), -math.Log1p(-min(said, 0.99))
	},
}

// TestNoAlarmOfARhythm: 300,000 losses of each kind in each of many rhythms raise no alarm, 10⁶ if long tests are asked
// for, with whatever part of the rhythm the stream begins. Without the excess losses alone would raise many.
func TestNoAlarmOfARhythm(t *testing.T) {
	t.Parallel()
	alone, events := 0, 300_000
	if tier.Asked(tier.Long) {
		events = 1_000_000
	}
	for kind, next := range pairs {
		for i, period := range []float64{1000, 5000, 25_000, 50_000, 100_000, 300_000} {
			for j, size := range []float64{0.2, 0.5, 0.8} {
				r, w, by := rand.New(rand.NewPCG(25, 1)), Watch{Detectors: []Detector{newLosses()}}, lossTest{}
				for n := range events {
					live, refit := next(r, 1+size*math.Sin(2*math.Pi*float64(n)/period+float64(2*i+j)), 0)
					if len(w.Learned(nil, live, refit)) > 0 {
						t.Fatalf("%s, period %g, %g of the mean: an alarm after %d events", kind, period, size, n+1)
					}
					if j == 1 && n+1 >= untested && by.add(live) {
						alone++
					}
				}
			}
		}
	}
	if alone == 0 {
		t.Error("losses alone raise no alarm either: the test shows nothing")
	}
}

// untested is how many events there are first in which losses alone are not tested.
const untested = driftRest - LossBlock*LossReference

// TestAlarmOfChangesInARhythm: losses that rise by a half, and the refit's by more, raise an alarm no later than 1.2
// times the events that losses alone take.
func TestAlarmWhereTheRefitLoses(t *testing.T) {
	t.Parallel()
	const before = 60_000
	for seed := range uint64(20) {
		r, w, by := rand.New(rand.NewPCG(25, seed)), Watch{Detectors: []Detector{newLosses()}}, lossTest{}
		joint, alone := 0, 0
		for n := range before + 20_000 {
			hard, shift := 1.0, 0.0
			if n >= before {
				hard, shift = math.Sqrt(1.5), 1.5
			}
			live, refit := pairs["squares"](r, hard, shift)
			if len(w.Learned(nil, live, refit)) > 0 && joint == 0 {
				joint = n - before
			}
			if n+1 >= untested && by.add(live) && alone == 0 {
				alone = n - before
			}
		}
		if joint <= 0 || alone <= 0 || float64(joint) > 1.2*float64(alone) {
			t.Errorf("stream %d: an alarm %d events after the change, by losses alone %d", seed, joint, alone)
		}
	}
}

// TestNoAlarmWithoutARefit: where there is no refit yet nothing that was learned can fail to hold.
func TestNoAlarmWithoutARefit(t *testing.T) {
	r, w := rand.New(rand.NewPCG(25, 4)), Watch{Detectors: []Detector{newLosses()}}
	for n := range 60_000 {
		loss := r.ExpFloat64()
		if n > 40_000 {
			loss *= 4
		}
		if len(w.Learned(nil, loss, math.NaN())) > 0 {
			t.Fatalf("an alarm after %d events", n+1)
		}
	}
}
