package cycle

import (
	"maps"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/guard"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// tastedCycle returns a cycle of choices whose champion knows the tastes of users, with later events of them.
func tastedCycle(t *testing.T) (*Cycle, *fitted.Fitted, []event.Event) {
	t.Helper()
	c, events := newCycle(t, cycletest.ChoicesModel(t)), chosenRows(8000, true)
	ch := mustRefit(t, c, choicesSample(events[:15_000]))
	if ch.PopularOnly {
		t.Fatal("the version is of popularity alone")
	}
	c.Install(ch)
	return c, ch, events[15_000:]
}

// K8b: a refit that lists well and takes all for chosen is kept before an update that lists worse with a lower log
// loss.
func TestUpdatesOfChoicesAreComparedByLists(t *testing.T) {
	c, ch, events := tastedCycle(t)
	sure := *ch.Model
	sure.Bias = []float64{sure.Bias[0] + 3}
	refit := fitted.FixedModel{Model: &sure, Vocab: ch.Vocabulary, Popular: ch.Popular}
	update := fitted.FixedModel{Model: fitted.PopularAlone(ch.Model), Vocab: ch.Vocabulary, Popular: ch.Popular}
	next := updates.Served{FixedModel: refit, Refit: refit, Update: update, Means: ch.Means}
	next.Forms[mixture.FormFoldIn], next.Forms[mixture.FormMixed] = update, refit
	c.publisher.published.Store(&next)
	var loss [2]evaluate.WeightedSum
	for i := range events {
		c.batchScorer.take(c.publisher.published.Load())
		var s updates.Score
		c.batchScorer.Score(&s, &events[i])
		loss[0].Add(i, s.Update)
		loss[1].Add(i, s.Refit)
		c.Observe(&events[i], true, rows.Position{Topic: "choices", Offset: int64(i)}, nil, nil)
	}
	if !(loss[0].Mean() < loss[1].Mean()) {
		t.Fatalf("log loss of the update %.3f, of the refit %.3f", loss[0].Mean(), loss[1].Mean())
	}
	if c.publisher.comparison.N < updates.UpdateEvents || c.publisher.comparison.Prefers(true, false) {
		t.Errorf("updates that list worse are preferred after %.0f judged choices: %.3f", c.publisher.comparison.N,
			c.publisher.comparison.Sum/c.publisher.comparison.N)
	}
	if units, errors := c.publisher.race.Difference(mixture.FormMixed, mixture.FormFoldIn); !(units > 0) ||
		!(errors > 1) {
		t.Errorf("the form that lists better leads by %.3f, %.1f standard errors", units, errors)
	}
}

// K8b: an update that lists the names the other way round is held back, also of popularity alone; the same one again is
// not.
func TestUpdatesThatListWorseAreHeldBack(t *testing.T) {
	for _, only := range []bool{false, true} {
		c, ch, events := tastedCycle(t)
		c.champion.PopularOnly = only
		published := c.publisher.published.Load().Refit
		c.publisher.published.Store(&updates.Served{
			FixedModel: published,
			Refit:      published,
			Update:     published,
			Means:      ch.Means,
		})
		for i := range events {
			c.Observe(&events[i], true, rows.Position{Topic: "choices", Offset: int64(i)}, nil, nil)
		}
		if len(c.publisher.rankings.Kept) != updates.RankedKept {
			t.Fatalf("%d choices are kept", len(c.publisher.rankings.Kept))
		}
		turned, again := published, published
		turned.Popular = &fitted.PopularWeights{
			Field:  ch.Popular.Field,
			Shared: ch.Popular.Shared,
			Names:  maps.Clone(ch.Popular.Names),
		}
		for name, weight := range turned.Popular.Names {
			turned.Popular.Names[name] = -3 * weight
		}
		if got := c.publisher.judgeUpdate(&turned, &published); got != guard.HeldBackWindow {
			t.Errorf("popularity alone %t: the turned update is held back for %q", only, got)
		}
		if got := c.publisher.judgeUpdate(&again, &published); got != "" {
			t.Errorf("popularity alone %t: what consumers have is held back for %q", only, got)
		}
	}
}
