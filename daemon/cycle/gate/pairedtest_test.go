package gate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// squaredErrors returns the squared errors of two predictors of noisy labels whose errors are those of a common guess
// and their own, the first one's own being larger; with tails a label in fifty is ten times as noisy. The largest
// plausible loss is that of such labels.
func squaredErrors(r *rand.Rand, n int, worse float64, tails bool) *scores {
	s := &scores{most: 36}
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

func (s *scores) first(n int) *scores {
	return &scores{loss: s.loss[:n], against: s.against[:n], most: s.most}
}

// TestGateErrors: of models that are equally good fewer than gateError are taken for worse, looked at as often as the
// rows double, without any tolerance; with that of the configuration hardly one. Models whose loss is greater by 9 and
// by 28 % are found out as often as said.
func TestGateErrors(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	trials := tier.Size(200, 400)
	for _, tails := range []bool{false, true} {
		r := rand.New(rand.NewPCG(7, 7))
		wrong, tolerated := 0, 0
		for range trials {
			all, chosen := squaredErrors(r, 3200, 0, tails), squaredErrors(r, 200, 0, tails)
			any, most := false, false
			for n := 200; n <= 3200; n *= 2 {
				strict, lax := all.first(n).
					compare(all.first(n).all(), 0, chosen),
					all.first(n).
						compare(all.first(n).all(), 0.002, chosen)
				any, most = any || strict.isWorse(1), most || lax.isWorse(1)
			}
			wrong, tolerated = wrong+b2i(any), tolerated+b2i(most)
		}
		t.Logf("tails %t: %d of %d equal models are worse at some look, %d with a tolerance", tails, wrong, trials,
			tolerated)
		if float64(wrong) > gateError*float64(trials) || tolerated > wrong {
			t.Errorf("tails %t: %d of %d equal models are worse at some look, %d with a tolerance", tails, wrong,
				trials, tolerated)
		}
		for _, c := range []struct {
			worse        float64
			rows         int
			least, tails float64 // shares that are found out
		}{{0.15, 400, 0.12, 0.08}, {0.15, 3200, 0.97, 0.92}, {0.35, 200, 0.44, 0.34}, {0.35, 800, 0.98, 0.96}} {
			found, loss, against := 0, 0.0, 0.0
			for range trials {
				s, chosen := squaredErrors(r, c.rows, c.worse, tails), squaredErrors(r, 200, c.worse, tails)
				v := s.compare(s.all(), 0.002, chosen)
				found, loss, against = found+b2i(v.isWorse(1)), loss+v.loss, against+v.against
			}
			t.Logf("tails %t: worse by %.1f %%, %d rows: found %.3f", tails, 100*(loss/against-1), c.rows,
				float64(found)/float64(trials))
			least := c.least
			if tails {
				least = c.tails
			}
			if float64(found) < least*float64(trials) {
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

// TestOneRowDecidesNothing: however wrong a model is on a few rows, infinitely or not a number, that does not make it
// worse, nor does it excuse one that is worse on all others.
func TestOneRowDecidesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, outlier := range []float64{1e4, 1e18, math.Inf(1), math.NaN()} {
		for _, rows := range []int{20, 2000} {
			good, bad := squaredErrors(r, rows, 0, false), squaredErrors(r, rows, 3, false)
			chosen := squaredErrors(r, 200, 0, false)
			good.most, bad.most, chosen.most = 100, 100, 100
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
	s.most, chosen.most = 50, 50
	gain := 0.0
	for _, of := range []*scores{s, chosen} {
		for i := range of.loss {
			gain = max(gain, 1.01*min(of.against[i], 50)-min(of.loss[i], 50))
		}
	}
	want := 0.0
	for k := range nearStakes + farStakes {
		capital, weight := 1.0, nearWeight/nearStakes
		if k >= nearStakes {
			weight = (1 - nearWeight) / farStakes
		}
		for _, i := range on {
			excess := min(s.loss[i], 50) - 1.01*min(s.against[i], 50)
			capital *= 1 + min(largestStake/gain/math.Pow(2, float64(k))*excess*float64(i%3)/2, winShare)
		}
		want += weight * capital
	}
	if got := s.compare(on, 0.01, chosen).evidence; math.Abs(got-want) > 1e-9*want {
		t.Errorf("evidence %g, by definition %g", got, want)
	}
}

// TestRareLabelIsNoOutlier: of two models of a label that one event in 200 has, the one that says more of it has the
// smaller loss and is not shown to be worse, the one that says nothing of it is.
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
			s.loss, s.against = append(s.loss, loss(p)), append(s.against, loss(q))
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

// rareGains returns the losses of two models of n rows. A row of a class of the given rate costs the second model 6.2,
// and the first one less by gain. Every other row costs the first one more by up to 2·cost. rare says which rows are of
// the class.
func rareGains(r *rand.Rand, n int, rate, gain, cost float64) (s *scores, rare []bool) {
	s = &scores{most: 9}
	for range n {
		a, b := 0.0, 0.002+0.001*r.Float64()
		class := r.Float64() < rate
		if a = b + 2*cost*r.Float64(); class {
			a, b = 6.2-gain, 6.2
		}
		s.loss, s.against, rare = append(s.loss, a), append(s.against, b), append(rare, class)
	}
	return s, rare
}

func (s *scores) turned() *scores {
	return &scores{loss: s.against, against: s.loss, most: s.most, hidden: s.hidden}
}

// TestGateSeesRareGains: a model that gains on a rare class what it loses on other rows, or more, is shown to be worse
// in at most gateError of streams, over five looks. The cut mean of before found 92 % of the first ones worse. The
// other way round, a model that has forgotten the class is found out.
func TestGateSeesRareGains(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	const gain = 4.6
	trials := tier.Size(200, 400)
	for _, c := range []struct {
		rate, cost float64
		forgotten  float64 // least share of models that are found out that forgot the class, on 3,200 rows
	}{{0.005, 0.004, 0.2}, {0.005, 0.005 * gain, 0}, {0.001, 0.001 * gain, 0}, {0.02, 0.02 * gain, 0}, {0.02, 0.004,
		0.99}} {
		r := rand.New(rand.NewPCG(9, 9))
		wrong, forgot := 0, 0
		for range trials {
			all, rare := rareGains(r, 3200, c.rate, gain, c.cost)
			chosen, more := rareGains(r, 200, c.rate, gain, c.cost)
			seen, any := 0, false
			for _, is := range more {
				seen += b2i(is)
			}
			for n, from := 200, 0; n <= 3200; n, from = 2*n, n {
				for _, is := range rare[from:n] {
					seen += b2i(is)
				}
				s := all.first(n)
				if seen < LeastOfLabel {
					s.hidden = s.most
				}
				v := s.compare(s.all(), 0.002, chosen)
				any = any || v.isWorse(1)
			}
			wrong += b2i(any)
			v := all.turned().compare(all.all(), 0.002, chosen.turned())
			forgot += b2i(v.isWorse(1))
		}
		t.Logf("class of %g, cost %g: %d of %d shown worse at some look, %d found out that forgot it", c.rate, c.cost,
			wrong, trials, forgot)
		if float64(wrong) > gateError*float64(trials) || float64(forgot) < c.forgotten*float64(trials) {
			t.Errorf("class of %g, cost %g: %d of %d shown worse at some look, %d found out that forgot it", c.rate,
				c.cost, wrong, trials, forgot)
		}
	}
}

// TestHugeLossesWidenNoError: a model that is worse on all rows, and on a few of them as wrong as can be, is found out
// no later than without those; one that is as wrong as can be on one positive row in 100 is found out by them alone.
func TestHugeLossesWidenNoError(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	s, chosen := squaredErrors(r, 800, 0.35, false), squaredErrors(r, 200, 0.35, false)
	s.most, chosen.most = 1000, 1000
	without := s.compare(s.all(), 0.002, chosen)
	for i := range 4 {
		s.loss[i*100], s.against[i*100] = 1e15, 1
	}
	if with := s.compare(s.all(), 0.002, chosen); !without.isWorse(1) || with.evidence < without.evidence {
		t.Errorf("evidence %g, with huge losses %g", without.evidence, with.evidence)
	}
	odds := func(n int) *scores {
		s := &scores{most: 9}
		for i := range n {
			a, b := 1e-6, 0.005+0.001*r.Float64()
			if i%100 == 7 {
				a, b = 1976, 5
			}
			s.loss, s.against = append(s.loss, a), append(s.against, b)
		}
		return s
	}
	s = odds(3200)
	if c := s.compare(s.all(), 0.002, odds(200)); !c.isWorse(1) {
		t.Errorf("log odds of −1,976 on positive rows: evidence %g", c.evidence)
	}
}
