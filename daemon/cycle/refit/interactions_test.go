package refit_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// taggedModel is RatingsModel with a field that carries nothing before user and item, and one after.
func taggedModel() *config.Model {
	return cycletest.RatingsModel(
		func(m *config.Model) { m.Schema.Categorical = []string{"tag", "user", "item", "page"} })
}

// withTags draws names for the fields that taggedModel has more.
func withTags(events []event.Event) []event.Event {
	r := rand.New(rand.NewPCG(11, 11))
	for i := range events {
		c := events[i].Categorical
		events[i].Categorical = []string{fmt.Sprint("t", r.IntN(12)), c[0], c[1], fmt.Sprint("p", r.IntN(200))}
	}
	return events
}

// TestFieldsThatCarryNothing have linear weights alone, say so in the version and the manifest, and cost nothing: the
// gate loss is that of the model without them.
func TestFieldsThatCarryNothing(t *testing.T) {
	tier.NotUnderRace(t)
	plain, tagged := newCycle(t, cycletest.RatingsModel(nil)), newCycle(t, taggedModel())
	for _, n := range []int{4000, 6000, 9000} {
		without, with := mustRefit(t, plain, sampleOf(cycletest.Stream(5, n))), mustRefit(t, tagged,
			sampleOf(withTags(cycletest.Stream(5, n))))
		if got := with.Version.MainEffects; !slices.Equal(got, []string{"tag", "page"}) {
			t.Fatalf("%d events: fields with linear weights alone: %v", n, got)
		}
		if got := with.Contents(taggedModel()).Meta.MainEffects; !slices.Equal(got, with.Version.MainEffects) {
			t.Errorf("the manifest says %v", got)
		}
		if without.Version.MainEffects != nil {
			t.Errorf("two fields: %v have linear weights alone", without.Version.MainEffects)
		}
		if a, b := float64(*with.Version.Gate.RMSE), float64(*without.Version.Gate.RMSE); a > 1.02*b {
			t.Errorf("%d events: gate RMSE %.4f with fields that carry nothing, %.4f without", n, a, b)
		}
		if with.Gaussian == nil || !slices.Equal(with.Gaussian.MainOnly, with.Posterior.MainOnly) {
			t.Errorf("the expert has other fields with linear weights alone")
		}
		plain.Install(without)
		tagged.Install(with)
	}
}

// TestEntitiesInteractWhileNothingIsClear: where labels are noise, the fields that others are functions of interact,
// and their groups with them.
func TestEntitiesInteractWhileNothingIsClear(t *testing.T) {
	tier.NotUnderRace(t)
	c := newCycle(
		t,
		cycletest.RatingsModel(
			func(m *config.Model) { m.Schema.Categorical = []string{"user", "item", "age", "year", "tag"} }),
	)
	r := rand.New(rand.NewPCG(13, 13))
	events := withSides(cycletest.Stream(5, 3000))
	for i := range events {
		events[i].Label = float64(1 + r.IntN(5))
		events[i].Categorical[3], events[i].Categorical[4] = events[i].Categorical[4], fmt.Sprint("t", r.IntN(12))
	}
	ch := mustRefit(t, c, sampleOf(events))
	if want := []bool{false, false, false, false, true}; !slices.Equal(ch.Posterior.MainOnly, want) {
		t.Errorf("fields with linear weights alone: %v, want %v; groups %v", ch.Posterior.MainOnly, want,
			ch.Posterior.Group)
	}
}

// TestFieldThatBeginsToInteract: what had linear weights alone gets coordinates when its interaction becomes clear, and
// loses them when there is nothing left of it.
func TestFieldThatBeginsToInteract(t *testing.T) {
	tier.NotUnderRace(t)
	c := newCycle(t, taggedModel())
	draw := func(seed uint64, n int, user, item int) []event.Event {
		events := cycletest.Stream(seed, n)
		r := rand.New(rand.NewPCG(seed, 12))
		for i := range events {
			names := []string{"t", "u", "i", "p"}
			for f := range names {
				names[f] += fmt.Sprint(r.IntN(30))
			}
			names[user], names[item] = events[i].Categorical[0], events[i].Categorical[1]
			events[i].Categorical = names
		}
		return events
	}
	for _, round := range []struct {
		user, item int
		want       []string
	}{{1, 2, []string{"tag", "page"}}, {0, 3, []string{"user", "item"}}} {
		ch := mustRefit(t, c, sampleOf(draw(5, 5000, round.user, round.item)))
		if got := ch.Version.MainEffects; !slices.Equal(got, round.want) {
			t.Fatalf("fields with linear weights alone: %v, want %v", got, round.want)
		}
		if ch.Version.K == 0 {
			t.Errorf("no basis vector in addition to %v", round.want)
		}
		ch.Version.Version = 10 // tested again
		c.Install(ch)
	}
}
