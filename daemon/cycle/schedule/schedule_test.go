package schedule

import (
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
)

// TestSchedule: what is due when, event by event and second by second.
func TestSchedule(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	train := &config.Train{Every: config.Duration(30 * time.Second), EveryEvents: 100}
	publish := &config.Publish{UpdateEvery: config.Duration(10 * time.Second)}
	s := New(&config.Model{}, start)
	wants := func(what string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s: due %v", what, got)
		}
	}
	wants("refit without events", s.RefitDue(train, at(40), 0), false)
	wants("refit before its time", s.RefitDue(train, at(29), 99), false)
	wants("refit at its time", s.RefitDue(train, at(30), 1), true)
	wants("refit after its events", s.RefitDue(train, at(1), 100), true)
	wants("refit by events alone", s.RefitDue(&config.Train{EveryEvents: 100}, at(1000), 99), false)
	wants("refit by neither", s.RefitDue(&config.Train{}, at(1000), 1000), false)
	s.RefitBegun(100)
	s.RefitEnded(at(35))
	wants("the next refit without events", s.RefitDue(train, at(70), 100), false)
	wants("the next refit, 30 s after the start of the last", s.RefitDue(train, at(60), 150), false)
	wants("the next refit, 30 s after the end of the last", s.RefitDue(train, at(65), 150), true)
	wants("the next refit after its events", s.RefitDue(train, at(36), 200), true)

	young, first := &config.Train{EveryEvents: 1000, FirstEvents: 200}, New(&config.Model{}, start)
	for _, due := range []int64{200, 400, 800, 1600, 2600, 3600} {
		wants("a young refit too soon", first.RefitDue(young, start, due-1), false)
		wants("a young refit", first.RefitDue(young, start, due), true)
		first.RefitBegun(due)
	}

	seldom := &config.Train{EveryEvents: 50_000}
	s.RefitBegun(50_000)
	s.Alarmed(51_000)
	wants("a refit too soon after an alarm", s.RefitDue(seldom, at(40), 51_000+hastenEvents-1), false)
	wants("a refit after an alarm", s.RefitDue(seldom, at(40), 51_000+hastenEvents), true)
	wants("a refit after an alarm without a schedule of refits", s.RefitDue(&config.Train{}, at(40), 90_000), false)
	s.RefitBegun(51_500) // of those on schedule
	wants("a refit too soon after the last one", s.RefitDue(seldom, at(40), 51_500+hastenEvents-1), false)
	wants("a refit after an alarm and another one", s.RefitDue(seldom, at(40), 51_500+hastenEvents), true)
	s.RefitBegun(51_500 + hastenEvents)
	wants("a second refit after an alarm", s.RefitDue(seldom, at(40), 100_000), false)

	wants("update before its time", s.UpdateDue(publish, at(9), 5), false)
	wants("update at its time", s.UpdateDue(publish, at(10), 5), true)
	wants("update that is switched off", s.UpdateDue(&config.Publish{}, at(1000), 5), false)
	s.Updated(at(10), 5)
	wants("the next update without events", s.UpdateDue(publish, at(20), 5), false)
	wants("the next update", s.UpdateDue(publish, at(20), 6), true)
	s.UpdateAgain()
	wants("an update after one that failed, early", s.UpdateDue(publish, at(19), 5), false)
	wants("an update after one that failed", s.UpdateDue(publish, at(20), 5), true)
	s.Updated(at(20), 5)
	s.Promoted()
	wants("an update after a promotion", s.UpdateDue(publish, at(21), 5), true)

	withDeltas := &config.Publish{
		UpdateEvery: config.Duration(time.Minute),
		Deltas:      config.Deltas{Every: config.Duration(2 * time.Second)},
	}
	s.Updated(at(100), 10)
	wants("an update that nobody asked for", s.UpdateDue(withDeltas, at(159), 11), false)
	s.AskUpdate()
	wants("an update that is asked for without deltas",
		s.UpdateDue(&config.Publish{UpdateEvery: withDeltas.UpdateEvery}, at(159), 11), false)
	wants("an update that is asked for, before a delta", s.UpdateDue(withDeltas, at(101), 11), false)
	wants("an update that is asked for, after a delta", s.UpdateDue(withDeltas, at(102), 11), true)
	s.UpdateEnded(at(103))
	wants("an update that is asked for, after one that took long", s.UpdateDue(withDeltas, at(129), 11), false)
	wants("an update that is asked for, ten times as long after it", s.UpdateDue(withDeltas, at(130), 11), true)
	s.UpdateEnded(at(150))
	wants("an update that is asked for, in its time", s.UpdateDue(withDeltas, at(160), 11), true)

	lists := New(cycletest.ChoicesModel(t), start)
	lists.Updated(at(0), 500)
	wants("an update of lists before a tenth more choices", lists.UpdateDue(publish, at(9), 549), false)
	wants("an update of lists after a tenth more choices", lists.UpdateDue(publish, at(1), 550), true)
	wants("an update of lists at once", lists.UpdateDue(publish, start, 5000), false)
	wants("an update of lists that is switched off", lists.UpdateDue(&config.Publish{}, at(9), 5000), false)
	lists.UpdateEnded(start.Add(200 * time.Millisecond))
	wants("an update of lists that take long", lists.UpdateDue(publish, at(1), 550), false)
}
