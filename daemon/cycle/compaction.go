package cycle

import (
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
)

// Compaction makes a whole version of the newest update and its deltas. That takes as long as copying the model a few times, so Make and the publication may
// run beside the goroutine that updates, which goes on taking and publishing deltas of the update meanwhile. PublishUpdate then lets deltas follow
// the new version, those that were taken meanwhile first.
type Compaction struct {
	update   Champion        // its model is made by Make
	model    *snapshot.Model // what consumers had when it began
	form     updateForm
	follower *follower // of the update, then, in Make, of the new version
	settings *config.Model
	schema   *event.Schema
	made     *Champion

	since    []keptDelta // taken since it began, oldest first
	sinceRow int         // bytes of their rows
}

// keptDelta is a delta with what it is made of, to be numbered as the columns of another version are.
type keptDelta struct {
	delta   *snapshot.Delta
	changes []rowChange
}

// maxSinceBytes bounds the rows of the deltas that are kept while a whole version is made: about as much as a large one has itself.
const maxSinceBytes = 4 * deltaRowBytes

// BeginCompaction begins to make the next update of the newest one and its deltas; nil where consumers do not have that update, or should get another one: the
// live model cannot be followed by it any more, it has no room for names, or deltas of it are not published yet. NextUpdate makes one then.
// observed is what the version says of the losses before it. Call it from the goroutine that calls TakeDelta.
func (c *Cycle) BeginCompaction() *Compaction {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.followed
	if f == nil || !f.compacts(c) || f.of.popular != nil { // popularity, which has moved, is in whole versions of what is live
		return nil
	}
	x := &Compaction{update: *c.champion, model: f.installed[f.form], form: f.form, settings: c.config}
	x.update.Model = f.of.Model // for its kernel
	c.noteLive(&x.update)
	next := *f.forms[f.form]
	next.deltaBuffers = deltaBuffers{} // the one that is followed meanwhile writes to its own
	x.follower, x.schema = &next, &c.schema
	f.compaction = x
	return x
}

// EndCompaction gives up a compaction whose version was not published: deltas of the update before go on.
func (c *Cycle) EndCompaction() {
	if c.followed != nil {
		c.followed.compaction = nil
	}
}

// Make makes the version. O(columns).
func (x *Compaction) Make() (*Champion, error) {
	u, contents := &x.update, x.model.Contents()
	v, _ := vocabularyOf(x.schema, contents)
	u.CutShort, u.Vocabulary = nil, v
	u.holds(&contents.Meta)
	u.Model = &solver.Model{Kernel: u.Model.Kernel, NumFeatures: contents.NumFeatures, NumOutputs: contents.NumOutputs, NumBasis: contents.NumBasis,
		Basis: contents.Basis, Weights: contents.Weights, Linear: contents.Linear, Bias: contents.Bias, Map: contents.MapWeights}
	u.told, u.untold = contents.FoldIn, contents.NoFoldIn
	y := &u.Version
	asUpdate(y)
	y.K, y.Features, y.FeatureMap = contents.NumBasis, contents.NumFeatures, mapText(v.Map)
	y.Decision, y.Reason = promoted, "the update before with its deltas, which predicts no worse than the last refit"+formReasons[x.form]
	if err := x.follower.start(u, x.settings); err != nil {
		return nil, err
	}
	x.made = u
	return u, nil
}

// holds makes cut and watermark those of a version with its deltas; what became of the records before the cut is not known then.
func (ch *Champion) holds(m *snapshot.Meta) {
	cut := make([]report.Cut, 0, len(m.Cut))
	for _, p := range m.Cut {
		cut = append(cut, report.Cut(p))
	}
	if !slices.Equal(cut, ch.Version.Cut) {
		ch.Events = nil
	}
	if ch.Version.Cut = cut; !m.Watermark.IsZero() {
		ch.Watermark = m.Watermark.UnixMilli()
	}
}

// keep keeps a delta that was taken while the version is made, given what was placed in it.
func (x *Compaction) keep(d *snapshot.Delta, placed []rowChange) {
	x.since = append(x.since, keptDelta{d, slices.Clone(placed)})
	x.sinceRow += 8 * (len(d.Linear) + len(d.Basis))
}

func (x *Compaction) isFull() bool { return len(x.since) >= maxQueued || x.sinceRow > maxSinceBytes }

// deltas applies to the version what was taken since it began, and returns that as deltas of it.
func (x *Compaction) deltas() ([]*snapshot.Delta, []*snapshot.Model, error) {
	f := x.follower
	deltas, models := make([]*snapshot.Delta, len(x.since)), make([]*snapshot.Model, len(x.since))
	for i, kept := range x.since {
		d := *kept.delta
		d.Sequence, d.Columns, d.Linear, d.Basis, d.Added = int64(i+1), nil, nil, nil, nil
		f.changes = kept.changes
		for j := range f.changes {
			f.place(&f.changes[j])
		}
		f.fill(&d)
		next, err := f.model.Apply(&d)
		if err != nil {
			return nil, nil, err
		}
		f.model, deltas[i], models[i] = next, &d, next
	}
	f.changes = nil
	return deltas, models, nil
}

// compacted lets deltas follow the version that a compaction has made, if u is that. Call it without c.mu, from the goroutine that updates.
func (c *Cycle) compacted(u *Champion) {
	f := c.followed // of this goroutine
	if f == nil || f.compaction == nil || f.compaction.made != u {
		return
	}
	x := f.compaction
	base := x.follower.model
	deltas, models, err := x.deltas()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.unfollow()
		return
	}
	f.compaction, f.of, f.forms[f.form], f.queue = nil, u, x.follower, nil
	after := f.installed
	for form, follower := range f.forms {
		if follower != nil {
			after[form] = follower.model
		}
	}
	f.installed[f.form] = base
	for i, d := range deltas {
		after[f.form] = models[i]
		f.queue = append(f.queue, takenDelta{d, after, f.added})
	}
}

// compacts reports whether consumers should get the update with its deltas as the next one. c.mu is held.
func (f *following) compacts(c *Cycle) bool {
	own := f.forms[f.form]
	if own == nil || !f.published || f.compaction != nil || len(f.queue) > 0 ||
		own.refused > 0 || own.model.Position().Sequence == 0 || own.stale(c, f.form) != "" {
		return false
	}
	if c.blendAsks(f, 1) || f.forms[formBlend] == nil && c.isBlendBetter(blendGain) {
		return false
	}
	c.chooseForm(func(form updateForm) bool { return f.forms[form] != nil })
	return c.race.chosen == f.form && c.lag.prefers(c.updates)
}
