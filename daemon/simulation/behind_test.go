//go:build failpoint && simulation

package simulation

import (
	"errors"
	"maps"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fallBack has a shard begin with what its state was some records before, or with nothing, while the brokers withhold
// the log: its heads are of less than what was merged, of fewer partitions, or of less than the rows that it wrote
// before it was killed. The trainer is looked at before the shard has caught up.
func (w *world) fallBack(m *member) error {
	if m == w.publisher || w.retained {
		return w.act("stop", m)
	}
	if err := w.stop(m); err != nil {
		return err
	}
	kept, next := m.state+"-kept", maps.Clone(m.next)
	if err := os.CopyFS(kept, os.DirFS(m.state)); err != nil {
		return err
	}
	err := w.start(m)
	if err == nil {
		err = w.sleepOrDie(5 * time.Second) // it says at once that it is there
	}
	if err == nil && m.process != nil && w.rng.IntN(2) == 0 {
		err = w.betweenRowsAndHead(m, func() error {
			m.process.kill()
			return nil
		})
	} else if err == nil {
		err = errors.Join(w.produce(1+w.rng.IntN(40), true), w.sleepOrDie(time.Minute))
	}
	if err == nil && m.process != nil {
		err = w.stop(m)
	}
	if err = errors.Join(err, os.RemoveAll(m.state)); err != nil {
		return err
	}
	withheld := w.rng.Perm(partitions)
	if w.rng.IntN(2) == 0 {
		m.next, err = next, os.Rename(kept, m.state)
	} else {
		m.next, err = map[int32]int64{}, os.RemoveAll(kept)
		withheld = withheld[:1+w.rng.IntN(partitions-1)]
	}
	if err != nil {
		return err
	}
	fault := kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Err: kerr.NotLeaderForPartition, Count: -1}
	for _, number := range withheld {
		fault.Partitions = append(fault.Partitions, int32(number))
	}
	over := w.cluster.Fault(fault)
	defer over.Remove()
	if err := w.startAll(); err != nil {
		return err
	}
	if err := w.sleepOrDie(2 * time.Minute); err != nil || w.publisher.process == nil {
		return err
	}
	return w.stop(w.publisher)
}

// betweenRowsAndHead has something happen, and seconds pass, when a shard has written rows, and before their head is
// written.
func (w *world) betweenRowsAndHead(m *member, what func() error) error {
	hung := m.process.net.hangAfterWrite()
	if err := w.produce(10+w.rng.IntN(40), true); err != nil {
		return err
	}
	select {
	case resume := <-hung:
		defer resume()
	case <-time.After(20 * time.Second): // it has ended
		return w.sleepOrDie(time.Second)
	}
	if err := w.sleepOrDie(time.Duration(1+w.rng.IntN(5)) * time.Second); err != nil || m.process == nil {
		return err
	}
	if err := what(); err != nil {
		return err
	}
	return w.sleepOrDie(time.Second)
}

// arriveLate has what a shard had on its way when it died arrive after its next process has begun and has written.
func (w *world) arriveLate(m *member) error {
	if m == w.publisher {
		return w.act("hang", m)
	}
	p := m.process
	resume := p.net.hang()
	defer resume()
	if err := w.sleepOrDie(time.Duration(20+w.rng.IntN(10)) * time.Second); err != nil ||
		m.process != p { // it writes a head at least
		return err
	}
	p.killed.Store(true)
	p.net.leave()
	if err := w.stop(m); err != nil {
		return err
	}
	if err := w.startAll(); err != nil {
		return err
	}
	for range 2 { // before it comes, and after
		if err := w.produce(1+w.rng.IntN(40), true); err != nil {
			return err
		}
		if err := w.sleepOrDie(time.Duration(5+w.rng.IntN(30)) * time.Second); err != nil {
			return err
		}
		resume()
	}
	return nil
}

// loseStart has the merge topic lose what it has, and the trainer its state, while a shard is away: its rows are
// nowhere else until it is back. Others may have begun just before, and have sent nothing since.
func (w *world) loseStart(m *member) error {
	if m == w.publisher {
		return w.act("stop", m)
	}
	w.losing, m.away = true, true
	defer func() { m.away = false }()
	for _, other := range w.members {
		if other.process == nil || other != m && other != w.publisher && w.rng.IntN(2) == 0 {
			continue
		}
		if err := w.stop(other); err != nil {
			return err
		}
		if other == m || other == w.publisher {
			continue
		}
		if err := w.start(other); err != nil {
			return err
		}
	}
	if err := w.sleepOrDie(5 * time.Second); err != nil { // in which they look at the topic
		return err
	}
	err := errors.Join(w.loseStateOf(w.publisher), w.cluster.DeleteRecords(merge, 0, -1))
	if err != nil {
		return err
	}
	if err := w.startAll(); err != nil {
		return err
	}
	if err := w.produce(1+w.rng.IntN(40), true); err != nil {
		return err
	}
	return w.sleepOrDie(w.minutes(60)) // in which the trainer may publish
}

// stopBetween stops the trainer when a shard has written rows and not their head, and another one's head has been
// merged, perhaps.
func (w *world) stopBetween(m *member) error {
	if m == w.publisher {
		return w.act("stop", m)
	}
	err := w.betweenRowsAndHead(m, func() error {
		if w.publisher.process == nil {
			return nil
		}
		return w.stop(w.publisher)
	})
	return errors.Join(err, w.startAll())
}

// loseLog has a process leave, and the brokers lose what the trainer has merged while others have its shards; then
// those leave, and it is given all shards. The log no longer has what the state that it left behind lacks, nor what
// the states of others had: it continues from the last heads, or not at all.
func (w *world) loseLog(m *member) error {
	if m == w.publisher {
		return w.act("stop", m)
	}
	leave := func(who *member) error {
		if who.process == nil {
			return nil
		}
		if w.rng.IntN(2) == 0 {
			return w.stop(who)
		}
		who.process.kill()
		return w.sleepOrDie(time.Second)
	}
	m.away = true
	if err := errors.Join(leave(m), w.startAll(), w.produce(20+w.rng.IntN(20), true), w.sleepOrDie(w.minutes(
		5))); err != nil {
		return err
	}
	if w.publisher.process != nil { // what it has is known when it has ended
		if err := w.stop(w.publisher); err != nil {
			return err
		}
	}
	for number, next := range w.publisher.next {
		w.retained = w.retained || next > 0
		if err := w.cluster.DeleteRecords(topic, number, next); err != nil &&
			!errors.Is(err, kerr.OffsetOutOfRange) { // which says that they are gone already
			return err
		}
	}
	for _, other := range w.members {
		other.away = other != m && other != w.publisher
		if other.away {
			if err := leave(other); err != nil {
				return err
			}
		}
	}
	return errors.Join(w.startAll(), w.produce(1+w.rng.IntN(20), true), w.sleepOrDie(w.minutes(5)))
}
