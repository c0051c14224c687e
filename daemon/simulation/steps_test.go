//go:build failpoint && simulation

package simulation

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kinds are what can happen, as often as they are named. Each is drawn in detail from the generator of its step.
var kinds = []string{
	"produce", "produce", "produce", "produce", "abort", "idle",
	"kill", "kill", "kill", "kill at a start", "stop", "settings", "full disk",
	"cut", "hang", "refuse", "slow", "moved leader", "retention", "lost offsets", "lost state",
}

// kindsOfTeam are those that can happen to a team alone.
var kindsOfTeam = []string{
	"compaction",
	"compaction",
	"lost tail",
	"lost tail",
	"power cut",
	"lost state",
	"taken for dead",
	"taken for dead",
	"fall back",
	"fall back",
	"arrive late",
	"lost start",
	"stop between",
}

// kindsOfGroup are those that can happen to processes to which a group gives shards.
var kindsOfGroup = []string{
	"compaction",
	"compaction",
	"lost tail",
	"lost tail",
	"power cut",
	"lost state",
	"leave",
	"leave",
	"leave",
	"log gone",
}

// step does one thing to a member and lets minutes pass.
func (w *world) step(kind string) error {
	if err := w.startAll(); err != nil {
		return err
	}
	m := w.members[w.rng.IntN(len(w.members))]
	for m.process == nil {
		m = w.members[w.rng.IntN(len(w.members))]
	}
	if err := w.act(kind, m); err != nil {
		return err
	}
	if w.isTeam() { // of whom more happens at a time
		return w.sleepOrDie(w.minutes(6))
	}
	return w.sleepOrDie(w.minutes(20))
}

// startAll starts who is dead.
func (w *world) startAll() error {
	for _, m := range w.members {
		if m.process == nil && !m.away {
			if err := w.start(m); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) minutes(most int) time.Duration {
	return time.Duration(1+w.rng.IntN(most*60)) * time.Second
}

// sleepOrDie is sleep; processes that have died are looked at and begin again with the next step.
func (w *world) sleepOrDie(d time.Duration) error {
	if err := w.sleep(d); err != nil {
		return err
	}
	for _, m := range w.members {
		if m.process != nil && m.process.hasEnded() {
			if err := w.end(m); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) act(kind string, m *member) error {
	switch kind {
	case "produce":
		return w.produce(1+w.rng.IntN(40), true)
	case "abort":
		return w.produce(1+w.rng.IntN(5), false)
	case "idle":
		return w.sleepOrDie(w.minutes(map[bool]int{true: 60, false: 240}[w.isTeam()]))
	case "kill": // some durable steps from now, while there is work
		m.process.steps.Store(int64(w.rng.IntN(30)))
		return w.produce(1+w.rng.IntN(40), true)
	case "kill at a start":
		if err := w.stop(m); err != nil {
			return err
		}
		m.dieAfter = int64(w.rng.IntN(6))
		return nil
	case "stop":
		return w.stop(m)
	case "settings": // which a restart reads
		if err := w.stop(m); err != nil {
			return err
		}
		return w.configure()
	case "cut":
		m.process.net.sever(false)
		return w.produce(1+w.rng.IntN(10), true)
	case "hang":
		resume := m.process.net.hang()
		defer resume()
		if err := w.produce(1+w.rng.IntN(10), true); err != nil {
			return err
		}
		return w.sleepOrDie(w.minutes(5))
	case "refuse": // requests of the daemon's kinds, for a while
		errs := []*kerr.Error{
			kerr.NotLeaderForPartition,
			kerr.UnknownTopicOrPartition,
			kerr.LeaderNotAvailable,
			kerr.RequestTimedOut,
			kerr.CoordinatorNotAvailable,
			kerr.KafkaStorageError,
			kerr.OffsetNotAvailable,
			kerr.UnknownServerError,
		}
		keys := []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets, kmsg.OffsetCommit, kmsg.OffsetFetch}
		fault := w.cluster.Fault(
			kfake.Fault{Keys: keys[:1+w.rng.IntN(len(keys))], Err: errs[w.rng.IntN(len(errs))], Count: -1})
		defer fault.Remove()
		if err := w.produce(1+w.rng.IntN(10), true); err != nil {
			return err
		}
		return w.sleepOrDie(w.minutes(2))
	case "slow":
		return w.slowBrokers()
	case "moved leader":
		return w.cluster.MoveTopicPartition(topic, int32(w.rng.IntN(partitions)), int32(w.rng.IntN(brokers)))
	case "retention": // behind what every state has
		number := int32(w.rng.IntN(partitions))
		next := w.owner(number).next[number]
		if w.isTeam() {
			next = min(next, w.publisher.next[number])
		}
		to := next // of what a state has, all or some
		if w.rng.IntN(2) == 0 {
			to = w.rng.Int64N(next + 1)
		}
		w.retained = w.retained || to > 0
		if err := w.cluster.DeleteRecords(topic, number, to); !errors.Is(
			err,
			kerr.OffsetOutOfRange,
		) { // which says that they are gone already
			return err
		}
		return nil
	case "lost offsets": // which are a display
		_, err := w.clients[0].Request(context.Background(), deleteGroup("g-"+m.name))
		return err
	case "full disk": // for so many durable steps, while there is work
		m.process.failing.Store(int64(1 + w.rng.IntN(5)))
		return w.produce(1+w.rng.IntN(40), true)
	case "leave": // and somebody else comes back
		for _, other := range w.members {
			other.away = false
		}
		if m == w.publisher {
			return nil
		}
		m.away = true
		if w.rng.IntN(2) == 0 {
			return w.stop(m)
		}
		m.process.kill()
		return nil
	case "log gone":
		return w.loseLog(m)
	case "compaction":
		w.cluster.Compact()
		return nil
	case "lost tail":
		if w.rng.IntN(2) == 0 { // while nobody is there to miss it
			if err := w.stop(w.publisher); err != nil {
				return err
			}
		}
		return w.loseTail(m)
	case "power cut":
		return w.cutPower()
	case "lost state":
		return w.loseState(m)
	case "taken for dead":
		return w.takeForDead(m)
	case "fall back":
		return w.fallBack(m)
	case "arrive late":
		return w.arriveLate(m)
	case "lost start":
		return w.loseStart(m)
	case "stop between":
		return w.stopBetween(m)
	}
	return fmt.Errorf("no step %q", kind)
}

// slowBrokers has the brokers take seconds for what they are sent and for what they are asked for.
func (w *world) slowBrokers() error {
	takes := time.Duration(1+w.rng.IntN(8000)) * time.Millisecond
	var over atomic.Bool
	w.cluster.Control(func(r kmsg.Request) (kmsg.Response, error, bool) {
		if over.Load() {
			w.cluster.DropControl()
			return nil, nil, false
		}
		w.cluster.KeepControl()
		switch r.(type) {
		case *kmsg.ProduceRequest, *kmsg.FetchRequest:
			w.cluster.SleepControl(func() { time.Sleep(takes) })
		}
		return nil, nil, false
	})
	defer over.Store(true)
	for range 1 + w.rng.IntN(6) {
		if err := w.produce(1+w.rng.IntN(20), true); err != nil {
			return err
		}
	}
	return w.sleepOrDie(w.minutes(2))
}

func deleteGroup(name string) kmsg.Request {
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Groups = []string{name}
	return r
}
