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
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// publicModel is a model of ratings of so many users that each is an entity.
func publicModel(change func(*config.Model)) *config.Model {
	return ratingsModel(func(m *config.Model) {
		m.Evaluate.Window = 5000
		if change != nil {
			change(m)
		}
	})
}

// public draws ratings of 400 users and 60 items.
func public(seed uint64, n int) []event.Event {
	r := rand.New(rand.NewPCG(seed, 48))
	users, items := make([]float64, 400), make([]float64, 60)
	for _, list := range [][]float64{users, items} {
		for i := range list {
			list[i] = 0.5 * r.NormFloat64()
		}
	}
	events := make([]event.Event, n)
	for i := range events {
		u, v := r.IntN(len(users)), r.IntN(len(items))
		if v == 7 && r.IntN(8) > 0 {
			v = 8
		}
		z := 3 + users[u] + items[v] + 0.5*r.NormFloat64()
		events[i] = event.Event{Label: math.Round(min(max(z, 1), 5)), Weight: 1, Time: int64(i), Categorical: []string{fmt.Sprint("u", u), fmt.Sprint("i", v)}}
	}
	return events
}

// knownUsers returns what is predicted of an item for known users in the mean: live, and by an update that is made
// now.
func knownUsers(c *Cycle, item string) (live, update float64) {
	const users = 200
	forms := c.forms(false)
	u := c.update(&forms)
	scorer := newScorer(u.Model, u.Vocabulary)
	outputs := make([]float64, c.target.Outputs())
	for i := range users {
		ev := &event.Event{Label: 3, Weight: 1, Categorical: []string{fmt.Sprint("u", i), item}}
		c.learner.outputs(outputs, ev)
		c.mixture.predict(ev, outputs, nil, c.companions)
		live += c.mixture.value() / users
		scorer.outputs(outputs, ev)
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
	events := public(1, 9000)
	const attacks = 4000
	run := func(share float64, between, attacked bool) (live, update float64) {
		c := newCycle(t, publicModel(func(m *config.Model) { m.Train.Cap.Share = share }))
		observeAll(c, events[:4000])
		c.Install(refit(t, c, sampleOf(events[:4000])))
		observeAll(c, events[4000:5000])
		var then []event.Event
		for i := range attacks {
			if attacked {
				then = append(then, event.Event{Label: 1, Weight: 1, Time: 5000, Categorical: []string{"invented", "i7"}})
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
			t.Errorf("between others %t: from %.2f to %.2f live, from %.2f to %.2f in updates", between, live, movedLive, update, movedUpdate)
		}
		_, update = run(0, between, false)
		if _, moved := run(0, between, true); math.Abs(moved-update) < 2*mostMoved {
			t.Errorf("between others %t, no cap: from %.2f to %.2f in updates: the attack shows nothing", between, update, moved)
		}
	}
}

// mixed returns what of a cycle all events share, as JSON.
func mixed(t *testing.T, c *Cycle) string {
	t.Helper()
	var weights, means []float64
	for i := range c.mixture.parts {
		weights = append(weights, c.mixture.parts[i].weight)
	}
	for _, b := range c.mixture.baselines {
		if m, ok := b.(*conditional); ok {
			means = append(means, m.all...)
		}
	}
	b, err := json.Marshal([]any{weights, means, c.sgd.global, c.lag.n, c.lag.sum, c.progressive.window(), c.levels.excess})
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
	events := public(2, 5000)
	c := newCycle(t, publicModel(nil))
	at := int64(0)
	observe := func(events ...event.Event) {
		for i := range events {
			at++
			c.Observe(&events[i], true, Position{Topic: "t", Offset: at}, AppendEvent(nil, &events[i]), nil)
		}
	}
	observe(events[:4000]...)
	c.Install(refit(t, c, sampleOf(events[:4000])))
	if u, reason := c.NextUpdate(); u != nil {
		t.Fatalf("an update before any event: %s", reason)
	}
	observe(events[4000:]...)
	flood := func(n int) (list []event.Event) {
		for i := range n {
			list = append(list, event.Event{Label: 5, Weight: 1, Time: 5000, Categorical: []string{"heavy", fmt.Sprint("i", i%60)}})
		}
		return list
	}
	own := func() float64 {
		outputs := make([]float64, c.target.Outputs())
		c.learner.outputs(outputs, &event.Event{Categorical: []string{"heavy", "i1"}})
		return c.target.Value(outputs)
	}
	observe(flood(120)...)
	if c.Held(HeldEntity) != 20 {
		t.Errorf("%d of 120 events of one entity are beyond 1 %% of two windows of 5,000, want 20", c.Held(HeldEntity))
	}
	first, before, n := own(), mixed(t, c), c.progressive.sums.N
	for range 10 {
		observe(flood(60)...)
	}
	if after := mixed(t, c); after != before {
		t.Errorf("600 events beyond the cap change what all share:\n%s\n%s", before, after)
	}
	if c.progressive.sums.N != n+600 || c.progressive.sums.All[live].N != n+600 || c.progressive.window()[live].N != 5000 {
		t.Errorf("%d events are reported, and %d in the window", c.progressive.sums.N-n, c.progressive.window()[live].N)
	}
	if last := own(); !(last > first) || last < 4.5 {
		t.Errorf("the entity's own prediction went from %.2f to %.2f after 600 events more that say 5", first, last)
	}
	observe(public(3, 500)...)
	held := c.Held(HeldEntity)
	observe(flood(10)...)
	if got := c.Held(HeldEntity) - held; got < 4 || got > 6 {
		t.Errorf("%d of 10 events are held after 500 of others, want about 5", got)
	}
}

// TestFewNamesAreNoEntities: a field of fewer names than 1/share is not bounded, as where each has more than its
// share.
func TestFewNamesAreNoEntities(t *testing.T) {
	c := newCycle(t, ratingsModel(nil))
	observeAll(c, stream(1, 4000))
	for _, why := range HeldReasons {
		if c.Held(why) != 0 {
			t.Errorf("%d events of 60 users are held by %s", c.Held(why), why)
		}
	}
	for n, want := range map[int]float64{1: 1, 99: 1, 100: 0.04, 200: 0.02, 400: 0.01, 10_000: 0.01} {
		if got := shareOfEach(0.01, n); got != want {
			t.Errorf("%d names: a share of %g, want %g", n, got, want)
		}
	}
}

// TestIdentityIsLearnedOnce: an event that comes 20,000 times under one identity is learned once, by all parts,
// whatever comes between.
func TestIdentityIsLearnedOnce(t *testing.T) {
	tier.NotUnderRace(t)
	events := public(4, 3000)
	run := func(copies int) (*Cycle, string) {
		c := newCycle(t, publicModel(func(m *config.Model) { m.Schema.Identity = "id" }))
		at := int64(0)
		observe := func(ev event.Event) {
			at++
			c.ObserveAll([]Observation{{Event: &ev, Learn: true, Position: Position{Topic: "t", Offset: at}, Payload: AppendEvent(nil, &ev)}}, nil)
		}
		for i, ev := range events {
			ev.Identity = fmt.Sprint("e", i)
			if observe(ev); i < 1000 {
				continue
			}
			for range copies {
				observe(event.Event{Label: float64(1 + i%5), Weight: 1, Identity: "e0", Categorical: events[0].Categorical})
			}
		}
		return c, mixed(t, c)
	}
	once, want := run(0)
	again, got := run(10)
	if got != want {
		t.Errorf("20,000 copies of one identity change what is learned:\n%s\n%s", want, got)
	}
	if again.Held(HeldIdentity) != 20_000 || once.Held(HeldIdentity) != 0 {
		t.Errorf("%d and %d events came again, want 20,000 and 0", again.Held(HeldIdentity), once.Held(HeldIdentity))
	}
	if again.since.length != once.since.length {
		t.Errorf("%d events wait for the next refit, want %d", again.since.length, once.since.length)
	}
	a, b := make([]float64, 4), make([]float64, 4)
	for i := range events[:100] {
		once.learner.outputs(a, &events[i])
		if again.learner.outputs(b, &events[i]); !slices.Equal(a, b) {
			t.Fatalf("event %d: outputs %v, without copies %v", i, b, a)
		}
	}
}

// TestNegativesCountWithTheirChoice: the negatives of a choice, which are at its place in the log, are with it one
// event of its entity and of its identity.
func TestNegativesCountWithTheirChoice(t *testing.T) {
	m := publicModel(func(m *config.Model) { m.Schema.Identity = "id" })
	schema := m.Schema.Event()
	limits, counts := newEntityCap(m, &schema), new(counted)
	for _, ev := range public(9, 2000) {
		limits.take(counts, &ev, Position{})
	}
	for i := range 3 {
		for k := range 5 {
			ev := event.Event{Label: float64(k / 4), Identity: fmt.Sprint("e", i/2), Categorical: []string{"new", fmt.Sprint("i", 10*i+k)}}
			if limits.take(counts, &ev, Position{Topic: "t", Offset: int64(i)}); counts.isNone() != (i == 1) {
				t.Errorf("choice %d, row %d: left out %t", i, k, counts.isNone())
			}
		}
	}
	if at := limits.entities.find(0, "new"); limits.used[at].used > 2 || limits.held[HeldIdentity].Load() != 1 {
		t.Errorf("two choices with four negatives each count as %g events, %d came again", limits.used[at].used, limits.held[HeldIdentity].Load())
	}
}

// TestRecentIsBounded: what is remembered is the last so many keys at least, and twice as many at most.
func TestRecentIsBounded(t *testing.T) {
	r := newRecent[int](100)
	for i := range 10_000 {
		r.put(uint64(i), i)
		if n := len(r.now) + len(r.before); n > 200 {
			t.Fatalf("%d keys are remembered", n)
		}
		if v, ok := r.get(uint64(max(0, i-99))); !ok || v != max(0, i-99) {
			t.Fatalf("key %d is not remembered after key %d", max(0, i-99), i)
		}
	}
}

// flooded are events of which many are of one user, and of one user and item.
func flooded(seed uint64, n int) []event.Event {
	events, r := public(seed, n), rand.New(rand.NewPCG(seed, 49))
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
	ch := refit(t, newCycle(t, publicModel(nil)), sampleOf(events[:1000]))
	run := func(processors, chunk int) string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		c := newCycle(t, publicModel(nil))
		c.Install(ch)
		for i := 0; i < len(events); i += chunk {
			var all []Observation
			for k := i; k < min(i+chunk, len(events)); k++ {
				all = append(all, Observation{Event: &events[k], Learn: true, Position: Position{Topic: "t", Offset: int64(k)}})
			}
			c.ObserveAll(all, func(i int, value any) { t.Fatal(i, value) })
		}
		if c.Held(HeldEntity) == 0 || c.Held(HeldName) == 0 {
			t.Fatalf("%d events are beyond the share of all, %d of a name's", c.Held(HeldEntity), c.Held(HeldName))
		}
		var outputs []float64
		for i := range events[:200] {
			out := make([]float64, c.target.Outputs())
			c.learner.outputs(out, &events[i])
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
	c := newCycle(t, publicModel(nil))
	observeAll(c, events[:2000])
	ch := refit(t, c, sampleOf(events[:2000]))
	for i := 2000; i < len(events); i++ {
		c.Observe(&events[i], true, Position{Topic: "t", Offset: int64(i)}, AppendEvent(nil, &events[i]), nil)
	}
	want, targets := c.newLearner(ch.plain(&c.schema), c.learner), make([]float64, c.target.Outputs())
	c.Install(ch)
	for _, block := range c.since.blocks {
		for _, p := range block.events {
			var ev event.Event
			if err := DecodeEvent(&ev, p.payload, make(map[string]string)); err != nil {
				t.Fatal(err)
			}
			c.target.Encode(targets, &ev)
			want.gather(&ev)
			learnPart(want, &ev, targets, p.counts)
		}
	}
	a, b := make([]float64, 4), make([]float64, 4)
	held := 0
	for i := 2000; i < len(events); i++ {
		want.outputs(a, &events[i])
		if c.learner.outputs(b, &events[i]); !slices.Equal(a, b) {
			t.Fatalf("event %d: outputs %v after the installation, want %v", i, b, a)
		}
	}
	for _, block := range c.since.blocks {
		for _, p := range block.events {
			if p.counts != nil {
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
	events := public(7, 2000)
	for range 200 {
		events = append(events, event.Event{Label: 1, Weight: 1, Categorical: []string{"stuck", "i3"}})
	}
	c := newCycle(t, publicModel(nil))
	for i := range events {
		payload := AppendEvent(nil, &events[i])
		var err error
		if i < 1000 {
			err = c.Recall(payload, false, true)
		} else {
			err = c.Relearn(Position{Topic: "t", Offset: int64(i)}, payload, false)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if held := c.Held(HeldEntity); held != 100 {
		t.Errorf("%d of 200 rows of one entity are beyond its share, want 100", held)
	}
	c.Observe(&events[len(events)-1], true, Position{Topic: "t", Offset: int64(len(events))}, nil, nil)
	if held := c.Held(HeldEntity); held != 101 {
		t.Error("the first event after the rows counts")
	}
}

// TestGateRowsAreCapped: no entity has more than its share of the weight of gate rows, others keep theirs, and few
// names are no entities.
func TestGateRowsAreCapped(t *testing.T) {
	m := publicModel(nil)
	schema := m.Schema.Event()
	j := &refitJob{model: m, schema: &schema}
	rows := public(8, 2000)
	for range 1000 {
		rows = append(rows, event.Event{Categorical: []string{"stuck", "i3"}})
	}
	names := make(map[string]bool)
	for i := range rows {
		names[rows[i].Categorical[0]] = true
	}
	for _, weights := range [][]float64{nil, slices.Repeat([]float64{0.5}, len(rows))} {
		got := j.capEntities(weights, rows)
		one := 1.0
		if weights != nil {
			one = 0.5
		}
		stuck := 0.0
		for i, w := range got {
			if rows[i].Categorical[0] == "stuck" {
				stuck += w
			} else if w != one {
				t.Fatalf("a row of another entity has weight %g", w)
			}
		}
		if want := shareOfEach(0.01, len(names)) * one * 3000; math.Abs(stuck-want) > 1e-9 {
			t.Errorf("rows of one entity have %g, want %g", stuck, want)
		}
		if free := j.capEntities(weights, rows[:2000]); !slices.Equal(free, weights) {
			t.Error("rows of entities within their shares have other weights")
		}
	}
	if got := j.capEntities(nil, stream(1, 1000)); got != nil {
		t.Error("rows of 60 users are capped at 1 %")
	}
}
