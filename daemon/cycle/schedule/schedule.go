package schedule

import (
	"time"

	"github.com/refitd/refitd/daemon/config"
)

// Schedule says when a model is due for a refit and for an update, on whatever clock the times that it is asked with
// come from: the daemon's is the monotonic one, that of a backtest is simulated. It belongs to one goroutine.
type Schedule struct {
	RefitAt  time.Time // end of the last refit
	UpdateAt time.Time // of the last update; zero makes one due at once
	DeltaAt  time.Time // of the last delta

	refitEvents  int64         // applied when the last refit began
	updateEvents int64         // applied at the last update
	deltaEvents  int64         // applied at the last delta
	asked        bool          // deltas ask for an update
	again        bool          // the last one was only compared
	took         time.Duration // the last update
	lists        bool          // updates are of choices
	hastened     int64         // how many have to be applied for the refit that an alarm asked for, 0 without one
}

// hastenEvents is how many events have to follow an alarm of the drift detector, and the previous refit, before a refit
// is due for it. With fewer events since the change a refit would hardly differ from the one before. Chosen by hand.
const hastenEvents = 2500

// New returns the schedule of a model that begins now and has seen no events.
func New(m *config.Model, now time.Time) Schedule {
	return Schedule{RefitAt: now, UpdateAt: now, DeltaAt: now, lists: m.ChosenField() >= 0}
}

// RefitDue reports whether a refit is due with so many events applied: train.every_events after the last one began, of
// a young model as many as before it, or train.every after it ended if there were events since, or hastenEvents after
// an alarm and the last one where either is set.
func (s *Schedule) RefitDue(train *config.Train, now time.Time, applied int64) bool {
	return train.EveryEvents > 0 && applied-s.refitEvents >= s.eventsBetween(train) ||
		train.Every > 0 && applied > s.refitEvents && now.Sub(s.RefitAt) >= train.Every.Std() ||
		(train.EveryEvents > 0 || train.Every > 0) && s.hastened > 0 &&
			applied >= max(s.hastened, s.refitEvents+hastenEvents)
}

// eventsBetween returns how many events the next refit comes after the last one: as many as that had, at least
// train.first_events and at most train.every_events. So a young model has a version early, and what its refits cost
// together stays in proportion to its events.
func (s *Schedule) eventsBetween(train *config.Train) int64 {
	if train.FirstEvents == 0 {
		return int64(train.EveryEvents)
	}
	return min(int64(train.EveryEvents), max(int64(train.FirstEvents), s.refitEvents))
}

// Doubled reports whether at least as many events were applied since the last refit began as before it: how often a
// model refits while it catches up, as what it publishes then is old anyway.
func (s *Schedule) Doubled(applied int64) bool { return applied >= 2*s.refitEvents }

// Alarmed notes an alarm of the drift detector with so many events applied, which makes a refit due soon.
func (s *Schedule) Alarmed(applied int64) { s.hastened = applied + hastenEvents }

// RefitBegun notes that a refit begins on the events applied so far.
func (s *Schedule) RefitBegun(applied int64) {
	if s.refitEvents = applied; applied >= s.hastened {
		s.hastened = 0
	}
}

// RefitEnded notes that the refit under way has ended.
func (s *Schedule) RefitEnded(now time.Time) { s.RefitAt = now }

// UpdateDue reports whether an update is due: publish.update_every after the last one, if there were events since, or
// sooner where deltas cannot continue, or where choices have become so many more that a young list is old.
func (s *Schedule) UpdateDue(publish *config.Publish, now time.Time, applied int64) bool {
	every := publish.UpdateEvery.Std()
	wait := every
	if deltas := publish.Deltas.Every.Std(); s.asked && deltas > 0 {
		if s.again { // which takes no longer than the last one
			deltas /= deltaHaste
		}
		wait = min(every, max(deltas, askedTimes*s.took))
	}
	if s.lists && applied-s.updateEvents >= s.updateEvents/listGrowth {
		wait = min(wait, max(every/listGrowth, askedTimes*s.took))
	}
	return every > 0 && now.Sub(s.UpdateAt) >= wait && applied > s.updateEvents
}

// askedTimes is how many times as long as the last update took, and publish.deltas.every at the least, has to be over
// since then before deltas have another one made: a whole version costs as much as many deltas. Chosen by hand.
const askedTimes = 10

// listGrowth is the part of the choices that is new when an update of choices is due sooner, and the part of
// publish.update_every that has to be over then. Chosen by hand: of the pairs of lastfm in six orders, lists of
// popularity find 1 % less in the first 2,000 choices than if they were made anew after each, and 11 % less if made
// each 1,000 choices.
const listGrowth = 10

// AskUpdate makes an update due soon: deltas of the last one cannot continue, or it would be much better.
func (s *Schedule) AskUpdate() { s.asked = true }

// Updated notes that an update was made of the events applied so far, or that there was none to make.
func (s *Schedule) Updated(now time.Time, applied int64) {
	s.UpdateAt, s.updateEvents, s.asked, s.again = now, applied, false, false
}

// UpdateEnded notes that the last update was written. Without it updates take no time.
func (s *Schedule) UpdateEnded(now time.Time) { s.took = now.Sub(s.UpdateAt) }

// DeltaDue reports whether a delta is due, so long after the last one, 0 for never, if there were events since. Where
// changed reports that consumers lose much more than they used to, it is due deltaHaste times as soon.
func (s *Schedule) DeltaDue(every time.Duration, now time.Time, applied int64, changed func() bool) bool {
	since := now.Sub(s.DeltaAt)
	return every > 0 && applied > s.deltaEvents && (since >= every || since >= every/deltaHaste && changed())
}

// deltaHaste is how many times as often deltas come after a change of the stream. Chosen by hand.
const deltaHaste = 10

// DeltaTaken notes that a delta was made of the events applied so far, or that there was none to make.
func (s *Schedule) DeltaTaken(now time.Time, applied int64) { s.DeltaAt, s.deltaEvents = now, applied }

// Promoted makes an update due at once: consumers get what was learned since the cut of the refit that was promoted.
func (s *Schedule) Promoted() { s.UpdateAt, s.updateEvents = time.Time{}, 0 }

// UpdateAgain lets the next update come when it is due, with new events or without, and soon where deltas wait for it.
func (s *Schedule) UpdateAgain() { s.updateEvents, s.asked, s.again = 0, true, true }
