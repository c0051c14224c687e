package cycle

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/baselines"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// knownUsers returns what is predicted of an item for known users in the mean: live, and by an update that is made
// now.
func knownUsers(c *Cycle, item string) (live, update float64) {
	const users = 200
	forms := c.ensemble.candidates(false)
	u := c.update(&forms)
	scorer := fitted.NewScorer(u.Model, u.Vocabulary)
	outputs := make([]float64, c.target.Outputs())
	for i := range users {
		ev := &event.Event{Label: 3, Weight: 1, Categorical: []string{fmt.Sprint("u", i), item}}
		c.ensemble.learner.Outputs(outputs, ev)
		c.ensemble.combine(ev, outputs)
		live += c.ensemble.mixture.Value() / users
		scorer.Outputs(outputs, ev)
		update += u.Target.Value(outputs) / users
	}
	return live, update
}

// mostMoved is by how much one entity may move what is predicted of a rare item for others, in levels: some twenty
// events of others say 3 of it, and five in a row, and a tenth of those of others, say 1.
const mostMoved = 0.25

// TestOneEntityMovesLittle: an invented user who sends any number of events, at once or between those of others,
// moves what is predicted for others by no more than a few events may. Without a cap it is twice as much and more.
func TestOneEntityMovesLittle(t *testing.T) {
	tier.NotUnderRace(t)
	events := cycletest.Public(1, 9000)
	const attacks = 4000
	run := func(share float64, between, attacked bool) (live, update float64) {
		c := newCycle(t, cycletest.PublicModel(func(m *config.Model) { m.Train.Cap.Share = share }))
		observeAll(c, events[:4000])
		c.Install(refitOnce(t, fmt.Sprint("one entity, ", share), c, sampleOf(events[:4000])))
		observeAll(c, events[4000:5000])
		var then []event.Event
		for i := range attacks {
			if attacked {
				then = append(then,
					event.Event{Label: 1, Weight: 1, Time: 5000, Categorical: []string{"invented", "i7"}})
			}
			if between {
				then = append(then, events[5000+i])
			}
		}
		observeAll(c, then)
		return knownUsers(c, "i7")
	}
	for _, between := range []bool{false, true} {
		live, update := run(0.01, between, false)
		movedLive, movedUpdate := run(0.01, between, true)
		if math.Abs(movedLive-live) > mostMoved || math.Abs(movedUpdate-update) > mostMoved {
			t.Errorf("between others %t: from %.2f to %.2f live, from %.2f to %.2f in updates", between, live,
				movedLive, update, movedUpdate)
		}
		_, update = run(0, between, false)
		if _, moved := run(0, between, true); math.Abs(moved-update) < 2*mostMoved {
			t.Errorf("between others %t, no cap: from %.2f to %.2f in updates: the attack shows nothing", between,
				update, moved)
		}
	}
}

// mixed returns what of a cycle all events share, as JSON.
func mixed(t *testing.T, c *Cycle) string {
	t.Helper()
	var weights, means []float64
	for i := range c.ensemble.mixture.Parts {
		weights = append(weights, c.ensemble.mixture.Parts[i].Weight)
	}
	for _, b := range c.ensemble.mixture.Baselines {
		if m, ok := b.(*baselines.Conditional); ok {
			means = append(means, m.All...)
		}
	}
	b, err := json.Marshal(
		[]any{weights, means, c.ensemble.sgd.Global, c.publisher.comparison.N, c.publisher.comparison.Sum,
			c.progress.progressive.Window(), c.ensemble.levels.Excess},
	)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestBeyondTheCapNothingSharedLearns: events of an entity beyond its share change neither weights of the mixture,
// nor baselines of others, nor the window by which models are chosen, nor comparisons of updates; the entity itself
// is still learned, and reported losses are of all events.
func TestBeyondTheCapNothingSharedLearns(t *testing.T) {
	tier.NotUnderRace(t)
	events := cycletest.Public(2, 5000)
	c := newCycle(t, cycletest.PublicModel(nil))
	at := int64(0)
	observe := func(events ...event.Event) {
		for i := range events {
			at++
			c.Observe(&events[i], true, rows.Position{Topic: "t", Offset: at}, rows.AppendEvent(nil, &events[i]), nil)
		}
	}
	observe(events[:4000]...)
	c.Install(mustRefit(t, c, sampleOf(events[:4000])))
	if u, reason := c.NextUpdate(); u != nil {
		t.Fatalf("an update before any event: %s", reason)
	}
	observe(events[4000:]...)
	flood := func(n int) (list []event.Event) {
		for i := range n {
			list = append(list, event.Event{Label: 5, Weight: 1, Time: 5000 + at + int64(i), // copies of none
				Categorical: []string{"heavy", fmt.Sprint("i", i%60)}})
		}
		return list
	}
	own := func() float64 {
		outputs := make([]float64, c.target.Outputs())
		c.ensemble.learner.Outputs(outputs, &event.Event{Categorical: []string{"heavy", "i1"}})
		return c.target.Value(outputs)
	}
	observe(flood(120)...)
	if c.ensemble.Held(admission.HeldEntity) != 20 {
		t.Errorf("%d of 120 events of one entity are beyond 1 %% of two windows of 5,000, want 20",
			c.ensemble.Held(admission.HeldEntity))
	}
	first, before, n := own(), mixed(t, c), c.progress.progressive.Sums.N
	for range 10 {
		observe(flood(60)...)
	}
	if after := mixed(t, c); after != before {
		t.Errorf("600 events beyond the cap change what all share:\n%s\n%s", before, after)
	}
	if c.progress.progressive.Sums.N != n+600 || c.progress.progressive.Sums.All[evaluate.Live].N != n+600 ||
		c.progress.progressive.Window()[evaluate.Live].N != 5000 {
		t.Errorf("%d events are reported, and %d in the window", c.progress.progressive.Sums.N-n,
			c.progress.progressive.Window()[evaluate.Live].N)
	}
	if last := own(); !(last > first) || last < 4.5 {
		t.Errorf("the entity's own prediction went from %.2f to %.2f after 600 events more that say 5", first, last)
	}
	observe(cycletest.Public(3, 500)...)
	held := c.ensemble.Held(admission.HeldEntity)
	observe(flood(10)...)
	if got := c.ensemble.Held(admission.HeldEntity) - held; got < 4 || got > 6 {
		t.Errorf("%d of 10 events are held after 500 of others, want about 5", got)
	}
}

// TestFewNamesAreNoEntities: a field of fewer names than 1/share is not bounded, as where each has more than its
// share.
func TestFewNamesAreNoEntities(t *testing.T) {
	c := newCycle(t, cycletest.RatingsModel(nil))
	observeAll(c, cycletest.Stream(1, 4000))
	for _, why := range admission.HeldReasons {
		if c.ensemble.Held(why) != 0 {
			t.Errorf("%d events of 60 users are held by %s", c.ensemble.Held(why), why)
		}
	}
	for n, want := range map[int]float64{1: 1, 99: 1, 100: 0.04, 200: 0.02, 400: 0.01, 10_000: 0.01} {
		if got := admission.ShareOfEach(0.01, n); got != want {
			t.Errorf("%d names: a share of %g, want %g", n, got, want)
		}
	}
}

// TestIdentityIsLearnedOnce: an event that comes 20,000 times under one identity is learned once, by all parts,
// whatever comes between, and whatever names it has.
func TestIdentityIsLearnedOnce(t *testing.T) {
	tier.NotUnderRace(t)
	events := cycletest.Public(4, 3000)
	run := func(copies int) (*Cycle, string) {
		c := newCycle(t, cycletest.PublicModel(func(m *config.Model) { m.Schema.Identity = "id" }))
		at := int64(0)
		observe := func(ev event.Event) {
			at++
			c.ObserveAll(
				[]Observation{
					{
						Event:    &ev,
						Learn:    true,
						Position: rows.Position{Topic: "t", Offset: at},
						Payload:  rows.AppendEvent(nil, &ev),
					},
				},
				nil,
			)
		}
		for i, ev := range events {
			ev.Identity = fmt.Sprint("e", i)
			if observe(ev); i < 1000 {
				continue
			}
			for range copies {
				observe(
					event.Event{Label: events[0].Label, Weight: 1, Identity: "e0", Categorical: events[i%7].Categorical},
				)
			}
		}
		return c, mixed(t, c)
	}
	once, want := run(0)
	again, got := run(10)
	if got != want {
		t.Errorf("20,000 copies of one identity change what is learned:\n%s\n%s", want, got)
	}
	if again.ensemble.Held(admission.HeldIdentity) != 20_000 || once.ensemble.Held(admission.HeldIdentity) != 0 {
		t.Errorf("%d and %d events came again, want 20,000 and 0", again.ensemble.Held(admission.HeldIdentity),
			once.ensemble.Held(admission.HeldIdentity))
	}
	if again.backlog.Length != once.backlog.Length {
		t.Errorf("%d events wait for the next refit, want %d", again.backlog.Length, once.backlog.Length)
	}
	a, b := make([]float64, 4), make([]float64, 4)
	for i := range events[:100] {
		once.ensemble.learner.Outputs(a, &events[i])
		if again.ensemble.learner.Outputs(b, &events[i]); !slices.Equal(a, b) {
			t.Fatalf("event %d: outputs %v, without copies %v", i, b, a)
		}
	}
}

// flooded are events of which many are of one user, and of one user and item.
func flooded(seed uint64, n int) []event.Event {
	events, r := cycletest.Public(seed, n), rand.New(rand.NewPCG(seed, 49))
	for i := n / 2; i < n; i++ {
		switch r.IntN(4) {
		case 0:
			events[i].Categorical = []string{"stuck", "i3"}
		case 1:
			events[i].Categorical = []string{"busy", events[i].Categorical[1]}
		}
	}
	return events
}

// TestCapDoesNotDependOnProcessors: what is learned of a stream with floods is the same to the bit on one processor
// and on several, event by event and in runs.
func TestCapDoesNotDependOnProcessors(t *testing.T) {
	tier.NotUnderRace(t)
	events := flooded(5, 3000)
	ch := mustRefit(t, newCycle(t, cycletest.PublicModel(nil)), sampleOf(events[:1000]))
	run := func(processors, chunk int) string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		c := newCycle(t, cycletest.PublicModel(nil))
		c.Install(ch)
		for i := 0; i < len(events); i += chunk {
			var all []Observation
			for k := i; k < min(i+chunk, len(events)); k++ {
				all = append(all,
					Observation{Event: &events[k], Learn: true, Position: rows.Position{Topic: "t", Offset: int64(k)}})
			}
			c.ObserveAll(all, func(i int, value any) { t.Fatal(i, value) })
		}
		if c.ensemble.Held(admission.HeldEntity) == 0 || c.ensemble.Held(admission.HeldName) == 0 {
			t.Fatalf("%d events are beyond the share of all, %d of a name's", c.ensemble.Held(admission.HeldEntity),
				c.ensemble.Held(admission.HeldName))
		}
		var outputs []float64
		for i := range events[:200] {
			out := make([]float64, c.target.Outputs())
			c.ensemble.learner.Outputs(out, &events[i])
			outputs = append(outputs, out...)
		}
		return fmt.Sprint(mixed(t, c), outputs)
	}
	want := run(1, 1)
	for _, processors := range []int{1, 2, 4} {
		if got := run(processors, 200); got != want {
			t.Errorf("%d processors: %s, want %s", processors, got, want)
		}
	}
}

// TestInstallLearnsWhatCounted: the fold-in on a new refit learns of the events since its cut what counted of them,
// no more than the one before it.
func TestInstallLearnsWhatCounted(t *testing.T) {
	tier.NotUnderRace(t)
	events := flooded(6, 4000)
	c := newCycle(t, cycletest.PublicModel(nil))
	observeAll(c, events[:2000])
	ch := mustRefit(t, c, sampleOf(events[:2000]))
	for i := 2000; i < len(events); i++ {
		c.Observe(&events[i], true, rows.Position{Topic: "t", Offset: int64(i)}, rows.AppendEvent(nil, &events[i]), nil)
	}
	want, targets := c.ensemble.newLearner(ch.Plain(&c.schema), c.ensemble.learner), make([]float64, c.target.Outputs())
	c.Install(ch)
	for _, block := range c.backlog.Blocks {
		for _, p := range block.Events {
			var ev event.Event
			if err := rows.DecodeEvent(&ev, p.Payload, make(map[string]string)); err != nil {
				t.Fatal(err)
			}
			c.target.Encode(targets, &ev)
			want.Gather(&ev)
			experts.LearnPart(want, &ev, targets, p.Counts)
		}
	}
	a, b := make([]float64, 4), make([]float64, 4)
	held := 0
	for i := 2000; i < len(events); i++ {
		want.Outputs(a, &events[i])
		if c.ensemble.learner.Outputs(b, &events[i]); !slices.Equal(a, b) {
			t.Fatalf("event %d: outputs %v after the installation, want %v", i, b, a)
		}
	}
	for _, block := range c.backlog.Blocks {
		for _, p := range block.Events {
			if p.Counts != nil {
				held++
			}
		}
	}
	if held == 0 {
		t.Error("no event since the cut was held")
	}
}

// TestCapOverRestarts: rows that are learned again count as events did, so that a restart gives an entity no second
// share.
func TestCapOverRestarts(t *testing.T) {
	events := cycletest.Public(7, 2000)
	for i := range 200 {
		events = append(events, event.Event{Label: 1, Weight: 1, Categorical: []string{"stuck", fmt.Sprint("new", i)}})
	}
	c := newCycle(t, cycletest.PublicModel(nil))
	for i := range events {
		payload := rows.AppendEvent(nil, &events[i])
		var err error
		if i < 1000 {
			err = c.ensemble.Recall(payload, false, true)
		} else {
			err = c.Relearn(rows.Position{Topic: "t", Offset: int64(i)}, payload, false)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if held := c.ensemble.Held(admission.HeldEntity); held != 100 {
		t.Errorf("%d of 200 rows of one entity are beyond its share, want 100", held)
	}
	c.Observe(&events[len(events)-1], true, rows.Position{Topic: "t", Offset: int64(len(events))}, nil, nil)
	if held := c.ensemble.Held(admission.HeldEntity); held != 101 {
		t.Error("the first event after the rows counts")
	}
}
