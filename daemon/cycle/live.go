package cycle

import (
	"errors"
	"fmt"
	"time"

	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/guard"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/scorer"
)

// Live returns what takeLive does, and by the guard of updates why consumers should not be given it in place of what
// they have: "" where they may.
func (c *Cycle) Live(now, watermark time.Time, writer string) (m *snapshot.Model, heldBack guard.HeldBack, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m, err = c.takeLive(now, watermark, writer); err != nil {
		return nil, "", err
	}
	of := fitted.FixedModel{Model: c.champion.Model, Vocab: c.champion.Vocabulary, After: m,
		Popular: c.publisher.liveAdded}
	served := c.publisher.published.Load()
	return m, c.publisher.guard.Judge(&of, &served.FixedModel, &served.Refit), nil
}

// takeLive returns the live model, in the variant that updates are made of, with its time and its last event: what an
// update would hold now. The returned model shares unchanged rows with the previous one, as updates share them with
// their deltas: a name's row is as it was at its last event. After a refit, and where updates have to be made anew, all
// is copied. The error is ErrNoChampion, or says why the live model cannot score. One goroutine at a time may call it,
// concurrent with the one that updates. c.mu is held, except while a model is made.
func (c *Cycle) takeLive(now, watermark time.Time, writer string) (*snapshot.Model, error) {
	if l := c.publisher.live; l != nil && l.Champion == c.champion && l.Form == c.publisher.race.Chosen {
		own := l.Forms[l.Form]
		c.ensemble.begin()
		l.List(own.Most())
		d, whole := encodeDelta(own, c, l.Form, movePopularity(l.DeltaStream, c, own.Most()),
			l.TakeTables())
		if d == nil {
			d = &format.Delta{Sequence: own.Model.Position().Sequence + 1} // nothing has changed
		}
		if d.Created, d.Watermark = now, watermark; whole == "" && own.Refused == 0 && !l.Waits() {
			c.mu.Unlock()
			next, err := own.Model.Apply(d)
			c.mu.Lock()
			if err == nil {
				own.Model, c.publisher.liveAdded = next, l.Popular
				return next, nil
			}
		}
	}
	c.publisher.endLive()
	return c.copyLive(now, watermark, writer)
}

// copyLive returns a copy of the live model, which the next ones share. c.mu is held, but for while the copy becomes a
// model.
func (c *Cycle) copyLive(now, watermark time.Time, writer string) (*snapshot.Model, error) {
	if c.champion == nil {
		return nil, updates.ErrNoChampion
	}
	c.ensemble.begin()
	forms := c.ensemble.candidates(false)
	u, settings := c.update(&forms), c.config
	if !u.Model.IsFinite() {
		return nil, errors.New("cycle: the live model is not finite")
	}
	l := &updates.LiveCopy{
		DeltaStream: &updates.DeltaStream{Of: u, Form: c.publisher.race.Chosen, Popular: u.Popular},
		Champion:    c.champion,
	}
	u.Tables = l.FollowTables(c.tables)
	var own *updates.DeltaEncoder
	if m := &forms[l.Form]; m.Model == u.Model &&
		l.Form != mixture.FormNames { // whose learner lists pairs for updates alone
		own = c.ensemble.newDeltaEncoder(l.DeltaStream, l.Form, m)
	}
	if l.Forms[l.Form] = own; own != nil {
		c.publisher.live = l
	}
	c.publisher.liveAdded = u.Popular
	c.mu.Unlock()
	contents := updates.ContentsOf(u, settings)
	contents.Golden, contents.Meta.Cut, contents.Meta.Events, contents.Meta.Gate = nil, nil, nil, nil
	contents.Meta.Writer, contents.Meta.Created, contents.Meta.Watermark, contents.Meta.Decision = writer, now, watermark,
		""
	m, err := scorer.NewModel(contents)
	c.mu.Lock()
	switch {
	case err != nil:
		c.publisher.endLive()
		return nil, fmt.Errorf("cycle: live: %w", err)
	case own != nil:
		own.Begin(m, u, settings)
	}
	return m, nil
}

// endLive ends the delta stream of the live copy. c.mu is held.
func (u *publisher) endLive() {
	if u.live != nil {
		u.live.Unlist()
		u.live = nil
	}
}
