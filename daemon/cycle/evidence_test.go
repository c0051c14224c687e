package cycle

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// squaredErrors returns the squared errors of two predictors of noisy labels whose errors are those of a common guess and their own, the first one's
// own being larger; with tails a label in fifty is ten times as noisy.
func squaredErrors(r *rand.Rand, n int, worse float64, tails bool) *scores {
	s := &scores{}
	for range n {
		noise := r.NormFloat64()
		if tails && r.IntN(50) == 0 {
			noise *= 10
		}
		common := noise + 0.3*r.NormFloat64()
		a, b := common+(0.3+worse)*r.NormFloat64(), common+0.3*r.NormFloat64()
		s.loss, s.against = append(s.loss, a*a), append(s.against, b*b)
	}
	return s
}

func (s *scores) first(n int) *scores { return &scores{loss: s.loss[:n], against: s.against[:n]} }

// TestGateErrors: of models that are equally good fewer than gateError are taken for worse, looked at as often as the rows double, without any
// tolerance; with that of the configuration hardly one. Models whose loss is greater by 9 and by 28 % are found out as often as said.
func TestGateErrors(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	const trials = 400
	for _, tails := range []bool{false, true} {
		r := rand.New(rand.NewPCG(7, 7))
		wrong, tolerated := 0, 0
		for range trials {
			all, chosen := squaredErrors(r, 3200, 0, tails), squaredErrors(r, 200, 0, tails)
			any, most := false, false
			for n := 200; n <= 3200; n *= 2 {
				strict, lax := all.first(n).compare(all.first(n).all(), 0, chosen), all.first(n).compare(all.first(n).all(), 0.002, chosen)
				any, most = any || strict.isWorse(1), most || lax.isWorse(1)
			}
			wrong, tolerated = wrong+b2i(any), tolerated+b2i(most)
		}
		if wrong > gateError*trials || tolerated > wrong {
			t.Errorf("tails %t: %d of %d equal models are worse at some look, %d with a tolerance", tails, wrong, trials, tolerated)
		}
		for _, c := range []struct {
			worse float64
			rows  int
			least float64
		}{{0.15, 400, 0.08}, {0.15, 3200, 0.95}, {0.35, 200, 0.4}, {0.35, 800, 0.98}} {
			found, loss, against := 0, 0.0, 0.0
			for range trials {
				s, chosen := squaredErrors(r, c.rows, c.worse, tails), squaredErrors(r, 200, c.worse, tails)
				v := s.compare(s.all(), 0.002, chosen)
				found, loss, against = found+b2i(v.isWorse(1)), loss+v.loss, against+v.against
			}
			t.Logf("tails %t: worse by %.1f %%, %d rows: found %.3f", tails, 100*(loss/against-1), c.rows, float64(found)/trials)
			if least := c.least; !tails && float64(found) < least*trials {
				t.Errorf("worse by %.1f %%, %d rows: %d of %d found", 100*(loss/against-1), c.rows, found, trials)
			}
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestOneRowDecidesNothing: however wrong a model is on a few rows, infinitely or not a number, that does not make it worse, nor does it excuse one
// that is worse on all others.
func TestOneRowDecidesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, outlier := range []float64{1e4, 1e18, math.Inf(1), math.NaN()} {
		for _, rows := range []int{20, 2000} {
			good, bad := squaredErrors(r, rows, 0, false), squaredErrors(r, rows, 3, false)
			chosen := squaredErrors(r, 200, 0, false)
			for i := range 5 {
				good.loss[i], bad.against[i] = outlier, outlier
			}
			if c := good.compare(good.all(), 0, chosen); c.isWorse(1) || math.IsNaN(c.evidence) {
				t.Errorf("%g on 5 of %d rows: evidence %g", outlier, rows, c.evidence)
			}
			if c := bad.compare(bad.all(), 0, chosen); rows > 20 && !c.isWorse(1) {
				t.Errorf("the other's %g on 5 of %d rows: evidence %g", outlier, rows, c.evidence)
			}
		}
	}
	if c := (&scores{}).compare((&scores{}).all(), 0, &scores{}); c.evidence != 1 || c.isWorse(1) {
		t.Errorf("evidence of no rows: %+v", c)
	}
}

// The capital is what bets one after the other leave, in whatever order; rows that count nothing change nothing.
func TestEvidenceByDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	s, chosen := squaredErrors(r, 300, 0.1, true), squaredErrors(r, 150, 0.1, true)
	for i := range s.loss {
		s.weights = append(s.weights, float64(i%3))
	}
	on := r.Perm(300)[:200]
	clip := clipOf(chosen.excess(0.01))
	want := 0.0
	for _, share := range bets {
		capital := 1.0
		for _, i := range on {
			capital += capital * share * float64(i%3) / 2 * min(max((s.loss[i]-1.01*s.against[i])/clip, -1), 1)
		}
		want += capital / float64(len(bets))
	}
	if got := s.compare(on, 0.01, chosen).evidence; math.Abs(got-want) > 1e-9*want {
		t.Errorf("evidence %g, by definition %g", got, want)
	}
}

// TestRareLabelIsNoOutlier: of two models of a label that one event in 200 has, the one that says more of it has the smaller loss and is not shown to be
// worse, the one that says nothing of it is.
func TestRareLabelIsNoOutlier(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	draw := func(n int) *scores {
		s := &scores{}
		for i := range n {
			one, p, q := i%200 == 7, 0.006+0.001*r.Float64(), 0.002+0.001*r.Float64()
			if one {
				p, q = 0.2, 0.002
			}
			loss := func(p float64) float64 {
				if one {
					return -math.Log(p)
				}
				return -math.Log1p(-p)
			}
			s.loss, s.against, s.ones = append(s.loss, loss(p)), append(s.against, loss(q)), append(s.ones, one)
		}
		return s
	}
	gate, chosen := draw(4000), draw(2000)
	if c := gate.compare(gate.all(), 0.002, chosen); c.loss > c.against || c.isWorse(1) {
		t.Errorf("the better model: loss %.4f for %.4f, evidence %g that it is worse", c.loss, c.against, c.evidence)
	}
	gate.loss, gate.against, chosen.loss, chosen.against = gate.against, gate.loss, chosen.against, chosen.loss
	if c := gate.compare(gate.all(), 0.002, chosen); !c.isWorse(1) {
		t.Errorf("the worse model: loss %.4f for %.4f, evidence %g that it is worse", c.loss, c.against, c.evidence)
	}
}

// TestFewOfALabelTellNoStage: select rows with next to none of one binary label choose no stage.
func TestFewOfALabelTellNoStage(t *testing.T) {
	for _, test := range []struct {
		ones, rows int
		task       event.Task
		tells      bool
	}{{0, 150, event.Binary, false}, {4, 150, event.Binary, false}, {5, 150, event.Binary, true}, {147, 150, event.Binary, false},
		{0, 150, event.Regression, true}} {
		j := &refitJob{target: new(Target), select_: &encoded{events: make([]event.Event, test.rows)}}
		j.target.Task = test.task
		for i := range test.ones {
			j.select_.events[i].Label = 1
		}
		if j.selectTells() != test.tells {
			t.Errorf("%d of %d rows of %s: tells is %t", test.ones, test.rows, test.task, !test.tells)
		}
	}
}
