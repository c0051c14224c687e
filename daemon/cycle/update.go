package cycle

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
)

// How updates are compared with the refit that they go on from: losses fade over some 5,000 events, one event counts as much as
// mixtureLossMax units at most, and fewer than updateEvents say nothing against updates. Standard errors are those of means of updateBlock events
// where these say more than single ones: losses of events that follow each other are alike.
const (
	updateFade    = 0.9998
	updateEvents  = 100
	updateBlock   = 100
	updateOutlier = 100 // mean losses are the most that one event is taken for
)

// frozen is a model that learns nothing any more, as consumers have it.
type frozen struct {
	model   *solver.Model
	vocab   *Vocabulary
	after   *snapshot.Model // the model with the deltas since, nil without
	popular *popularWeights // that versions of it, and after, have beside what was learned; nil for none
}

// lag compares updates with the last promoted refit on events that came after both, as consumers would have used them: what an update gains at
// the event after it says little of the thousands until the next one. Where labels depend on those just before them, what was learned from
// these is worse than nothing then. It belongs to one goroutine.
type lag struct {
	n, sum, squares float64 // of the update's loss less the refit's, in units, fading
	block           float64 // sum of the events since the last whole block
	inBlock         int
	blocks          struct{ n, sum, squares float64 } // of the means of whole blocks, fading
	scale           fading                            // of the refit's loss
}

// add takes up the losses of both on one event. limit is the largest loss that one event counts as. It is 0 for squares, which have no such limit and
// are bounded by the mean: those of classes are not, for with a rare one the mean is a hundredth of what one event of it costs.
func (l *lag) add(update, refit, limit float64) {
	unit, most := l.scale.mean(), mixtureLossMax
	if limit > 0 {
		refit, update, most = min(refit, limit), min(update, limit), math.Inf(1)
	} else if unit > 0 { // an outlier does not set it
		refit, update = min(refit, updateOutlier*unit), min(update, updateOutlier*unit)
	}
	l.scale.add(refit)
	if unit = l.scale.mean(); !(unit > 0) {
		return
	}
	d := min(max((update-refit)/unit, -most), most)
	l.n, l.sum, l.squares = updateFade*l.n+1, updateFade*l.sum+d, updateFade*l.squares+d*d
	l.block += d
	if l.inBlock++; l.inBlock < updateBlock {
		return
	}
	fade, mean := math.Pow(updateFade, updateBlock), l.block/updateBlock
	b := &l.blocks
	b.n, b.sum, b.squares = fade*b.n+1, fade*b.sum+mean, fade*b.squares+mean*mean
	l.block, l.inBlock = 0, 0
}

// deviation returns the standard error of the mean difference: the greater of those by single events and by blocks.
func (l *lag) deviation() float64 {
	mean := l.sum / l.n
	deviation := math.Sqrt(max(l.squares/l.n-mean*mean, 0) / l.n)
	if b := &l.blocks; b.n > 1 {
		mean = b.sum / b.n
		deviation = max(deviation, math.Sqrt(max(b.squares/b.n-mean*mean, 0)/(b.n-1)))
	}
	return deviation
}

// prefers reports whether consumers should get updates. Updates have to be worse by a standard error to be left, and better by one to be taken up.
func (l *lag) prefers(updates bool) bool {
	if l.n < updateEvents {
		return true
	}
	mean := l.sum / l.n
	if updates {
		return mean <= l.deviation()
	}
	return mean < -l.deviation()
}

// FirstUpdate is why consumers do not get the first update of a model. The next one may come with new events or without.
const FirstUpdate = "the first update is compared with the refit before consumers get any"

// Update is a version between refits that is being made. Make, and the publication of what it returns, may run beside the goroutine that updates, which goes on
// taking and publishing deltas of the update before meanwhile.
type Update struct {
	compaction *Compaction // of the update before and its deltas; nil for one of the live model, which has what is below

	live     *Champion // as it was when BeginUpdate was called, in all forms
	forms    [numForms]made
	form     updateForm // that was chosen
	followed *following // what follows live; nil where nobody asks for deltas
	settings *config.Model
	out      *Champion // what consumers get, nil for nothing
	reason   string    // why they get nothing
}

// BeginUpdate decides what consumers get between refits, judged for publication: the newest update with its deltas, the live model as Update returns it, or
// the last promoted refit again where updates have predicted worse than it. Without any it returns nil and the reason. Make makes it; TakeUp then compares
// updates and refit by it, whatever was published, and PublishUpdate makes an update that was published what consumers have; EndUpdate gives it up. One is
// made at a time. Of the live model only copies are made here, while Observe waits. Call it from the goroutine that calls TakeDelta and Install.
func (c *Cycle) BeginUpdate() (x *Update, reason string) {
	if x := c.BeginCompaction(); x != nil {
		return &Update{compaction: x}, ""
	}
	var stored Stored
	if c.Stored != nil {
		stored = c.Stored()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.champion == nil {
		return nil, "there is no champion"
	}
	c.relink()
	x = &Update{forms: c.forms(true), settings: c.config}
	c.markNewton()
	if !x.forms[formFoldIn].model.IsFinite() {
		return nil, "the live model is not finite"
	}
	heldBack := c.chooseGuarded(&x.forms)
	x.live, x.form = c.update(&x.forms), c.race.chosen
	if c.Stored != nil {
		x.live.Version.Cut, x.live.Watermark, x.live.Events = stored.Cut, stored.Watermark, stored.Events
	}
	x.out, x.reason = c.decideUpdate(x.live, heldBack)
	if c.followed != nil && (!c.followed.published || x.out != x.live) {
		c.unfollow()
	}
	x.followed, c.making = c.follow(x.live, &x.forms), x
	return x, ""
}

// chooseGuarded chooses what an update is made of among the forms that the guard lets pass. Where it lets none pass, it returns why it held back the one
// that predicts best. c.mu is held.
func (c *Cycle) chooseGuarded(forms *[numForms]made) (first HeldBack) {
	var barred [numForms]bool
	there := func(f updateForm) bool { return forms[f].model != nil && !barred[f] }
	chosen := c.race.chosen
	for {
		c.chooseForm(there)
		f := c.race.chosen
		if !there(f) {
			break
		}
		why := c.judgeUpdate(&forms[f].frozen, &c.published.frozen)
		if why == "" {
			return ""
		}
		if first == "" {
			first, chosen = why, f
		}
		barred[f] = true
	}
	c.figures.Lock()
	defer c.figures.Unlock()
	c.race.chosen = chosen
	return first
}

// TakeHeldBack returns why updates and deltas were held back since it was called last.
func (c *Cycle) TakeHeldBack() []HeldBack {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.heldBack
	c.heldBack = nil
	return taken
}

// decideUpdate decides whether consumers get an update of the live model, which the guard may have held back. c.mu is held.
func (c *Cycle) decideUpdate(live *Champion, heldBack HeldBack) (u *Champion, reason string) {
	if c.lag.n == 0 && c.published.update.model == nil {
		return nil, FirstUpdate
	}
	c.updates = c.lag.prefers(c.updates)
	switch {
	case heldBack != "" && c.updates:
		c.heldBack = append(c.heldBack, heldBack)
		if c.turned && c.published.isUpdate() {
			return c.refitAgain("updates of it are held back: they are " + heldBack.text()), ""
		}
		return nil, "held back: the update is " + heldBack.text()
	case c.updates:
		live.Version.Decision, live.Version.Reason = "promoted", "fold-in since the last refit: updates predict no worse than it"
		live.Version.Reason += formReasons[c.race.chosen]
		return live, ""
	case !c.published.isUpdate():
		return nil, "updates predict worse than the last refit, on the events after them"
	}
	if why := c.judgeUpdate(&c.published.refit, &c.published.frozen); why != "" && !c.turned {
		c.heldBack = append(c.heldBack, why)
		return nil, "held back: the last refit is " + why.text()
	}
	return c.refitAgain("updates of it predict worse, on the events after them"), ""
}

// refitAgain returns the last promoted refit as an update. c.mu is held.
func (c *Cycle) refitAgain(reason string) *Champion {
	again := *c.champion
	again.CutShort, again.again = nil, true
	asUpdate(&again.Version)
	again.Version.Decision = "promoted"
	again.Version.Reason = "the last refit again: " + reason
	return &again
}

// Make makes what consumers get, nil where they get nothing. O(columns).
func (x *Update) Make() (u *Champion, reason string, err error) {
	if x.compaction != nil {
		u, err = x.compaction.Make()
		return u, "", err
	}
	if x.followed != nil {
		err = x.followed.start(x.settings, &x.forms)
	}
	return x.out, x.reason, err
}

// TakeUp compares updates and refit by what was made from now on. Deltas of the update before end that have not been published. Call it from the goroutine that
// updates, once Make has returned without an error.
func (c *Cycle) TakeUp(x *Update) {
	if x.compaction != nil {
		return // the deltas of the update before are its own
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.making != x { // a champion was installed meanwhile
		return
	}
	c.making = nil
	if c.Stored != nil {
		c.reached.goOn(x.live.Version.Cut)
	}
	next := *c.published
	for f := range x.forms {
		if next.forms[f] = x.forms[f].frozen; x.forms[f].link != nil {
			c.companion(c.partOf(updateForm(f))).link = x.forms[f].link
		}
		if x.forms[f].blend != nil {
			c.figures.Lock() // Progressive tells the parts
			c.blend.use(x.forms[f].blend)
			c.figures.Unlock()
		}
	}
	next.update = next.forms[x.form]
	c.unfollow()
	if c.followed = x.followed; c.followed != nil {
		c.followed.installTo(&next)
	}
	c.published = &next
}

// EndUpdate gives up what could not be made or published: deltas of the update before go on.
func (c *Cycle) EndUpdate(x *Update) {
	if x.compaction != nil {
		c.EndCompaction()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.making == x {
		c.endMaking()
	}
}

// endMaking gives up the update of the live model that is being made. c.mu is held.
func (c *Cycle) endMaking() {
	if c.making != nil && c.making.followed != nil {
		c.making.followed.end()
	}
	c.making = nil
}

// NextUpdate is BeginUpdate, Make and TakeUp at once. Deltas of the update before that were not published are given up.
func (c *Cycle) NextUpdate() (u *Champion, reason string) {
	x, reason := c.BeginUpdate()
	if x == nil {
		return nil, reason
	}
	u, reason, err := x.Make()
	if err != nil {
		c.EndUpdate(x)
		c.EndDeltas()
		if x.compaction != nil {
			return c.NextUpdate()
		}
		return nil, err.Error()
	}
	c.TakeUp(x)
	return u, reason
}

// PublishUpdate makes an update what consumers have, from the next event on.
func (c *Cycle) PublishUpdate(u *Champion) {
	c.compacted(u)
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.champion.popular; w != nil && u.popular == nil { // the update is read from the store
		withoutPopularity := *u
		withoutPopularity.popular, withoutPopularity.Model = w, w.off(u.Model, u.Vocabulary)
		u = &withoutPopularity
	}
	next := consumed{
		frozen: frozen{model: u.Model, vocab: u.Vocabulary, popular: u.popular},
		means:  c.champion.means,
		refit:  frozen{model: c.champion.Model, vocab: c.champion.Vocabulary, popular: c.champion.popular},
		limit:  c.champion.outputLimit(),
	}
	if next.update = next.frozen; u.again {
		next.refit = next.frozen
		if c.published != nil {
			next.update = c.published.update
		}
	}
	if p := c.published; p != nil && p.update.model == next.update.model {
		next.forms = p.forms
	}
	if f := c.followed; f != nil {
		if f.published = f.of == u; f.published { // its numbers may have been rounded
			next.forms = c.published.forms
			next.forms[f.form] = next.frozen
		}
		f.installTo(&next)
	}
	c.published, c.turned = &next, false
}

// compareUpdates takes up the losses on an event of the newest update, in every form, and of the last refit: of choices those in their lists.
func (c *Cycle) compareUpdates(s *Score, ev *event.Event) {
	if c.rankings != nil {
		c.compareLists(ev)
		return
	}
	limit := 0.0
	if !c.target.IsNumeric() {
		limit = c.guard.limit
	}
	c.lag.add(s.update, s.refit, limit)
	c.race.add(&s.forms, limit)
}

// isUpdate reports whether consumers have something else than the last promoted refit.
func (v *consumed) isUpdate() bool { return v.model != v.refit.model }
