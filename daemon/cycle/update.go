package cycle

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/guard"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/refit/convex"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// compareLists judges the lists of the newest update, in every variant, and those of the last refit. It does so by a
// choice that nothing has learned yet. c.mu is held.
func (c *Cycle) compareLists(ev *event.Event) {
	r := c.publisher.rankings
	if !(ev.Label > 0) {
		return
	}
	// Lists take far longer than scores: a share of the choices says enough.
	if r.Seen++; r.Seen%updates.RankedEvery != 0 || len(c.ensemble.popular.List) < 2 {
		return
	}
	p, x, outputs := c.batchScorer, r.Among(ev, c.ensemble.popular.List), make([]float64, c.target.Outputs())
	p.take(c.publisher.published.Load())
	only := c.champion.PopularOnly
	// What consumers have first: models that equal it are not scored again.
	x.Unseen = r.Loss(p.scorer, &x, only, outputs)
	of := func(s *fitted.Scorer) float64 {
		if s == nil {
			return x.Unseen
		}
		return r.Loss(s, &x, only, outputs)
	}
	update, refit := of(p.update), of(p.refit)
	c.publisher.comparison.Add(update, refit, 1)
	if !only { // else all variants have the same lists
		var losses [mixture.NumForms]float64
		for f := range losses {
			switch model := c.publisher.published.Load().Forms[f].Model; model {
			case nil:
				losses[f] = math.NaN()
			case c.publisher.published.Load().Update.Model: // this variant is the update
				losses[f] = update
			default:
				losses[f] = of(p.forms[f])
			}
		}
		c.publisher.race.Add(&losses, refit, 1)
	}
	if len(r.Kept) < updates.RankedKept {
		r.Kept = append(r.Kept, x)
		return
	}
	// A ring of the last choices, by which judgeUpdate compares models that have not been served.
	r.Kept[r.Oldest] = x
	r.Oldest = (r.Oldest + 1) % updates.RankedKept
}

// judgeUpdate returns why consumers may not have an update in place of what they have: of choices by the lists of the
// last choices that were judged, and where versions have more than popularity by the losses of guard. c.mu is held.
func (u *publisher) judgeUpdate(update, current *fitted.FixedModel) guard.HeldBack {
	if u.rankings == nil || u.champion == nil {
		return u.guard.Judge(update, current, &u.published.Load().Refit)
	}
	only := u.champion.PopularOnly
	if u.rankings.IsWorse(update, current, only, u.target.Outputs()) {
		return guard.HeldBackWindow
	}
	if only {
		return ""
	}
	return u.guard.Judge(update, current, &u.published.Load().Refit)
}

// BeginUpdate decides what consumers get between refits, judged for publication: the newest update with its deltas, the
// live model as Update returns it, or the last promoted refit again where updates have predicted worse than it. Without
// any it returns nil and the reason. Make makes it; TakeUp then compares updates and refit by it, whatever was
// published, and PublishUpdate makes an update that was published what consumers have; EndUpdate gives it up. One is
// made at a time. Of the live model only copies are made here, while Observe waits. Call it from the goroutine that
// calls TakeDelta and Install.
func (c *Cycle) BeginUpdate() (x *updates.Update, reason string) {
	// Cheapest first: consumers have the update, and its deltas are the live model.
	if x := c.BeginCompaction(); x != nil {
		return &updates.Update{Compaction: x}, ""
	}
	var stored updates.Stored
	if c.Stored != nil {
		stored = c.Stored()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.champion == nil {
		return nil, "there is no champion"
	}
	c.ensemble.relink()
	// Copies of the live model in all variants, as it is at this event; all else of making a version goes without the
	// lock.
	c.ensemble.begin()
	x = &updates.Update{Forms: c.ensemble.candidates(true), Settings: c.config}
	c.ensemble.markNewton()
	if !x.Forms[mixture.FormFoldIn].Model.IsFinite() {
		return nil, "the live model is not finite"
	}
	before := c.publisher.race.Chosen
	heldBack := c.publisher.chooseGuarded(&x.Forms)
	if now := c.publisher.race.Chosen; now != before {
		// What another variant lost to the refit says nothing of this one.
		c.publisher.comparison = c.publisher.race.Refits[now]
		c.publisher.updates = c.publisher.updates && !variants[now].apart
	}
	x.Live, x.Form = c.update(&x.Forms), c.publisher.race.Chosen
	if c.Stored != nil {
		x.Live.Version.Cut, x.Live.Watermark, x.Live.Events = stored.Cut, stored.Watermark, stored.Events
	}
	x.Out, x.Reason = c.publisher.decideUpdate(x.Live, heldBack)
	if c.publisher.deltas != nil && (!c.publisher.deltas.Published || x.Out != x.Live) {
		c.publisher.stopDeltas()
	}
	x.Followed, c.publisher.pending = c.startDeltas(x.Live, &x.Forms), x
	return x, ""
}

// chooseGuarded chooses the variant of an update among those that the guard lets pass. Where it lets none pass, it
// returns why it held back the one that predicts best. c.mu is held.
func (u *publisher) chooseGuarded(forms *[mixture.NumForms]updates.Candidate) (first guard.HeldBack) {
	var barred [mixture.NumForms]bool
	there := func(f mixture.Variant) bool { return forms[f].Model != nil && !barred[f] }
	chosen, sum := u.race.Chosen, &forms[mixture.FormPool]
	u.sumFollows = sum.Model != nil && u.config.Publish.Deltas.Every > 0 &&
		u.followsFactors(int(sum.Vocab.NumNames()), sum.Model.NumOutputs, sum.Model.NumBasis)
	for {
		u.chooseVariant(there)
		f := u.race.Chosen
		if !there(f) {
			break
		}
		why := u.judgeUpdate(&forms[f].FixedModel, &u.published.Load().FixedModel)
		if why == "" {
			return ""
		}
		if first == "" {
			first, chosen = why, f
		}
		barred[f] = true
	}
	u.reportMu.Lock()
	defer u.reportMu.Unlock()
	u.race.Chosen = chosen
	return first
}

// TakeHeldBack returns why updates and deltas were held back since it was called last.
func (u *publisher) TakeHeldBack() []guard.HeldBack {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := u.heldBack
	u.heldBack = nil
	return taken
}

// decideUpdate decides whether consumers get an update of the live model, which the guard may have held back. c.mu is
// held.
func (c *publisher) decideUpdate(live *fitted.Fitted, heldBack guard.HeldBack) (u *fitted.Fitted, reason string) {
	if c.comparison.N == 0 && c.published.Load().Update.Model == nil {
		return nil, updates.FirstUpdate
	}
	c.updates = c.prefersUpdates()
	switch {
	case heldBack != "" && c.updates:
		c.heldBack = append(c.heldBack, heldBack)
		if c.chainEnded && c.published.Load().IsUpdate() {
			return c.refitAgain("updates of it are held back: they are " + heldBack.Text()), ""
		}
		return nil, "held back: the update is " + heldBack.Text()
	case c.updates:
		live.Version.Decision, live.Version.Reason = "promoted", "fold-in since the last refit: updates predict no worse "+
			"than it"
		live.Version.Reason += variants[c.race.Chosen].reason
		return live, ""
	case !c.published.Load().IsUpdate():
		return nil, "updates predict worse than the last refit, on the events after them"
	}
	if why := c.judgeUpdate(&c.published.Load().Refit, &c.published.Load().FixedModel); why != "" && !c.chainEnded {
		c.heldBack = append(c.heldBack, why)
		return nil, "held back: the last refit is " + why.Text()
	}
	return c.refitAgain("updates of it predict worse, on the events after them"), ""
}

// refitAgain returns the last promoted refit as an update. c.mu is held.
func (s *common) refitAgain(reason string) *fitted.Fitted {
	again := *s.champion
	again.CutShort, again.Again, again.Tables = nil, true, s.tables.Snapshot()
	convex.AsUpdate(&again.Version)
	again.Version.Decision = "promoted"
	again.Version.Reason = "the last refit again: " + reason
	return &again
}

// TakeUp compares updates and refit by what was made from now on. Deltas of the update before end that have not been
// published. Call it from the goroutine that updates, once Make has returned without an error.
func (c *Cycle) TakeUp(x *updates.Update) {
	if x.Compaction != nil {
		return // the deltas of the update before are its own
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.publisher.pending != x { // a champion was installed during the write
		return
	}
	c.publisher.pending = nil
	if c.Stored != nil {
		c.publisher.frontier.CarryOver(x.Live.Version.Cut)
	}
	// A copy: readers of the pointer keep the old value as a whole.
	next := *c.publisher.published.Load()
	for f := range x.Forms {
		if next.Forms[f] = x.Forms[f].FixedModel; x.Forms[f].Link != nil {
			c.ensemble.expertOf(c.partOf(mixture.Variant(f))).Link = x.Forms[f].Link
		}
		if x.Forms[f].Blend != nil {
			c.reportMu.Lock() // Progressive reports the parts
			c.ensemble.stacked.Use(x.Forms[f].Blend)
			c.reportMu.Unlock()
		}
	}
	if p := x.Forms[mixture.FormPool].Pooled; p != nil {
		c.reportMu.Lock()
		c.ensemble.pooled.Used = p.PooledWeights
		c.reportMu.Unlock()
	}
	next.Update = next.Forms[x.Form]
	c.publisher.stopDeltas()
	if c.publisher.deltas = x.Followed; c.publisher.deltas != nil {
		c.publisher.deltas.InstallTo(&next)
	}
	c.publisher.published.Store(&next)
}

// EndUpdate gives up an update that could not be made or published. Deltas of the previous update continue.
func (u *publisher) EndUpdate(x *updates.Update) {
	if x.Compaction != nil {
		u.EndCompaction()
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pending == x {
		u.endPending()
	}
}

// endPending gives up the update of the live model that is being made. c.mu is held.
func (u *publisher) endPending() {
	if u.pending != nil && u.pending.Followed != nil {
		u.pending.Followed.End()
	}
	u.pending = nil
}

// NextUpdate is BeginUpdate, Make and TakeUp at once. Deltas of the update before that were not published are given up.
func (c *Cycle) NextUpdate() (u *fitted.Fitted, reason string) {
	x, reason := c.BeginUpdate()
	if x == nil {
		return nil, reason
	}
	u, reason, err := x.Make()
	if err != nil {
		c.publisher.EndUpdate(x)
		c.publisher.EndDeltas()
		if x.Compaction != nil {
			return c.NextUpdate()
		}
		return nil, err.Error()
	}
	c.TakeUp(x)
	return u, reason
}

// PublishUpdate makes an update what consumers have, from the next event on.
func (c *publisher) PublishUpdate(u *fitted.Fitted) {
	c.compacted(u)
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.published.Load()
	if w := c.champion.Popular; w != nil && u.Popular == nil { // the update is read from the store
		withoutPopularity := *u
		withoutPopularity.Popular, withoutPopularity.Model = w, w.Off(u.Model, u.Vocabulary)
		u = &withoutPopularity
	}
	next := updates.Served{
		FixedModel: fitted.FixedModel{Model: u.Model, Vocab: u.Vocabulary, Popular: u.Popular},
		Means:      c.champion.Means,
		Refit: fitted.FixedModel{
			Model:   c.champion.Model,
			Vocab:   c.champion.Vocabulary,
			Popular: c.champion.Popular,
		},
		Limit: c.champion.OutputLimit(),
	}
	if next.Update = next.FixedModel; u.Again {
		// What was the update is still compared with the refit: it may become better again.
		next.Refit = next.FixedModel
		if before != nil {
			next.Update = before.Update
		}
	}
	if before != nil && before.Update.Model == next.Update.Model {
		next.Forms = before.Forms
	}
	if f := c.deltas; f != nil {
		if f.Published = f.Of == u; f.Published { // its numbers may have been rounded
			next.Forms = before.Forms
			next.Forms[f.Form] = next.FixedModel
		}
		f.InstallTo(&next)
	}
	c.chainEnded, c.behind = false, c.behind.After(c.race.Chosen)
	c.published.Store(&next)
}

// compareUpdates adds the losses on an event of the newest update, in every variant, and of the last refit. For choices
// these are the losses of their lists.
func (c *Cycle) compareUpdates(s *updates.Score, ev *event.Event) {
	if c.publisher.rankings != nil {
		c.compareLists(ev)
		return
	}
	limit := 0.0
	if !c.target.IsNumeric() {
		limit = c.publisher.guard.Limit
	}
	c.publisher.comparison.Add(s.Update, s.Refit, limit)
	c.publisher.race.Add(&s.Forms, s.Refit, limit)
	c.publisher.behind.Add(s, c.ensemble.learnPooled(s, ev), c.target.IsNumeric())
}
