package cycle

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestFormRace: the form that is chosen stays until another has lost less by a standard error, by the lags of each pair; then the best counts, if there is
// such a form.
func TestFormRace(t *testing.T) {
	r, rng := newFormRace(), rand.New(rand.NewPCG(16, 1))
	all, two := func(updateForm) bool { return true }, func(f updateForm) bool { return f <= formNumbers }
	run := func(n int, means [numForms]float64) {
		slow := r.pairs[formBefore][formNumbers]
		for range n {
			var losses [numForms]float64
			common := rng.NormFloat64()
			for f, mean := range means {
				losses[f] = mean + math.Abs(common) + 0.01*math.Abs(rng.NormFloat64())
			}
			r.add(&losses, 0)
			if !math.IsNaN(means[formBefore]) {
				slow.add(losses[formBefore], losses[formNumbers], 0)
			}
		}
		if got := r.pairs[formBefore][formNumbers]; got != slow {
			t.Errorf("compared %+v, want %+v", got, slow)
		}
	}
	choice := func(want updateForm, there func(updateForm) bool, why string) {
		t.Helper()
		if r.choose(there); r.chosen != want {
			t.Errorf("%s: %s is chosen, want %s", why, formParts[r.chosen], formParts[want])
		}
	}
	none := math.NaN()
	run(updateEvents-1, [numForms]float64{1, 0.5, 0.2, none, none, none, none, none})
	choice(formFoldIn, all, "too few events")
	run(10, [numForms]float64{1, 0.5, 0.2, none, none, none, none, none})
	choice(formBefore, all, "the best of two that are better")
	choice(formNumbers, two, "the best of those that there are")
	run(40_000, [numForms]float64{1, 1, none, none, none, none, none, none})
	r.chosen = formNumbers
	l := &r.pairs[formNumbers][formFoldIn]
	mean := l.sum / l.n
	l.sum += (0.5*l.deviation() - mean) * l.n
	choice(formNumbers, two, "another that is better by chance")
	r.chosen = formFoldIn
	l.sum = -l.sum
	choice(formFoldIn, two, "another that is better by chance, the other way round")
	r.chosen = formNumbers
	r.goOn(formNumbers)
	choice(formBefore, all, "what updates were made of goes on")
	if r.pairs[formBefore][formFoldIn].n != 0 || r.pairs[formNames][formBefore].n != 0 || l.n == 0 {
		t.Error("losses of another learner count")
	}
	r.chosen = formFoldIn
	r.goOn(formNumbers)
	choice(formFoldIn, all, "what updates were not made of goes on")
}

// TestChangeBeforeTheFirstRefit: what was learned before there was a version is no form of updates, even if a change was seen in it.
func TestChangeBeforeTheFirstRefit(t *testing.T) {
	tier.NotUnderRace(t)
	c, events := newCycle(t, ratingsModel(nil)), stream(5, 600)
	observeAll(c, events[:500])
	c.drift.alarm = c.drift.events
	c.Install(refit(t, c, sampleOf(events[:500])))
	if u, reason := c.NextUpdate(); u != nil || reason != FirstUpdate {
		t.Errorf("update %v, %q", u, reason)
	}
	observeAll(c, events[500:])
	c.guard = newGuard(c.target, -1, guardSize) // a hundred events after nothing has changed are no matter here
	if u, reason := c.NextUpdate(); u == nil {
		t.Error(reason)
	}
}

// TestUpdatesFromBeforeAChange: after a change of all items consumers go on with updates of the fold-in that a refit, most of whose rows are older, has
// replaced, as long as these predict better.
func TestUpdatesFromBeforeAChange(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	events := append(stream(5, 4000), stream(77, 3000)...)
	run := func(before bool) (loss float64, forms [numForms]int) {
		c := newCycle(t, ratingsModel(nil))
		c.blend = nil // which would hold it with others
		for i := 0; i < len(events); i += 100 {
			if i == 4200 {
				c.drift.alarm = c.drift.events
			}
			if i > 0 && i%1000 == 0 {
				c.Install(refit(t, c, sampleOf(events[:i])))
				if has := slices.ContainsFunc(c.companions, func(b *companion) bool { return b.name == partBefore }); has != (i > 4200) {
					t.Fatalf("event %d: the fold-in from before goes on: %t", i, has)
				}
				if !before {
					c.companions = slices.DeleteFunc(c.companions, func(b *companion) bool { return b.name == partBefore })
				}
			}
			if u, _ := c.NextUpdate(); u != nil {
				if c.PublishUpdate(u); i > 5000 && !u.again {
					forms[c.race.chosen]++
				}
				if u.Model.NumOutputs != 4 || !u.Model.IsFinite() || u.folded == nil {
					t.Fatalf("event %d: an update of %s with %d outputs", i, formParts[c.race.chosen], u.Model.NumOutputs)
				}
			}
			had := c.progressive.sums.All[published]
			observeAll(c, events[i:i+100])
			if i >= 5000 {
				loss += c.progressive.sums.All[published].Square - had.Square
			}
		}
		return loss, forms
	}
	with, made := run(true)
	without, other := run(false)
	if !(with < without) || made[formBefore] == 0 || other[formBefore] > 0 {
		t.Errorf("published loss %.1f with updates of the fold-in from before (%v), %.1f without (%v)", with, made, without, other)
	}
}
