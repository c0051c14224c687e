package cycle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// steadyModel is ordinal with a place in addition to user and item, whose names forget as all do by default.
func steadyModel() *config.Model {
	return cycletest.RatingsModel(func(m *config.Model) {
		m.Schema.Categorical = []string{"user", "item", "place"}
		m.Train.FoldIn.By = []string{"user", "item", "place"}
	})
}

// inRuns is of users and items at six places, 40 events at one after the other: their labels have something in common
// each time that says nothing of the next.
// Places may change from the middle on, each of them for good.
func inRuns(n int, change bool) []event.Event {
	r := rand.New(rand.NewPCG(3, 9))
	events := make([]event.Event, n)
	var users [100]float64
	var items [60]float64
	for i := range users {
		users[i] = 0.5 * r.NormFloat64()
	}
	for i := range items {
		items[i] = 0.5 * r.NormFloat64()
	}
	mood, place := 0.0, 0
	for i := range events {
		if i%40 == 0 {
			if mood, place = 0.6*r.NormFloat64(), r.IntN(6); change {
				mood = 0
			}
		}
		effect := 0.4
		if change && i > n/2 {
			effect = -0.4
		}
		user, item := r.IntN(len(users)), r.IntN(len(items))
		label := 3.5 + users[user] + items[item] + mood + effect*float64(place-3) + 0.5*r.NormFloat64()
		events[i] = event.Event{Label: float64(min(max(int(label), 1), 5)), Weight: 1,
			Categorical: []string{fmt.Sprint("u", user), fmt.Sprint("i", item), fmt.Sprint("p", place)}}
	}
	return events
}

// TestUpdatesOfSteadyFields: rows of places follow what the last events there have in common, which is best for the
// next one and misleads until the next update. Updates have rows of places that forget nothing, and rows of users and
// items as they are mixed. Where places change for good updates come to be of rows that forget in all fields.
func TestUpdatesOfSteadyFields(t *testing.T) {
	tier.NotUnderRace(t)
	for _, changes := range []bool{false, true} {
		events := inRuns(8000, changes)
		c := newCycle(t, steadyModel())
		mixed := 0
		for i := 0; i < len(events); i += 200 {
			if i == 4000 {
				c.Install(mustRefit(t, c, sampleOf(events[:i])))
			}
			if u, _ := c.NextUpdate(); u != nil {
				if c.publisher.PublishUpdate(u); c.publisher.race.Chosen == mixture.FormMixed {
					mixed++
				}
			}
			observeAll(c, events[i:i+200])
		}
		if units, errors := c.publisher.race.Difference(mixture.FormMixed, mixture.FormNumbers); (mixed > 5) != changes ||
			math.Abs(errors) < 1 ||
			(units > 0) != changes {
			t.Errorf("%t: %d updates that forget in all fields, which are better by %g units, %g standard errors",
				changes, mixed, units, errors)
		}
		forms := c.ensemble.candidates(false)
		for j, f := range forms[mixture.FormMixed].Folded.Field {
			a, _ := forms[mixture.FormNumbers].Folded.Row(j)
			b, _ := forms[mixture.FormMixed].Folded.Row(j)
			if same := closeTo(a[0], b[0]); same != (f < 2) {
				t.Errorf("%t: name %d in field %d: weight %g, mixed %g", changes, j, f, a[0], b[0])
			}
		}
		for _, p := range c.Progressive().Parts {
			if want := p.Name == "refit" || p.Name == c.partOf(c.publisher.race.Chosen); p.InVersions != want {
				t.Errorf("%t: part %s is in versions: %t", changes, p.Name, p.InVersions)
			}
		}
	}
}

// TestSteadyFields: names of entities, the first field that forgets and that of the item mean, are mixed; without other
// fields that forget there is no form in which they do, and nothing is held for it.
func TestSteadyFields(t *testing.T) {
	sided := steadyModel()
	two, byUser := cycletest.RatingsModel(nil), steadyModel()
	byUser.Train.FoldIn.By = []string{"user"}
	for _, test := range []struct {
		m     *config.Model
		want  []bool
		forms int
	}{{sided, []bool{false, false, true}, 3}, {two, nil, 2}, {byUser, nil, 2}} {
		schema := test.m.Schema.Event()
		got := updates.NonForgettingFields(test.m, &schema)
		if (got == nil) != (test.want == nil) || NumVariants(test.m) != test.forms {
			t.Errorf("steady %v, want %v; %d further variants, want %d", got, test.want, NumVariants(test.m),
				test.forms)
		}
		for f, want := range test.want {
			if got[f] != want {
				t.Errorf("field %d is steady: %t", f, got[f])
			}
		}
	}
}
