//go:build failpoint && simulation

package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kinds are what can happen, as often as they are named. Each is drawn in detail from the generator of its step.
var kinds = []string{
	"produce", "produce", "produce", "produce", "abort", "idle",
	"kill", "kill", "kill", "kill at a start", "stop", "settings",
	"cut", "hang", "refuse", "moved leader", "retention", "lost offsets",
}

// step does one thing and lets minutes pass.
func (w *world) step(kind string) error {
	if w.process == nil {
		if err := w.start(); err != nil {
			return err
		}
	}
	if err := w.act(kind); err != nil {
		return err
	}
	if w.process == nil {
		return nil
	}
	return w.sleepOrDie(w.minutes(20))
}

func (w *world) minutes(most int) time.Duration {
	return time.Duration(1+w.rng.IntN(most*60)) * time.Second
}

// sleepOrDie is sleep; a process that has died is looked at and begins again.
func (w *world) sleepOrDie(d time.Duration) error {
	if err := w.sleep(d); err != nil {
		return err
	}
	select {
	case <-w.process.ended:
		return w.end()
	default:
		return nil
	}
}

func (w *world) act(kind string) error {
	switch kind {
	case "produce":
		return w.produce(1+w.rng.IntN(40), true)
	case "abort":
		return w.produce(1+w.rng.IntN(5), false)
	case "idle":
		return w.sleepOrDie(w.minutes(240))
	case "kill": // some durable steps from now, while there is work
		w.process.steps.Store(int64(w.rng.IntN(30)))
		return w.produce(1+w.rng.IntN(40), true)
	case "kill at a start":
		if err := w.stop(); err != nil {
			return err
		}
		w.dieAfter = int64(w.rng.IntN(6))
		return nil
	case "stop":
		return w.stop()
	case "settings": // which a restart reads
		if err := w.stop(); err != nil {
			return err
		}
		return w.configure()
	case "cut":
		w.process.net.sever(false)
		return w.produce(1+w.rng.IntN(10), true)
	case "hang":
		resume := w.process.net.hang()
		defer resume()
		if err := w.produce(1+w.rng.IntN(10), true); err != nil {
			return err
		}
		return w.sleepOrDie(w.minutes(5))
	case "refuse": // requests of the daemon's kinds, for a while
		errs := []*kerr.Error{kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable, kerr.RequestTimedOut,
			kerr.CoordinatorNotAvailable, kerr.KafkaStorageError, kerr.OffsetNotAvailable, kerr.UnknownServerError}
		keys := []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets, kmsg.OffsetCommit, kmsg.OffsetFetch}
		fault := w.cluster.Fault(kfake.Fault{Keys: keys[:1+w.rng.IntN(len(keys))], Err: errs[w.rng.IntN(len(errs))], Count: -1})
		defer fault.Remove()
		if err := w.produce(1+w.rng.IntN(10), true); err != nil {
			return err
		}
		return w.sleepOrDie(w.minutes(2))
	case "moved leader":
		return w.cluster.MoveTopicPartition(topic, int32(w.rng.IntN(partitions)), int32(w.rng.IntN(brokers)))
	case "retention": // behind what every state has
		number := int32(w.rng.IntN(partitions))
		to := w.rng.Int64N(w.next[number] + 1)
		if err := w.cluster.DeleteRecords(topic, number, to); !errors.Is(err, kerr.OffsetOutOfRange) { // which says that they are gone already
			return err
		}
		return nil
	case "lost offsets": // which are a display
		_, err := w.clients[0].Request(context.Background(), deleteGroup("g"))
		return err
	}
	return fmt.Errorf("no step %q", kind)
}

func deleteGroup(name string) kmsg.Request {
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Groups = []string{name}
	return r
}
