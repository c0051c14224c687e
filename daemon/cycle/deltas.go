package cycle

import (
	"slices"
	"time"

	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// compacts reports whether consumers should get the update with its deltas as the next one. c.mu is held.
func compacts(f *updates.DeltaStream, c *Cycle) bool {
	own := f.Forms[f.Form]
	if own == nil || !f.Published || f.Compaction != nil || len(f.Queue) > 0 ||
		own.Refused > 0 || own.Model.Position().Sequence == 0 || stale(own, c, f.Form) != "" {
		return false
	}
	// A blend whose weights have moved, or that has become better than the variant at hand, needs a whole update.
	if c.ensemble.stackedAsks(f, 1) ||
		f.Forms[mixture.FormBlend] == nil && c.ensemble.isStackedBetter(mixture.BlendGain) {
		return false
	}
	before := c.publisher.race.Chosen
	c.publisher.chooseVariant(func(form mixture.Variant) bool { return f.Forms[form] != nil })
	if c.publisher.race.Chosen != f.Form { // the update that follows sees that it changes
		c.publisher.reportMu.Lock()
		defer c.publisher.reportMu.Unlock()
		c.publisher.race.Chosen = before
		return false
	}
	return c.publisher.prefersUpdates()
}

// stale returns why deltas cannot encode the live model any more, or "". c.mu is held.
func stale(f *updates.DeltaEncoder, c *Cycle, form mixture.Variant) string {
	if c.ensemble.variantLearner(form) != f.Learner {
		return "the fold-in began anew"
	}
	return f.Rows.Stale()
}

// encodeDelta makes a delta of what was touched since the last one, nil if nothing has changed, or says why a whole
// version has to come first. c.mu is held.
func encodeDelta(f *updates.DeltaEncoder, c *Cycle, form mixture.Variant,
	popular *updates.MovedPopularity, known []*format.TableRow) (d *format.Delta, whole string) {
	if whole = stale(f, c, form); whole != "" {
		return nil, whole
	}
	m, k := f.Model.NumOutputs(), f.Basis
	d = &format.Delta{Sequence: f.Model.Position().Sequence + 1, TableRows: known}
	f.Changes = f.Changes[:0]
	taken, name := f.Taken()
	f.NumbersOf = slices.Grow(f.NumbersOf[:0], taken*(m+k))
	// All rows of a delta share one piece of memory, which the next delta uses again.
	numbers := f.NumbersOf[:taken*(m+k)]
	clear(numbers)
	for i := range taken {
		item := name(i)
		change := updates.RowChange{Field: f.FieldOf(int(item.Field)), Name: item.Name}
		change.Linear, change.Basis, numbers = numbers[:m:m], numbers[m:m+k:m+k], numbers[m+k:]
		f.Place(&change)
		// exists is false for a name that the learner has dropped since. complete is false where a basis vector that
		// was 0 in all published rows is not any more: untouched rows would need it, too.
		exists, complete := f.Rows.Row(change.Linear, change.Basis, int(item.Field), change.Name)
		if !complete {
			return nil, "a vector of the update came alive"
		}
		if exists {
			popular.AddTo(&change)
			f.Changes = append(f.Changes, change)
		}
	}
	f.Rows.Rest(d, func(change updates.RowChange) {
		if change.Name != "" {
			f.Place(&change)
		} else {
			change.Field, change.Column = f.Named+int(change.Column), f.Numbers+change.Column
		}
		f.Changes = append(f.Changes, change)
	})
	f.AddMoved(popular)
	// Versions hold popularity in the weights of names, and what all share of it in the bias.
	if popular != nil && d.Bias != nil {
		d.Bias[0] += popular.Now.Shared
	}
	f.Fill(d)
	if l, ok := c.ensemble.learner.(*experts.FoldIn); ok && f.Losses > 0 {
		d.FoldInLosses = c.rateLosses(l, f.Losses)
	}
	if !updates.FiniteDelta(d) {
		return nil, "the live model is not finite"
	}
	if len(d.Columns)+len(known) == 0 && d.Bias == nil && d.Weights == nil && d.MapWeights == nil && d.Trees == nil {
		return nil, ""
	}
	return d, ""
}

// rateLosses returns what the rates of the first fields that forget have lost, as FoldIn of versions has them.
func (s *common) rateLosses(l *experts.FoldIn, fields int) [][]float64 {
	all, losses := l.FoldIn.RateLosses(), make([][]float64, 0, fields)
	for i, name := range fitted.FoldInFields(s.config)[:fields] {
		field := slices.Index(s.config.Schema.Categorical, name)
		own := make([]float64, len(fitted.FoldInRates(i)))
		copy(own, all[field])
		losses = append(losses, own)
	}
	return losses
}

// startDeltas returns a delta stream of an update that was made just now, given all its variants. It is nil if deltas
// are not configured. c.mu is held.
func (c *Cycle) startDeltas(u *fitted.Fitted, forms *[mixture.NumForms]updates.Candidate) *updates.DeltaStream {
	if c.config.Publish.Deltas.Every == 0 {
		return nil
	}
	f := &updates.DeltaStream{Of: u, Form: c.publisher.race.Chosen, Popular: u.Popular, Added: u.Popular}
	u.Tables = f.FollowTables(c.tables)
	for form := range mixture.NumForms {
		if forms[form].Model != nil {
			f.Forms[form] = c.ensemble.newDeltaEncoder(f, form, &forms[form])
		}
	}
	return f
}

// stopDeltas ends the delta stream of the previous update. c.mu is held.
func (u *publisher) stopDeltas() {
	if u.deltas != nil {
		u.deltas.End()
		u.deltas = nil
	}
}

// widened notes that all rows of a field have changed. Deltas bring only touched rows, so that a whole version of the
// live model comes first. c.mu is held.
func (u *publisher) widened(field string) {
	if u.deltas != nil {
		u.deltas.Widened = field
	}
	if u.pending != nil && u.pending.Followed != nil {
		u.pending.Followed.Widened = field
	}
	u.endLive()
}

// TakeDelta brings the newest update up to the events observed by now, and makes a delta of what changed where
// consumers have that update: Delta returns it. Where deltas cannot continue, it returns why a whole version of
// NextUpdate has to come first. now is the time of the delta.
func (c *Cycle) TakeDelta(now time.Time) (whole string) {
	c.mu.Lock()
	f := c.publisher.deltas
	if f == nil {
		c.mu.Unlock()
		return ""
	}
	// Under the lock rows are only copied; building the models after them takes longer and goes without it. The queue
	// is that of the goroutine that calls this, so that no other delta comes between.
	deltas, whole := takeDeltas(f, c)
	d := deltas[f.Form]
	switch {
	case whole != "":
		c.publisher.stopDeltas()
	case d != nil:
		c.publisher.frontier.Stamp(d, now)
	}
	c.mu.Unlock()
	if whole == "" {
		whole = f.Advance(&deltas)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Before it is queued: a delta that is held back was never taken.
	if whole == "" && d != nil && f.Published {
		whole = c.publisher.guardDelta(f)
	}
	if whole != "" {
		c.publisher.stopDeltas()
		return whole
	}
	var after updates.Installed
	for form, encoder := range f.Forms {
		if after[form] = f.Installed[form]; encoder != nil {
			after[form] = encoder.Model
		}
	}
	switch {
	case f.Published && d != nil:
		f.Queue = append(f.Queue, updates.TakenDelta{Delta: d, After: after, Added: f.Popular})
	// Nothing waits and nothing changed that consumers get: what they would have is the model as it is now.
	case len(f.Queue) == 0:
		c.publisher.installDelta(&updates.TakenDelta{After: after, Added: f.Popular})
	}
	return ""
}

// AsksUpdate reports whether consumers should get an update of the live model soon: one in which the parts of a blend
// count for more or less than in the newest, or of another variant that loses much less. Deltas cannot bring these.
func (c *Cycle) AsksUpdate() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.publisher.deltas
	if f == nil {
		return false
	}
	return f.Published && c.ensemble.stackedAsks(f, mixture.BlendErrors) || c.publisher.behind.Asks()
}

// HasChanged reports whether consumers lose so much more than they used to that the stream must have changed: a delta
// is worth more then.
func (u *publisher) HasChanged() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.hasChanged()
}

// takeDeltas makes a delta of each variant. It is nil if nothing has changed, or if deltas cannot bring the variant up
// to date any more. c.mu is held.
func takeDeltas(f *updates.DeltaStream, c *Cycle) (deltas [mixture.NumForms]*format.Delta, whole string) {
	if f.Published {
		if c.publisher.updates = c.publisher.prefersUpdates(); !c.publisher.updates {
			return deltas, "updates predict worse than the last refit, on the events after them"
		}
	}
	if f.Widened != "" {
		return deltas, "names of field " + f.Widened + " have changed"
	}
	if len(f.Queue) >= updates.MaxQueued || f.Queued() > updates.DeltaRowBytes {
		return deltas, "too many deltas wait to be published"
	}
	if f.Compaction != nil && f.Compaction.IsFull() {
		return deltas, "too many deltas wait for a whole version"
	}
	limit := c.config.Publish.Deltas.MaxRows
	for _, encoder := range f.Forms {
		if encoder != nil {
			limit = min(limit, encoder.Most())
		}
	}
	c.ensemble.begin()
	f.List(limit)
	popular, known := movePopularity(f, c, limit), f.TakeTables()
	for form, encoder := range f.Forms {
		if encoder == nil {
			continue
		}
		d, whole := encodeDelta(encoder, c, mixture.Variant(form), popular, known)
		switch {
		case whole == "":
			if deltas[form] = d; d != nil && mixture.Variant(form) == f.Form && f.Compaction != nil {
				f.Compaction.Keep(d, encoder.Placed)
			}
		// The variant that consumers have ends the stream; another one only stops to be a candidate.
		case mixture.Variant(form) == f.Form:
			return deltas, whole
		default:
			f.Forms[form] = nil
		}
	}
	return deltas, ""
}

// installDelta makes models what consumers have, or would have, from the next event on. c.mu is held.
func (u *publisher) installDelta(taken *updates.TakenDelta) {
	u.deltas.Installed, u.deltas.Added = taken.After, taken.Added
	next := *u.published.Load()
	u.deltas.InstallTo(&next)
	u.published.Store(&next)
}

// Delta returns the oldest delta that was taken and not published, or nil. It is not to be changed, and
// has no place in a chain yet: the caller gives one to a copy.
func (u *publisher) Delta() *format.Delta {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.deltas == nil || len(u.deltas.Queue) == 0 {
		return nil
	}
	return u.deltas.Queue[0].Delta
}

// PublishDelta makes the delta that Delta returned what consumers have.
func (u *publisher) PublishDelta() {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := u.deltas
	taken := f.Queue[0] // Delta was not nil, so there is one
	f.Queue = f.Queue[1:]
	u.installDelta(&taken)
}

// Following returns the model that consumers have by the newest update and its deltas, nil where they have something
// else.
func (u *publisher) Following() *snapshot.Model {
	u.mu.Lock()
	defer u.mu.Unlock()
	if f := u.deltas; f != nil && f.Published {
		return f.Installed[f.Form]
	}
	return nil
}

// EndDeltas gives up the deltas of the newest update: a whole version comes next.
func (u *publisher) EndDeltas() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopDeltas()
}

// movePopularity returns the popularity after what was observed, of which a delta may have so many rows. Where others
// observe the choices, it stays that of the refit. c.mu is held.
func movePopularity(f *updates.DeltaStream, c *Cycle, limit int) *updates.MovedPopularity {
	if f.Popular == nil {
		return nil
	}
	moved := &updates.MovedPopularity{Before: f.Popular, Now: f.Popular}
	if len(c.ensemble.popular.Names) > 0 {
		moved.Now, moved.Names = c.ensemble.popular.Moved(f.Popular, limit)
	}
	f.Popular = moved.Now
	return moved
}

// guardDelta returns why the chain of deltas of f ends: the model after the delta at hand is worse than the refit.
// Consumers get the refit again unless the next update is better. c.mu is held.
func (u *publisher) guardDelta(f *updates.DeltaStream) (whole string) {
	of := u.published.Load().Forms[f.Form]
	of.Popular = f.Popular
	if !f.Of.PopularOnly {
		of.After = f.Forms[f.Form].Model
	}
	why := u.judgeUpdate(&of, &fitted.FixedModel{Model: f.Of.Model, Vocab: f.Of.Vocabulary, Popular: f.Of.Popular})
	if why == "" {
		return ""
	}
	u.chainEnded, u.heldBack = true, append(u.heldBack, why)
	return "held back: the delta is " + why.Text()
}
