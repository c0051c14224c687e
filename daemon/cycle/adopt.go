package cycle

import (
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/guard"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// Adopt makes a version the champion that this cycle did not promote: an operator chose it, or another instance was
// faster. It is what the next challenger is compared with and continues from, and the fold-in starts again on it. Its
// baselines are those of the champion before.
func (c *Cycle) Adopt(ch *fitted.Fitted) {
	c.mu.Lock()
	if last := c.champion; last != nil {
		ch.Means = last.Means
		if !(ch.Lambda > 0) {
			ch.Lambda = last.Lambda
		}
	}
	c.mu.Unlock()
	c.Install(ch)
}

// Renumber puts a champion that differs from the one there is by its Version alone in the place of it. What was learned
// since stays.
func (s *common) Renumber(ch *fitted.Fitted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.champion = ch
}

// Install makes a refit the champion and starts the fold-in on it, with the events learned since its cut. It may run
// concurrently with Observe, which waits only for the last few of them.
func (c *Cycle) Install(ch *fitted.Fitted) {
	c.mu.Lock()
	defer c.mu.Unlock() // also after a panic, which the daemon survives
	consumers := fitted.FixedModel{Model: ch.Model, Vocab: ch.Vocabulary, Popular: ch.Popular}
	ch = ch.Plain(&c.schema)
	next, others := c.ensemble.newLearner(ch, c.ensemble.learner), c.ensemble.newExperts(ch, c.ensemble.experts)
	// its carried experts are shared with the running one: hand over in one piece
	if _, ok := next.(*experts.Gradient); ok {
		c.install(ch, consumers, next, others)
		return
	}
	c.backlog.Cut(ch.Version.Cut)
	var ev event.Event
	targets := make([]float64, c.target.Outputs())
	pending, done := c.backlog.From(0)
	low, high := c.ensemble.numbers.Labels()
	unit := c.ensemble.weights.Unit()
	last := 2 * len(pending)
	for round := 0; round < installRounds && len(pending) > installBatch && len(pending) < last-last/installGain; round++ {
		func() {
			c.mu.Unlock()
			defer c.mu.Lock()
			c.ensemble.relearn(next, others, pending, &ev, targets, low, high, unit)
		}()
		last = len(pending)
		pending, done = c.backlog.From(done)
	}
	c.ensemble.relearn(next, others, pending, &ev, targets, low, high, unit)
	c.install(ch, consumers, next, others)
}

// Install learns installBatch events while Observe waits. It lets it wait for more after installRounds, or when what
// came during a round is not less than the round by an installGain-th: Observe is then as fast as Install, as when a
// backlog is read, and every further round would learn for nothing. Chosen by hand; no result depends on them.
const (
	installBatch  = 256
	installRounds = 6
	installGain   = 8
)

// maxPool is how many names of relearned events are kept for the next ones. Chosen by hand.
const maxPool = 4096

func (e *ensemble) relearn(l experts.Learner, others []*experts.Expert, events []rows.Pending, ev *event.Event,
	targets []float64, low, high float64, unit encode.WeightUnit) {
	if !e.config.Train.FoldIn.Enabled {
		return
	}
	for _, p := range events {
		if len(e.pool) >= maxPool {
			clear(e.pool)
		}
		if rows.DecodeEvent(ev, p.Payload, e.pool) != nil || !e.target.Encode(targets, ev) {
			continue
		}
		e.tables.Join(ev)
		if p.Counts.Corrects() != nil {
			e.recorrect(l, others, ev, p.Counts, low, high)
			continue
		}
		if ev.Label < low || ev.Label > high { // as limited
			ev.Label = min(max(ev.Label, low), high)
			e.target.Encode(targets, ev)
		}
		ev.Weight = unit.Of(ev.Weight)
		l.Gather(ev)
		experts.LearnPart(l, ev, targets, p.Counts)
		for _, expert := range others {
			if !expert.Lasting {
				expert.Learner.Gather(ev)
				expert.Learn(ev, p.Counts)
			}
		}
	}
	clear(e.pool)
}

func (c *Cycle) install(ch *fitted.Fitted, refit fitted.FixedModel, next experts.FoldInLearner,
	others []*experts.Expert) {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	if c.Forwarded {
		c.lineage.known.Advance(ch.Version.Cut, ch.Watermark)
	}
	c.champion, c.ensemble.learner, c.ensemble.experts, c.lineage.fallback, c.lineage.rejections = ch, next, c.carryOver(
		ch, others), nil, 0
	c.publisher.stopDeltas()
	c.publisher.endPending()
	c.publisher.chainEnded, c.publisher.behind = false, c.publisher.behind.Reset()
	c.publisher.published.Store(&updates.Served{FixedModel: refit, Refit: refit, Means: ch.Means, Limit: ch.OutputLimit()})
	if guard.Seen(&ch.Holdout) > 0 {
		c.publisher.guard.Held = ch.Holdout
	}
	c.publisher.guard.Support(&ch.Version)
}
