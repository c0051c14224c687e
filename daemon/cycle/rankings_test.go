package cycle

import (
	"maps"
	"testing"

	"github.com/refitd/refitd/consumer/event"
)

// tastedCycle returns a cycle of choices whose champion knows the tastes of users, with later events of them.
func tastedCycle(t *testing.T) (*Cycle, *Champion, []event.Event) {
	t.Helper()
	c, events := newCycle(t, choicesModel(t)), chosenRows(8000, true)
	ch := refit(t, c, choicesSample(events[:15_000]))
	if ch.popularOnly {
		t.Fatal("the version is of popularity alone")
	}
	c.Install(ch)
	return c, ch, events[15_000:]
}

// K8b: a refit that lists well and takes all for chosen is kept before an update that lists worse with a lower log loss.
func TestUpdatesOfChoicesAreComparedByLists(t *testing.T) {
	c, ch, events := tastedCycle(t)
	sure := *ch.Model
	sure.Bias = []float64{sure.Bias[0] + 3}
	refit := frozen{model: &sure, vocab: ch.Vocabulary, popular: ch.popular}
	update := frozen{model: popularAlone(ch.Model), vocab: ch.Vocabulary, popular: ch.popular}
	next := consumed{frozen: refit, refit: refit, update: update, means: ch.means}
	next.forms[formFoldIn], next.forms[formMixed] = update, refit
	c.published = &next
	var loss [2]weightedSum
	for i := range events {
		c.prescorer.take(c.published)
		var s Score
		c.prescorer.Score(&s, &events[i])
		loss[0].add(i, s.update)
		loss[1].add(i, s.refit)
		c.Observe(&events[i], true, Position{Topic: "choices", Offset: int64(i)}, nil, nil)
	}
	if !(loss[0].mean() < loss[1].mean()) {
		t.Fatalf("log loss of the update %.3f, of the refit %.3f", loss[0].mean(), loss[1].mean())
	}
	if c.lag.n < updateEvents || c.lag.prefers(true) {
		t.Errorf("updates that list worse are preferred after %.0f judged choices: %.3f", c.lag.n, c.lag.sum/c.lag.n)
	}
	if units, errors := c.race.lead(formMixed, formFoldIn); !(units > 0) || !(errors > 1) {
		t.Errorf("the form that lists better leads by %.3f, %.1f standard errors", units, errors)
	}
}

// K8b: an update that lists the names the other way round is held back, also of popularity alone; the same one again is not.
func TestUpdatesThatListWorseAreHeldBack(t *testing.T) {
	for _, only := range []bool{false, true} {
		c, ch, events := tastedCycle(t)
		c.champion.popularOnly = only
		published := c.published.refit
		c.published = &consumed{frozen: published, refit: published, update: published, means: ch.means}
		for i := range events {
			c.Observe(&events[i], true, Position{Topic: "choices", Offset: int64(i)}, nil, nil)
		}
		if len(c.rankings.kept) != rankedKept {
			t.Fatalf("%d choices are kept", len(c.rankings.kept))
		}
		turned, again := published, published
		turned.popular = &popularWeights{Field: ch.popular.Field, Shared: ch.popular.Shared, Names: maps.Clone(ch.popular.Names)}
		for name, weight := range turned.popular.Names {
			turned.popular.Names[name] = -3 * weight
		}
		if got := c.judgeUpdate(&turned, &published); got != HeldBackWindow {
			t.Errorf("popularity alone %t: the turned update is held back for %q", only, got)
		}
		if got := c.judgeUpdate(&again, &published); got != "" {
			t.Errorf("popularity alone %t: what consumers have is held back for %q", only, got)
		}
	}
}
