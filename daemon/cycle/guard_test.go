package cycle

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// attack is a stretch of events that says nothing of the events that a clean consumer asks about.
type attack struct {
	name string
	draw func(clean []event.Event, i int) event.Event
}

var attacks = []attack{
	{"stuck producer", func(clean []event.Event, _ int) event.Event { return clean[0] }},
	{"one label", func(clean []event.Event, i int) event.Event {
		ev := clean[i%len(clean)]
		ev.Label = 1
		return ev
	}},
	{"one entity", func(clean []event.Event, i int) event.Event {
		ev := clean[i%len(clean)]
		if len(ev.Categorical) > 0 {
			ev.Categorical = append([]string{"one"}, ev.Categorical[1:]...)
		}
		ev.Label = 1
		return ev
	}},
}

// halves makes binary labels of levels: above 3, or not.
func halves(seed uint64, n int) []event.Event {
	events := stream(seed, n)
	for i := range events {
		above := events[i].Label > 3
		if events[i].Label = 0; above {
			events[i].Label = 1
		}
	}
	return events
}

// cleanLoss returns the mean loss of what consumers have on events, and the largest magnitude of an output.
func cleanLoss(c *Cycle, events []event.Event) (loss, largest float64) {
	return c.lossOf(&c.published.frozen, events)
}

// liveLoss is cleanLoss of what serve.live answers with: the live model, or what consumers have where it is held back.
func liveLoss(t *testing.T, c *Cycle, events []event.Event) (loss, largest float64, heldBack HeldBack) {
	t.Helper()
	m, heldBack, err := c.Live(time.UnixMilli(1), time.Time{}, "")
	if err != nil {
		t.Fatal(err)
	}
	of := c.published.frozen
	if heldBack == "" {
		of.after = m
	}
	loss, largest = c.lossOf(&of, events)
	return loss, largest, heldBack
}

func (c *Cycle) lossOf(of *frozen, events []event.Event) (loss, largest float64) {
	s := c.published.scorerOf(of)
	for i := range events {
		c.target.Encode(c.targets, &events[i])
		s.outputs(c.outputs, &events[i])
		for _, o := range c.outputs {
			largest = max(largest, math.Abs(o))
		}
		o := c.target.outcome(&events[i], c.outputs, c.targets)
		loss += o.judged(c.target.IsNumeric()) / float64(len(events))
	}
	return loss, largest
}

// publishNext gives consumers what NextUpdate returns.
func publishNext(c *Cycle) {
	if u, _ := c.NextUpdate(); u != nil {
		c.PublishUpdate(u)
	}
}

// TestFloodsDoNotReachConsumers: whatever a stuck producer, one label for an hour or one entity for an hour teach the live model, a clean consumer's
// loss stays within a bound at every moment, that of what serve.live answers too, and outputs stay within what the refit supports.
func TestFloodsDoNotReachConsumers(t *testing.T) {
	for _, test := range []struct {
		name   string
		model  *config.Model
		events func(seed uint64, n int) []event.Event
	}{
		{"ordinal", ratingsModel(nil), stream},
		{"regression", ratingsModel(func(m *config.Model) { m.Schema.Task, m.Schema.Levels = "regression", 0 }), stream},
		{"binary", ratingsModel(func(m *config.Model) { m.Schema.Task, m.Schema.Levels = "binary", 0 }), halves},
		{"numbers", switchModel(), numbers},
	} {
		for _, a := range attacks {
			t.Run(test.name+"/"+a.name, func(t *testing.T) {
				events := test.events(3, 4000)
				before, clean := events[:3000], events[3000:]
				c := newCycle(t, test.model)
				observeAll(c, before[:2000])
				c.Install(refit(t, c, sampleOf(before[:2000])))
				refitted, _ := cleanLoss(c, clean)
				for i := 2000; i < 3000; i += 200 {
					publishNext(c)
					observeAll(c, before[i:i+200])
				}
				start, largest := cleanLoss(c, clean)
				worst, worstLive, liveHeldBack := start, 0.0, 0
				for i := range 20_000 {
					if i%500 == 0 {
						live, mostLive, heldBack := liveLoss(t, c, clean)
						publishNext(c)
						loss, most := cleanLoss(c, clean)
						worst, worstLive, largest = max(worst, loss), max(worstLive, live), max(largest, most, mostLive)
						if heldBack != "" {
							liveHeldBack++
						}
					}
					ev := a.draw(before, i)
					c.Observe(&ev, true, Position{Topic: "t", Offset: int64(3000 + i)}, nil, nil)
				}
				if worst > floodBound*max(start, refitted) {
					t.Errorf("a clean consumer's loss went from %.4f to %.4f, of the refit alone it is %.4f", start, worst, refitted)
				}
				if worstLive > floodBound*max(start, refitted) {
					t.Errorf("the loss of what serve.live answers went from %.4f to %.4f, of the refit alone it is %.4f", start, worstLive, refitted)
				}
				if limit := c.champion.Version.OutputLimit; limit != nil && largest > float64(*limit) {
					t.Errorf("an output of magnitude %.1f, the refit supports %.1f", largest, float64(*limit))
				}
				t.Logf("loss %.4f, at worst %.4f, of serve.live %.4f; outputs at most %.1f; %d updates held back, live %d times", start, worst, worstLive, largest,
					len(c.TakeHeldBack()), liveHeldBack)
			})
		}
	}
}

// TestLiveComesBack: after a flood serve.live answers with what consumers have, and with the live model again once that has learned enough of clean events.
func TestLiveComesBack(t *testing.T) {
	c := newCycle(t, ratingsModel(nil))
	events := stream(3, 10_000)
	observeAll(c, events[:2000])
	c.Install(refit(t, c, sampleOf(events[:2000])))
	heldBack := func() HeldBack {
		_, _, why := liveLoss(t, c, events[:10])
		return why
	}
	if why := heldBack(); why != "" {
		t.Fatalf("the live model is held back before the flood: %s", why.text())
	}
	for i := range 4000 {
		ev := attacks[1].draw(events[:2000], i)
		c.Observe(&ev, true, Position{Topic: "t", Offset: int64(2000 + i)}, nil, nil)
	}
	if heldBack() == "" {
		t.Fatal("the live model is served after 4,000 events of one label")
	}
	for i := 2000; heldBack() != ""; i += 200 {
		if i == len(events) {
			t.Fatal("the live model is still held back after 8,000 clean events")
		}
		observeAll(c, events[i:i+200])
	}
}

// floodBound is how many times the loss of its refit a clean consumer sees at worst: guardMargin, two standard errors on the 200 held-out rows of the
// test, and what the clean events differ from these.
const floodBound = 1.5

// TestDeltasThatTurnBadLeadBack: a chain of deltas that comes to be worse than its refit ends, and consumers get the refit again, or an update that is no
// worse.
func TestDeltasThatTurnBadLeadBack(t *testing.T) {
	m := ratingsModel(nil)
	m.Publish.Deltas = config.Deltas{Every: config.Duration(time.Second), MaxRows: 1000}
	c := newCycle(t, m)
	events := stream(3, 3000)
	observeAll(c, events[:2000])
	c.Install(refit(t, c, sampleOf(events[:2000])))
	for i := 2000; i < 3000; i += 250 {
		publishNext(c)
		observeAll(c, events[i:i+250])
	}
	if c.Following() == nil {
		t.Fatal("no deltas follow the update")
	}
	whole := ""
	for i := 0; i < 6000 && whole == ""; i++ {
		ev := attacks[1].draw(events, i)
		c.Observe(&ev, true, Position{Topic: "t", Offset: int64(3000 + i)}, nil, nil)
		if i%100 == 99 {
			whole = c.TakeDelta(c.now())
			for c.Delta() != nil {
				c.PublishDelta()
			}
		}
	}
	if len(c.TakeHeldBack()) == 0 {
		t.Fatalf("deltas of one label for 6,000 events were not held back: %q", whole)
	}
	chain := c.published.frozen
	u, reason := c.NextUpdate()
	if u == nil {
		t.Fatalf("no update: %s", reason)
	}
	c.PublishUpdate(u)
	if why := c.guard.judge(&c.published.frozen, &chain); why != "" {
		t.Errorf("what consumers are led back to is %s, compared with the last good delta", why.text())
	}
}

// TestUpdatesFollowAChange: where labels mean something else from one event to the next, the guard does not keep consumers on what was.
func TestUpdatesFollowAChange(t *testing.T) {
	c := newCycle(t, ratingsModel(nil))
	events, changed := stream(3, 2000), stream(4, 4000)
	observeAll(c, events)
	c.Install(refit(t, c, sampleOf(events)))
	publishNext(c)
	was, _ := cleanLoss(c, changed[3000:])
	for i := 0; i < 3000; i += 500 {
		observeAll(c, changed[i:i+500])
		publishNext(c)
	}
	if is, _ := cleanLoss(c, changed[3000:]); is > 0.7*was {
		t.Errorf("loss after the change %.4f, with updates %.4f", was, is)
	}
}

func TestReservoirIsCappedByEntity(t *testing.T) {
	var r reservoir
	for i := range 10_000 {
		r.add(guardRow{entity: fmt.Sprint(i % 200), payload: []byte{1}})
	}
	for range 10_000 {
		r.add(guardRow{entity: "one", payload: []byte{2}})
	}
	count := make(map[string]int)
	for _, row := range r.rows {
		count[row.entity]++
	}
	if len(r.rows) != guardSize || count["one"] > guardOfEntity {
		t.Errorf("%d rows, %d of one entity", len(r.rows), count["one"])
	}
	for entity, n := range r.count {
		if count[entity] != n {
			t.Errorf("entity %s has %d rows, counted %d", entity, count[entity], n)
		}
	}
	if r.add(guardRow{entity: "large", payload: make([]byte, guardRowBytes+1)}); r.count["large"] != 0 {
		t.Error("a row above the limit was kept")
	}
}

// TestVerdict: what passes and what does not, for the three sets.
func TestVerdict(t *testing.T) {
	rows := func(unseen, current float64) *rowDifferences {
		return &rowDifferences{n: 100, unseen: difference{mean: unseen, variance: 1e-4, against: 1}, current: difference{mean: current, variance: 1e-4, against: 1}}
	}
	few := rows(1, 1)
	few.n = guardLeast - 1
	beyond := rows(0, 0)
	beyond.beyond = true
	for name, test := range map[string]struct {
		held, recent, latest *rowDifferences
		same                 bool
		want                 HeldBack
	}{
		"as good":                     {rows(0, 0), rows(0, 0), rows(0, 0), true, ""},
		"within the margin":           {rows(0.16, 0.1), rows(0.1, 0.1), rows(0.1, 0.1), true, ""},
		"held-out rows":               {rows(0.2, 0.1), rows(0, 0), rows(0, 0), true, HeldBackHoldout},
		"no worse than what is there": {rows(0.2, 0), rows(0.2, 0), rows(0.2, 0), true, ""},
		"recent events":               {rows(0, 0), rows(0.2, 0.1), rows(0, 0), true, HeldBackWindow},
		"after a change":              {rows(1, 1), rows(1, 1), rows(-0.3, -0.3), true, ""},
		"one label":                   {rows(1, 1), rows(0, 0), rows(-0.3, -0.3), false, HeldBackHoldout},
		"latest events":               {rows(0, 0), rows(0, 0), rows(0.2, 0.1), true, HeldBackWindow},
		"few rows":                    {few, few, few, true, ""},
		"outputs":                     {rows(0, 0), beyond, rows(0, 0), true, HeldBackOutputs},
	} {
		if got := verdict(test.held, test.recent, test.latest, 0, test.same); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestScalesHaveFloors: a run of equal labels makes neither the unit of squares nor the error of a link next to nothing.
func TestScalesHaveFloors(t *testing.T) {
	c := newCycle(t, ratingsModel(nil))
	for range 100 {
		c.mixture.scale.add(0)
		c.mixture.slow.add(0)
	}
	if got := c.mixture.square(); got != leastDeviation*leastDeviation {
		t.Errorf("mean square %g of levels that are all predicted", got)
	}
	if l := newLevelLink(4, 1e-9); l.Slope > steepestLink {
		t.Errorf("slope %g", l.Slope)
	}
	numbers, targets := []float64{}, []float64{}
	for i := range 400 {
		numbers = append(numbers, float64(1+i%5)+0.4) // levels are separable
		for level := range 4 {
			targets = append(targets, map[bool]float64{true: 1, false: -1}[i%5 <= level])
		}
	}
	start := newLevelLink(4, 0.11)
	if l := start.fit(numbers, targets, nil); l.Slope > steepestLink || !slices.IsSorted(l.Threshold) {
		t.Errorf("slope %g, thresholds %v", l.Slope, l.Threshold)
	}
}

// TestHugeLossesOfARareClassTell: an update that is sure and wrong on one event in 500 is left, though it gains a little on all others.
func TestHugeLossesOfARareClassTell(t *testing.T) {
	l, limit := lag{scale: fading{rate: updateFade}}, supportedLogOdds(5000)
	for i := range 20_000 {
		if i%500 == 0 {
			l.add(1976, 6, limit)
		} else {
			l.add(0.0001, 0.002, limit)
		}
	}
	if l.prefers(true) {
		t.Errorf("updates are preferred, mean %g units, standard error %g", l.sum/l.n, l.deviation())
	}
}

func TestOutputLimit(t *testing.T) {
	c := newCycle(t, ratingsModel(nil))
	events := stream(1, 1000)
	observeAll(c, events)
	ch := refit(t, c, sampleOf(events))
	if limit := ch.Version.OutputLimit; limit == nil || float64(*limit) < guardOutputs*supportedLogOdds(ch.Version.Rows) {
		t.Fatalf("output limit %v of %d rows", limit, ch.Version.Rows)
	}
	c.Install(ch)
	wild := *ch.Model
	wild.Bias = slices.Clone(wild.Bias)
	for i := range wild.Bias {
		wild.Bias[i] = 1e4
	}
	observeAll(c, events[:200])
	if got := c.guard.judge(&frozen{model: &wild, vocab: ch.Vocabulary}, &c.published.frozen); got != HeldBackOutputs {
		t.Errorf("outputs of 10,000: %q", got)
	}
	low := report.Number(0.01)
	ch.Version.OutputLimit = &low
	contents := ch.Contents(c.config)
	contents.Meta.Created = time.Unix(1_700_000_000, 0)
	if _, err := snapshot.NewStore(t.TempDir()).Publish(t.Context(), "m", contents); err != nil {
		t.Errorf("golden events beyond the limit: %v", err)
	}
	c.Install(ch)
	var score Score
	p := c.NewPrescorer()
	p.Refresh()
	for i := range events[:50] {
		if p.Score(&score, &events[i]); slices.Max(score.outputs) > 0.01 || slices.Min(score.outputs) < -0.01 {
			t.Fatalf("outputs %v of what consumers have, the limit is %g", score.outputs, low)
		}
	}
	regression := newCycle(t, ratingsModel(func(m *config.Model) { m.Schema.Task, m.Schema.Levels = "regression", 0 }))
	if limit := outputLimit(&Champion{Target: regression.target, Version: report.Version{Rows: 1}}); limit != nil {
		t.Errorf("limit %v of numbers", *limit)
	}
}
