package cycle

import (
	"slices"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
)

// following is what follows the newest update, in each form that it could have had: publish.deltas asks for it. It belongs to the goroutine that updates,
// but for what c.mu guards: the learners, published, installed and queue.
type following struct {
	of      *Champion // the update
	form    updateForm
	forms   [numForms]*follower // nil where there is no such form, or none that deltas can follow
	sources []*source

	published bool            // consumers have the update: deltas go out to them
	installed installed       // what consumers have, or would have
	popular   *popularWeights // of the update with the deltas that were taken; nil for none
	added     *popularWeights // of what is installed
	queue     []takenDelta    // not published yet, oldest first

	widened    string      // field whose rows have all changed since, by an alarm; empty for none
	compaction *Compaction // of the update, under way; nil without. It belongs to the goroutine that updates
}

// installed is the newest update in each form, after the deltas that consumers have; nil where there is none.
type installed [numForms]*snapshot.Model

// takenDelta is a delta with the models after it.
type takenDelta struct {
	delta *snapshot.Delta
	after installed
	added *popularWeights // of these
}

// source is what lists the names that were touched, for all forms that share it.
type source struct {
	slots   *slots
	touched *touched
	taken   []int32 // the slots that the delta at hand is of
}

// maxQueued bounds the deltas that wait to be published, and deltaRowBytes their rows; with more a whole version has to come first.
const maxQueued = 100

// queued returns how many bytes the rows of the deltas take that wait.
func (f *following) queued() (bytes int) {
	for i := range f.queue {
		d := f.queue[i].delta
		bytes += 8 * (len(d.Linear) + len(d.Basis))
	}
	return bytes
}

// follow begins to follow an update that was made just now, given all forms of it; nil where nobody asks for deltas. c.mu is held.
func (c *Cycle) follow(u *Champion, forms *[numForms]made) *following {
	if c.config.Publish.Deltas.Every == 0 {
		return nil
	}
	f := &following{of: u, form: c.race.chosen, popular: u.popular, added: u.popular}
	for form := range numForms {
		if forms[form].model != nil {
			f.forms[form] = c.newFollower(f, form, &forms[form])
		}
	}
	return f
}

// sourceOf returns what lists the names that a learner touches.
func (f *following) sourceOf(s *slots) *source {
	for _, of := range f.sources {
		if of.slots == s {
			return of
		}
	}
	list := new(touched)
	s.touched = append(s.touched, list)
	f.sources = append(f.sources, &source{slots: s, touched: list})
	return f.sources[len(f.sources)-1]
}

// unfollow ends what followed the update before. c.mu is held.
func (c *Cycle) unfollow() {
	if c.followed != nil {
		c.followed.end()
		c.followed = nil
	}
}

// widened tells that all rows of a field have changed, of which deltas bring those that are touched: a whole version of the live model comes first. c.mu is
// held.
func (c *Cycle) widened(field string) {
	if c.followed != nil {
		c.followed.widened = field
	}
	if c.making != nil && c.making.followed != nil {
		c.making.followed.widened = field
	}
	c.endLive()
}

// end ends the lists of what is touched. c.mu is held.
func (f *following) end() {
	f.unlist()
	for _, own := range f.forms {
		if own == nil {
			continue
		}
		if r, ok := own.rows.(*namesRows); ok {
			r.learner.touched = slices.DeleteFunc(r.learner.touched, func(t *touchedPairs) bool { return t == r.touched })
		}
	}
}

// start builds the models that the forms begin with.
func (f *following) start(settings *config.Model, forms *[numForms]made) error {
	for form, follower := range f.forms {
		if follower == nil {
			continue
		}
		if err := follower.start(forms[form].of(f.of), settings); err != nil {
			if updateForm(form) == f.form {
				return err
			}
			f.forms[form] = nil
			continue
		}
		f.installed[form] = follower.model
	}
	return nil
}

// installTo lets what consumers have, or could have, be scored with the deltas.
func (f *following) installTo(v *consumed) {
	installed := f.installed
	if f.of.popularOnly { // what was learned is scored as it was
		installed = [numForms]*snapshot.Model{}
	}
	for form, after := range installed {
		if v.forms[form].model != nil {
			v.forms[form].after, v.forms[form].popular = after, f.added
		}
	}
	v.update.after, v.update.popular = installed[f.form], f.added
	if f.published {
		v.after, v.popular = v.update.after, v.update.popular
	}
}

// TakeDelta brings the newest update up to the events observed by now, and makes a delta of what changed where consumers have that update: Delta returns
// it. It says why a whole version has to come first, NextUpdate, where deltas cannot go on. now is the time that the delta tells.
func (c *Cycle) TakeDelta(now time.Time) (whole string) {
	c.mu.Lock()
	f := c.followed
	if f == nil {
		c.mu.Unlock()
		return ""
	}
	deltas, whole := f.take(c)
	d := deltas[f.form]
	switch {
	case whole != "":
		c.unfollow()
	case d != nil:
		c.reached.stamp(d, now)
	}
	c.mu.Unlock()
	if whole == "" {
		whole = f.advance(&deltas)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if whole == "" && d != nil && f.published {
		whole = c.guardDelta(f)
	}
	if whole != "" {
		c.unfollow()
		return whole
	}
	var after installed
	for form, follower := range f.forms {
		if after[form] = f.installed[form]; follower != nil {
			after[form] = follower.model
		}
	}
	switch {
	case f.published && d != nil:
		f.queue = append(f.queue, takenDelta{d, after, f.popular})
	case len(f.queue) == 0:
		c.installDelta(&takenDelta{after: after, added: f.popular})
	}
	return ""
}

// AsksUpdate reports whether consumers should get an update of the live model soon, in which the parts of a blend count for more or less than in the newest:
// deltas cannot bring all rows that this changes.
func (c *Cycle) AsksUpdate() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.followed
	return f != nil && f.published && c.blendAsks(f, blendErrors)
}

// take makes a delta of each form, nil where nothing has changed or the form cannot be followed any more. c.mu is held.
func (f *following) take(c *Cycle) (deltas [numForms]*snapshot.Delta, whole string) {
	if f.published {
		if c.updates = c.lag.prefers(c.updates); !c.updates {
			return deltas, "updates predict worse than the last refit, on the events after them"
		}
	}
	if f.widened != "" {
		return deltas, "names of field " + f.widened + " have changed"
	}
	if len(f.queue) >= maxQueued || f.queued() > deltaRowBytes {
		return deltas, "too many deltas wait to be published"
	}
	if f.compaction != nil && f.compaction.isFull() {
		return deltas, "too many deltas wait for a whole version"
	}
	limit := c.config.Publish.Deltas.MaxRows
	for _, follower := range f.forms {
		if follower != nil {
			limit = min(limit, follower.most())
		}
	}
	f.list(limit)
	popular := f.movePopularity(c, limit)
	for form, follower := range f.forms {
		if follower == nil {
			continue
		}
		d, whole := follower.take(c, updateForm(form), popular)
		switch {
		case whole == "":
			if deltas[form] = d; d != nil && updateForm(form) == f.form && f.compaction != nil {
				f.compaction.keep(d, follower.placed)
			}
		case updateForm(form) == f.form:
			return deltas, whole
		default:
			f.forms[form] = nil
		}
	}
	return deltas, ""
}

// advance applies what was taken.
func (f *following) advance(deltas *[numForms]*snapshot.Delta) (whole string) {
	for form, d := range deltas {
		if d == nil {
			continue
		}
		next, err := f.forms[form].model.Apply(d)
		switch {
		case err == nil:
			f.forms[form].model = next
		case updateForm(form) == f.form:
			return err.Error()
		default:
			f.forms[form] = nil
		}
	}
	return ""
}

// installDelta makes models what consumers have, or would have, from the next event on. c.mu is held.
func (c *Cycle) installDelta(taken *takenDelta) {
	c.followed.installed, c.followed.added = taken.after, taken.added
	next := *c.published
	c.followed.installTo(&next)
	c.published = &next
}

// Delta returns the oldest delta that was taken and not published, nil if there is none. It is not to be changed, and has no place in a chain yet: the
// caller gives one to a copy.
func (c *Cycle) Delta() *snapshot.Delta {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.followed == nil || len(c.followed.queue) == 0 {
		return nil
	}
	return c.followed.queue[0].delta
}

// PublishDelta makes the delta that Delta returned what consumers have.
func (c *Cycle) PublishDelta() {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.followed
	taken := f.queue[0]
	f.queue = f.queue[1:]
	c.installDelta(&taken)
}

// Following returns the model that consumers have by the newest update and its deltas, nil where they have something else.
func (c *Cycle) Following() *snapshot.Model {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.followed; f != nil && f.published {
		return f.installed[f.form]
	}
	return nil
}

// EndDeltas gives up the deltas that follow the newest update: a whole version comes next.
func (c *Cycle) EndDeltas() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unfollow()
}
