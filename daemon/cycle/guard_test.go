package cycle

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/guard"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/publish"
)

// attack is an interval of events that says nothing of the events that a clean consumer asks about.
type attack struct {
	name string
	seed uint64 // of the events
	draw func(clean []event.Event, i int) event.Event
}

var oneLabel = attack{"one label", 3, func(clean []event.Event, i int) event.Event {
	ev := clean[i%len(clean)]
	ev.Label = 1
	ev.Time += int64(i+1) << 32 // a copy of none
	return ev
}}

var attacks = []attack{
	{"stuck producer", 3, func(clean []event.Event, _ int) event.Event { return clean[0] }},
	{"a pair of events in turn", 3, func(clean []event.Event, i int) event.Event {
		first := clean[0]
		second := clean[slices.IndexFunc(clean, func(ev event.Event) bool { return ev.Label != first.Label })]
		first.Label, second.Label = second.Label, first.Label
		return []event.Event{first, second}[i%2]
	}},
	oneLabel,
	{"one label for half of the events", 5, func(clean []event.Event, i int) event.Event {
		if i%2 == 0 {
			return oneLabel.draw(clean, i)
		}
		return clean[i%len(clean)]
	}},
	{"one entity", 3, func(clean []event.Event, i int) event.Event {
		ev := clean[i%len(clean)]
		if len(ev.Categorical) > 0 {
			ev.Categorical = append([]string{"one"}, ev.Categorical[1:]...)
		}
		ev.Label = 1
		return ev
	}},
	{"forty events in turn, with labels of others", 3, func(clean []event.Event, i int) event.Event {
		ev := clean[i%40]
		ev.Label = clean[100+i%40].Label
		return ev
	}},
	{"new entities with one label", 3, func(clean []event.Event, i int) event.Event {
		ev := oneLabel.draw(clean, i)
		if len(ev.Categorical) > 0 {
			ev.Categorical = append([]string{fmt.Sprint("new", i)}, ev.Categorical[1:]...)
		}
		return ev
	}},
	{"log sent again", 5, func(clean []event.Event, i int) event.Event { return clean[i%len(clean)] }},
	{"a hundred events sent again", 3, func(clean []event.Event, i int) event.Event { return clean[i%100] }},
	{"events sent again, labels of others", 6, func(clean []event.Event, i int) event.Event {
		ev := clean[i%300]
		ev.Label = clean[(i%300+1+i/300*17)%len(clean)].Label
		return ev
	}},
	{"no item, or one number", 3, func(clean []event.Event, i int) event.Event {
		ev := clean[i%len(clean)]
		if n := len(ev.Categorical); n > 0 {
			ev.Categorical = append(slices.Clone(ev.Categorical[:n-1]), "none")
		} else {
			ev.Numeric = clean[0].Numeric
		}
		return ev
	}},
}

// halves makes binary labels of levels: above 3, or not.
func halves(seed uint64, n int) []event.Event {
	events := cycletest.Stream(seed, n)
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
	return c.lossOf(&c.publisher.published.Load().FixedModel, events)
}

// liveLoss is cleanLoss of what serve.live answers with: the live model, or what consumers have where it is held back.
func liveLoss(t *testing.T, c *Cycle, events []event.Event) (loss, largest float64, heldBack guard.HeldBack) {
	t.Helper()
	m, heldBack, err := c.Live(time.UnixMilli(1), time.Time{}, "")
	if err != nil {
		t.Fatal(err)
	}
	of := c.publisher.published.Load().FixedModel
	if heldBack == "" {
		of.After = m
	}
	loss, largest = c.lossOf(&of, events)
	return loss, largest, heldBack
}

func (c *Cycle) lossOf(of *fitted.FixedModel, events []event.Event) (loss, largest float64) {
	s := scorerOf(c.publisher.published.Load(), of)
	for i := range events {
		c.target.Encode(c.ensemble.targets, &events[i])
		s.Outputs(c.ensemble.outputs, &events[i])
		for _, o := range c.ensemble.outputs {
			largest = max(largest, math.Abs(o))
		}
		o := evaluate.Outcome(c.target, &events[i], c.ensemble.outputs, c.ensemble.targets)
		loss += o.Judged(c.target.IsNumeric()) / float64(len(events))
	}
	return loss, largest
}

// publishNext gives consumers what NextUpdate returns.
func publishNext(c *Cycle) {
	if u, _ := c.NextUpdate(); u != nil {
		c.publisher.PublishUpdate(u)
	}
}

// TestFloodsDoNotReachConsumers: whatever a stuck producer, one label for an hour or one entity for an hour teach the
// live model, a clean consumer's loss stays within a bound at every moment, that of what serve.live answers too, and
// outputs stay within what the refit supports. Updates come each 250 events: when half of the latest ones are of the
// flood. The plain form is the first 3,000 events of the flood, and a quarter of the floods for each model.
func TestFloodsDoNotReachConsumers(t *testing.T) {
	for at, test := range []struct {
		name   string
		model  *config.Model
		events func(seed uint64, n int) []event.Event
	}{
		{"ordinal", cycletest.RatingsModel(nil), cycletest.Stream},
		{"regression", cycletest.RatingsModel(func(m *config.Model) { m.Schema.Task, m.Schema.Levels = "regression", 0 }),
			cycletest.Stream},
		{"binary", cycletest.RatingsModel(func(m *config.Model) { m.Schema.Task, m.Schema.Levels = "binary", 0 }), halves},
		{"numbers", switchModel(), cycletest.Numbers},
	} {
		for n, a := range attacks {
			t.Run(test.name+"/"+a.name, func(t *testing.T) {
				if (at+n)%4 != 0 {
					tier.Need(t, tier.Long)
				}
				events := test.events(a.seed, 4000)
				before, clean := events[:3000], events[3000:3000+tier.Size(500, 1000)]
				c := newCycle(t, test.model)
				observeAll(c, before[:2000])
				c.Install(refitOnce(t, fmt.Sprint("floods, ", test.name, a.seed), c, sampleOf(before[:2000])))
				refitted, _ := cleanLoss(c, clean)
				for i := 2000; i < 3000; i += 200 {
					publishNext(c)
					observeAll(c, before[i:i+200])
				}
				start, largest := cleanLoss(c, clean)
				worst, worstLive, liveHeldBack := start, 0.0, 0
				for i := range tier.Size(3000, 20_000) {
					if i%250 == 0 {
						live, mostLive, heldBack := liveLoss(t, c, clean)
						publishNext(c)
						loss, most := cleanLoss(c, clean)
						worst, worstLive, largest = max(worst, loss), max(worstLive, live), max(largest, most, mostLive)
						if heldBack != "" {
							liveHeldBack++
						}
					}
					ev := a.draw(before, i)
					c.Observe(&ev, true, rows.Position{Topic: "t", Offset: int64(3000 + i)}, nil, nil)
				}
				if worst > floodBound*max(start, refitted) {
					t.Errorf("a clean consumer's loss went from %.4f to %.4f, of the refit alone it is %.4f", start,
						worst, refitted)
				}
				if worstLive > floodBound*max(start, refitted) {
					t.Errorf(
						"the loss of what serve.live answers went from %.4f to %.4f, of the refit alone it is %.4f",
						start, worstLive, refitted)
				}
				if limit := c.champion.Version.OutputLimit; limit != nil && largest > float64(*limit) {
					t.Errorf("an output of magnitude %.1f, the refit supports %.1f", largest, float64(*limit))
				}
				t.Logf(
					"loss %.4f, at worst %.4f, of serve.live %.4f; outputs at most %.1f; %d updates held back, live %d times",
					start,
					worst,
					worstLive,
					largest,
					len(c.publisher.TakeHeldBack()),
					liveHeldBack,
				)
			})
		}
	}
}

// TestLiveComesBack: after a flood serve.live answers with what consumers have, and with the live model again once that
// has learned enough of clean events.
func TestLiveComesBack(t *testing.T) {
	c := newCycle(t, cycletest.RatingsModel(nil))
	events := cycletest.Stream(3, 10_000)
	observeAll(c, events[:2000])
	c.Install(mustRefit(t, c, sampleOf(events[:2000])))
	heldBack := func() guard.HeldBack {
		_, _, why := liveLoss(t, c, events[:10])
		return why
	}
	if why := heldBack(); why != "" {
		t.Fatalf("the live model is held back before the flood: %s", why.Text())
	}
	for i := range 4000 {
		ev := oneLabel.draw(events[:2000], i)
		c.Observe(&ev, true, rows.Position{Topic: "t", Offset: int64(2000 + i)}, nil, nil)
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

// floodBound is how many times the loss of its refit a clean consumer sees at worst: guardMargin, two standard errors
// on the 200 held-out rows of the test, and what the clean events differ from these.
const floodBound = 1.5

// TestDeltasThatTurnBadLeadBack: a chain of deltas that comes to be worse than its refit ends, and consumers get the
// refit again, or an update that is no worse.
func TestDeltasThatTurnBadLeadBack(t *testing.T) {
	m := cycletest.RatingsModel(nil)
	m.Publish.Deltas = config.Deltas{Every: config.Duration(time.Second), MaxRows: 1000}
	c := newCycle(t, m)
	events := cycletest.Stream(3, 3500)
	events, clean := events[:3000], events[3000:]
	observeAll(c, events[:2000])
	c.Install(mustRefit(t, c, sampleOf(events[:2000])))
	refitted, _ := cleanLoss(c, clean)
	for i := 2000; i < 3000; i += 250 {
		publishNext(c)
		observeAll(c, events[i:i+250])
	}
	if c.publisher.Following() == nil {
		t.Fatal("no deltas follow the update")
	}
	whole := ""
	for i := 0; i < 6000 && whole == ""; i++ {
		ev := oneLabel.draw(events, i)
		c.Observe(&ev, true, rows.Position{Topic: "t", Offset: int64(3000 + i)}, nil, nil)
		if i%100 == 99 {
			whole = c.TakeDelta(c.now())
			for c.publisher.Delta() != nil {
				c.publisher.PublishDelta()
			}
		}
	}
	if len(c.publisher.TakeHeldBack()) == 0 {
		t.Fatalf("deltas of one label for 6,000 events were not held back: %q", whole)
	}
	u, reason := c.NextUpdate()
	if u == nil {
		t.Fatalf("no update: %s", reason)
	}
	c.publisher.PublishUpdate(u)
	if loss, _ := cleanLoss(c, clean); loss > floodBound*refitted {
		t.Errorf("what consumers are led back to loses %.4f on clean events, the refit alone %.4f", loss, refitted)
	}
}

// TestUpdatesFollowAChange: where labels mean something else from one event to the next, the guard does not keep
// consumers on what was.
func TestUpdatesFollowAChange(t *testing.T) {
	c := newCycle(t, cycletest.RatingsModel(nil))
	events, changed := cycletest.Stream(3, 2000), cycletest.Stream(4, 4000)
	observeAll(c, events)
	c.Install(mustRefit(t, c, sampleOf(events)))
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

// TestScalesHaveFloors: a run of equal labels makes neither the unit of squares nor the error of a link next to
// nothing.
func TestScalesHaveFloors(t *testing.T) {
	c := newCycle(t, cycletest.RatingsModel(nil))
	for range 100 {
		c.ensemble.mixture.Scale.Add(0)
		c.ensemble.mixture.Slow.Add(0)
	}
	if got := c.ensemble.mixture.Square(); got != encode.LeastDeviation*encode.LeastDeviation {
		t.Errorf("mean square %g of levels that are all predicted", got)
	}
	if l := encode.NewLevelLink(4, 1e-9); l.Slope > encode.SteepestLink {
		t.Errorf("slope %g", l.Slope)
	}
	numbers, targets := []float64{}, []float64{}
	for i := range 400 {
		numbers = append(numbers, float64(1+i%5)+0.4) // levels are separable
		for level := range 4 {
			targets = append(targets, map[bool]float64{true: 1, false: -1}[i%5 <= level])
		}
	}
	start := encode.NewLevelLink(4, 0.11)
	if l := start.Fit(numbers, targets, nil); l.Slope > encode.SteepestLink || !slices.IsSorted(l.Threshold) {
		t.Errorf("slope %g, thresholds %v", l.Slope, l.Threshold)
	}
}

func TestOutputLimit(t *testing.T) {
	c := newCycle(t, cycletest.RatingsModel(nil))
	events := cycletest.Stream(1, 1000)
	observeAll(c, events)
	ch := mustRefit(t, c, sampleOf(events))
	if limit := ch.Version.OutputLimit; limit == nil ||
		float64(*limit) < guard.GuardOutputs*guard.SupportedLogOdds(ch.Version.Rows) {
		t.Fatalf("output limit %v of %d rows", limit, ch.Version.Rows)
	}
	c.Install(ch)
	wild := *ch.Model
	wild.Bias = slices.Clone(wild.Bias)
	for i := range wild.Bias {
		wild.Bias[i] = 1e4
	}
	observeAll(c, events[:200])
	if got := c.publisher.guard.Judge(&fitted.FixedModel{Model: &wild, Vocab: ch.Vocabulary},
		&c.publisher.published.Load().FixedModel, &c.publisher.published.Load().Refit); got != guard.HeldBackOutputs {
		t.Errorf("outputs of 10,000: %q", got)
	}
	low := report.Number(0.01)
	ch.Version.OutputLimit = &low
	contents := ch.Contents(c.config)
	contents.Meta.Created = time.Unix(1_700_000_000, 0)
	if _, err := publish.NewStore(t.TempDir()).Publish(t.Context(), "m", contents); err != nil {
		t.Errorf("golden events beyond the limit: %v", err)
	}
	c.Install(ch)
	var score updates.Score
	p := c.NewBatchScorer()
	p.Refresh()
	for i := range events[:50] {
		if p.Score(&score, &events[i]); slices.Max(score.Outputs) > 0.01 || slices.Min(score.Outputs) < -0.01 {
			t.Fatalf("outputs %v of what consumers have, the limit is %g", score.Outputs, low)
		}
	}
	regression := newCycle(t,
		cycletest.RatingsModel(func(m *config.Model) { m.Schema.Task, m.Schema.Levels = "regression", 0 }))
	if limit := guard.OutputLimit(&fitted.Fitted{Target: regression.target,
		Version: report.Version{Rows: 1}}); limit != nil {
		t.Errorf("limit %v of numbers", *limit)
	}
}

// TestRefitOfALogSentAgain: a refit of a sample with copies of a flood in all of its parts has each event once, so that
// none that is held out is trained on.
func TestRefitOfALogSentAgain(t *testing.T) {
	events := halves(3, 4000)
	events, clean := events[:3000], events[3000:]
	c := newCycle(t, cycletest.RatingsModel(func(m *config.Model) { m.Schema.Task, m.Schema.Levels = "binary", 0 }))
	lossOf := func(sample []event.Event) (loss float64, rows int64) {
		ch := mustRefit(t, c, sampleOf(sample))
		c.Install(ch)
		loss, _ = cleanLoss(c, clean)
		return loss, ch.Version.Rows
	}
	observeAll(c, events)
	once, rows := lossOf(events)
	var again []event.Event
	for i := range 8 {
		again = append(again, events[i:]...) // the sample has copies of an event in any part
	}
	observeAll(c, again[len(events):])
	if loss, of := lossOf(again); loss > 1.1*once || float64(of) > 1.2*float64(rows) {
		t.Errorf("log sent eight times: loss %.4f of %d rows, once %.4f of %d", loss, of, once, rows)
	}
}
