package cycle

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/refitd/refitd/snapshot"
)

// ErrNoChampion is returned where there is nothing that is live yet.
var ErrNoChampion = errors.New("cycle: there is no champion")

// liveCopy is the live model as it was given out last, as a model that deltas bring up to the live model of now.
type liveCopy struct {
	*following
	champion *Champion
}

// Live returns what takeLive does, and by the guard of updates why consumers should not be given it in place of what they have: "" where they may.
func (c *Cycle) Live(now, watermark time.Time, writer string) (m *snapshot.Model, heldBack HeldBack, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m, err = c.takeLive(now, watermark, writer); err != nil {
		return nil, "", err
	}
	of := frozen{model: c.champion.Model, vocab: c.champion.Vocabulary, after: m, popular: c.liveAdded}
	return m, c.guard.judge(&of, &c.published.frozen), nil
}

// takeLive returns the live model, in the form that updates are made of, with when it was taken and up to what event:
// what an update would hold now. What has not changed since it was called last it shares with what it returned then, as
// updates share it with their deltas: a name's row is as it was at its last event. After a refit, and where updates
// have to be made anew, all is copied. The error is ErrNoChampion, or says why the live model is none that can be
// scored with. One goroutine at a time may call it, beside the one that updates. c.mu is held, but for while a model is
// made.
func (c *Cycle) takeLive(now, watermark time.Time, writer string) (*snapshot.Model, error) {
	if l := c.live; l != nil && l.champion == c.champion && l.form == c.race.chosen {
		own := l.forms[l.form]
		l.list(own.most())
		d, whole := own.take(c, l.form, l.movePopularity(c, own.most()))
		if d == nil {
			d = &snapshot.Delta{Sequence: own.model.Position().Sequence + 1} // it is the model of now
		}
		if d.Created, d.Watermark = now, watermark; whole == "" && own.refused == 0 && !l.waits() {
			c.mu.Unlock()
			next, err := own.model.Apply(d)
			c.mu.Lock()
			if err == nil {
				own.model, c.liveAdded = next, l.popular
				return next, nil
			}
		}
	}
	c.endLive()
	return c.copyLive(now, watermark, writer)
}

// copyLive returns a copy of the live model, which the next ones share. c.mu is held, but for while the copy becomes a model.
func (c *Cycle) copyLive(now, watermark time.Time, writer string) (*snapshot.Model, error) {
	if c.champion == nil {
		return nil, ErrNoChampion
	}
	forms := c.forms(false)
	u, settings := c.update(&forms), c.config
	if !u.Model.IsFinite() {
		return nil, errors.New("cycle: the live model is not finite")
	}
	l := &liveCopy{&following{of: u, form: c.race.chosen, popular: u.popular}, c.champion}
	var own *follower
	if m := &forms[l.form]; m.model == u.Model && l.form != formNames { // whose learner lists pairs for updates alone
		own = c.newFollower(l.following, l.form, m)
	}
	if l.forms[l.form] = own; own != nil {
		c.live = l
	}
	c.liveAdded = u.popular
	c.mu.Unlock()
	contents := u.contentsOf(settings)
	contents.Golden, contents.Meta.Cut, contents.Meta.Events, contents.Meta.Gate = nil, nil, nil, nil
	contents.Meta.Writer, contents.Meta.Created, contents.Meta.Watermark, contents.Meta.Decision = writer, now, watermark, ""
	m, err := snapshot.NewModel(contents)
	c.mu.Lock()
	switch {
	case err != nil:
		c.endLive()
		return nil, fmt.Errorf("cycle: live: %w", err)
	case own != nil:
		own.begin(m, u, settings)
	}
	return m, nil
}

// endLive ends what follows the live model for Live. c.mu is held.
func (c *Cycle) endLive() {
	if c.live != nil {
		c.live.unlist()
		c.live = nil
	}
}

// list takes the slots that were touched, at most limit of each source, for the deltas at hand.
func (f *following) list(limit int) {
	for _, s := range f.sources {
		s.taken = s.touched.take(s.taken[:0], limit)
	}
}

// waits reports whether more slots were touched than were listed.
func (f *following) waits() bool {
	return slices.ContainsFunc(f.sources, func(s *source) bool { return len(s.touched.list) > 0 })
}

// unlist ends the lists of what is touched.
func (f *following) unlist() {
	for _, s := range f.sources {
		s.slots.touched = slices.DeleteFunc(s.slots.touched, func(t *touched) bool { return t == s.touched })
	}
}
