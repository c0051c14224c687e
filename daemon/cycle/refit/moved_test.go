package refit_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/publish"
)

// agedModel is RatingsModel with a field that is a function of the user.
func agedModel() *config.Model {
	return cycletest.RatingsModel(func(m *config.Model) { m.Schema.Categorical = []string{"user", "item", "age"} })
}

// withAgeOfUser adds that field to events of stream.
func withAgeOfUser(events []event.Event) []event.Event {
	for i := range withSides(events) {
		events[i].Categorical = events[i].Categorical[:3]
	}
	return events
}

// moving are the ways of a refit whose versions operators move.
var moving = slices.Concat(stages, others, []stage{
	{"three fields", agedModel, func(n int) []event.Event { return withAgeOfUser(cycletest.Stream(5, n)) }},
	{"multilabel", func() *config.Model { return cycletest.ClassesModel(event.Multilabel, nil) },
		func(n int) []event.Event { return cycletest.ClassStream(event.Multilabel, n) }},
})

// alike are those whose versions are as those of another, but for the solver or the fields.
var alike = []string{"output, svrg, fixed lambda", "full", "fields that carry nothing", "convex_fm, numbers",
	"coordinate_descent", "frank_wolfe_svm over a basis"}

// TestRefitAfterAnOperatorsMove: whichever version an operator makes champion, a refit or an update, of every kernel,
// task and algorithm, the refits after it end with a model. One that cannot continue from that version starts from
// nothing and says why, and the one after it is warm again.
func TestRefitAfterAnOperatorsMove(t *testing.T) {
	tier.NotUnderRace(t)
	var cold atomic.Int64
	t.Cleanup(func() {
		if cold.Load() == 0 {
			t.Error("no version is one that refits cannot continue from")
		}
	})
	for _, s := range moving {
		t.Run(s.name, func(t *testing.T) {
			if slices.Contains(alike, s.name) {
				tier.Need(t, tier.Long)
			}
			t.Parallel()
			m := s.model()
			m.Publish.KeepSample = true
			some := tier.Size(150, 600)
			c, events, dir := newCycle(t, m), s.events(2*some+200), t.TempDir()
			most := events[:2*some]
			store := publish.NewStore(dir)
			publish := func(ch *fitted.Fitted) {
				contents := ch.Contents(m)
				contents.Meta.Created = time.Unix(1, 0)
				manifest, err := store.Publish(t.Context(), m.Name, contents)
				if err != nil {
					t.Fatal(err)
				}
				ch.Version.Version = manifest.Version
			}
			observeAll(c, events[:some])
			first := mustRefit(t, c, sampleOf(events[:some]))
			publish(first)
			c.Install(first)
			observeAll(c, events[some:2*some])
			for range 2 { // the first only begins to compare
				if u, _ := c.NextUpdate(); u != nil {
					publish(u)
					c.PublishUpdate(u)
				}
				observeAll(c, events[2*some:2*some+100])
			}
			versions, err := store.Versions(m.Name)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range versions {
				version, err := snapshot.Open(dir, m.Name, snapshot.Selector{Version: v})
				if err != nil {
					t.Fatal(err)
				}
				ch, err := fitted.FromSnapshot(m, version)
				if err != nil {
					t.Fatal(err)
				}
				ch.Chosen = true
				c.Adopt(ch)
				observeAll(c, events[2*some+100:])
				if u, why := c.NextUpdate(); u == nil && why == "" {
					t.Errorf("version %d: neither an update nor a reason", v)
				}
				next := mustRefit(t, c, sampleOf(most))
				says := strings.Contains(next.Version.Reason, "trained from nothing because version")
				if other := ch.Model.Kernel.String() != m.Train.Kernel && !m.Train.ConvexAlone(); other == next.Version.Warm ||
					other != says {
					t.Errorf("version %d of kernel %v: warm %t, and it says %q", v, ch.Model.Kernel, next.Version.Warm,
						next.Version.Reason)
				}
				if says {
					cold.Add(1)
				}
				repeated(t, next, m, 1)
				publish(next)
				c.Install(next)
				if after := mustRefit(t, c, sampleOf(most)); !after.Version.Warm {
					t.Errorf("version %d: the refit after it starts from nothing: %s", v, after.Version.Reason)
				}
			}
		})
	}
}

// TestRefitAfterAFailedOne: where a refit that continues from the champion fails for a reason that nobody foresaw,
// the next one starts from nothing.
func TestRefitAfterAFailedOne(t *testing.T) {
	m, events := cycletest.RatingsModel(func(m *config.Model) { m.Train.Refit = "output" }), cycletest.Stream(5, 1200)
	c := newCycle(t, m)
	observeAll(c, events[:600])
	ch := mustRefit(t, c, sampleOf(events[:600]))
	ch.Version.Version = 7
	c.Install(ch)
	ch.Model.Bias[0] = 1e300 // more than a warm start may have
	if _, err := c.Refit(t.Context(), sampleOf(events)); err == nil || !c.StartsCold() {
		t.Fatalf("error %v, and the next one starts from nothing: %t", err, c.StartsCold())
	}
	next := mustRefit(t, c, sampleOf(events))
	if next.Version.Warm ||
		!strings.Contains(next.Version.Reason,
			"trained from nothing because a refit that continued from version 7 failed") {
		t.Errorf("warm %t: %s", next.Version.Warm, next.Version.Reason)
	}
	c.Install(next)
	if after := mustRefit(t, c, sampleOf(events)); !after.Version.Warm || c.StartsCold() {
		t.Errorf("the one after it: warm %t, %s", after.Version.Warm, after.Version.Reason)
	}
}

// TestOtherFieldsAreNotAdopted: a version of other fields is none to continue from, also where there are as many.
func TestOtherFieldsAreNotAdopted(t *testing.T) {
	m := cycletest.RatingsModel(nil)
	ch := mustRefit(t, newCycle(t, m), sampleOf(cycletest.Stream(5, 400)))
	contents := ch.Contents(m)
	contents.Meta.Created = time.Unix(1, 0)
	dir := t.TempDir()
	manifest, err := publish.NewStore(dir).Publish(t.Context(), m.Name, contents)
	if err != nil {
		t.Fatal(err)
	}
	version, err := snapshot.Open(dir, m.Name, snapshot.Selector{Version: manifest.Version})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fitted.FromSnapshot(m, version); err != nil {
		t.Error(err)
	}
	turned := cycletest.RatingsModel(func(m *config.Model) { slices.Reverse(m.Schema.Categorical) })
	if _, err := fitted.FromSnapshot(turned, version); err == nil ||
		!strings.Contains(err.Error(), "has other fields than the configuration") {
		t.Errorf("error %v", err)
	}
}
