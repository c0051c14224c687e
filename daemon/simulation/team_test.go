//go:build failpoint && simulation

package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// compareTeam compares what a trainer has with what one daemon has that read everything.
func compareTeam(got, want report.State) error {
	for _, c := range []struct {
		what      string
		got, want any
	}{{"accounts", got.Partitions, want.Partitions}, {"rows", got.Rows, want.Rows}, {"digest", got.SampleDigest,
		want.SampleDigest},
		{"reasons", got.RejectedByReason, want.RejectedByReason}} {
		if !reflect.DeepEqual(c.got, c.want) {
			return fmt.Errorf("the trainer has %s %+v, one daemon has %+v", c.what, c.got, c.want)
		}
	}
	return nil
}

// leaveNothing stops a process of shards in order while it has read what it has not sent yet: the merge topic then has
// heads of all that its states have.
func (w *world) leaveNothing(m *member) error {
	if m.process == nil {
		return nil
	}
	if err := w.produce(20, true); err != nil {
		return err
	}
	time.Sleep(time.Duration(w.rng.IntN(100)) * time.Millisecond)
	if err := w.stop(m); err != nil {
		return err
	}
	heads, err := w.heads()
	if err != nil {
		return err
	}
	dirs, err := filepath.Glob(filepath.Join(m.state, "shard-*", modelName))
	if !w.grouped {
		dirs = []string{filepath.Join(m.state, modelName)}
	}
	for _, dir := range dirs {
		s, openErr := sketch.OpenExisting(context.Background(), dir, nil)
		if openErr != nil {
			return errors.Join(err, openErr)
		}
		has, headErr := s.Head()
		sent, of := heads[s.Lineage()]
		if of && headErr == nil && !reflect.DeepEqual(sent.Ledger, has.Ledger) {
			err = errors.Join(
				err,
				fmt.Errorf("%s has not sent all of %s that it had when it was stopped", m.name,
					filepath.Base(filepath.Dir(dir))),
			)
		}
		err = errors.Join(err, headErr, s.Close())
	}
	return err
}

// heads returns the last heads in the merge topic, by the states that wrote them.
func (w *world) heads() (map[string]sketch.Head, error) {
	ends, err := kadm.NewClient(w.clients[0]).ListEndOffsets(context.Background(), merge)
	if err != nil {
		return nil, err
	}
	end, _ := ends.Lookup(merge, 0)
	reader, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.Dialer(w.pipes.DialContext),
		kgo.ConsumeTopics(merge))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	type written struct {
		State string      `json:"state"`
		Head  sketch.Head `json:"head"`
	}
	last := map[string]written{} // of each shard
	for next := int64(0); next < end.Offset; {
		fetches := reader.PollFetches(context.Background())
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			var h written
			if r.Key[0] == 'h' && json.Unmarshal(r.Value, &h) == nil {
				last[string(r.Key)] = h
			}
		})
	}
	heads := map[string]sketch.Head{}
	for _, h := range last {
		heads[h.State] = h.Head
	}
	return heads, nil
}

// loseTail has the brokers acknowledge what is written to the merge topic for a while and lose it, as those do whose
// leader was not in sync with the one before it. A member may be stopped in that time, so that its next process is the
// one that can know of it.
func (w *world) loseTail(m *member) error {
	w.losing = true
	topics, err := kadm.NewClient(w.clients[0]).ListTopics(context.Background(), merge)
	if err != nil {
		return err
	}
	id := topics[merge].ID
	var over atomic.Bool
	w.cluster.ControlKey(kmsg.Produce.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		if over.Load() {
			w.cluster.DropControl()
			return nil, nil, false
		}
		w.cluster.KeepControl()
		lost, answer := r.(*kmsg.ProduceRequest), r.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range lost.Topics {
			if t.Topic != merge && t.TopicID != id {
				return nil, nil, false
			}
			answered := kmsg.NewProduceResponseTopic()
			answered.Topic, answered.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				partition := kmsg.NewProduceResponseTopicPartition()
				partition.Partition = p.Partition
				answered.Partitions = append(answered.Partitions, partition)
			}
			answer.Topics = append(answer.Topics, answered)
		}
		return answer, nil, true
	})
	defer over.Store(true)
	if err := w.produce(1+w.rng.IntN(20), true); err != nil {
		return err
	}
	if err := w.sleepOrDie(time.Duration(1+w.rng.IntN(40)) * time.Second); err != nil || m.process == nil ||
		w.rng.IntN(2) == 0 {
		return err
	}
	return w.stop(m)
}

// cutPower ends all shards at once when some more requests have written to the merge topic: rows are there then, and
// perhaps the head not that they belong to.
func (w *world) cutPower() error {
	var living []*process
	for _, m := range w.members {
		if m != w.publisher && m.process != nil {
			living = append(living, m.process)
		}
	}
	topics, err := kadm.NewClient(w.clients[0]).ListTopics(context.Background(), merge)
	if err != nil {
		return err
	}
	id, left := topics[merge].ID, 1+w.rng.IntN(4)
	var over atomic.Bool
	w.cluster.ControlKey(kmsg.Produce.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) { // one at a time
		w.cluster.KeepControl()
		asked := r.(*kmsg.ProduceRequest)
		if over.Load() {
			w.cluster.DropControl()
			return nil, nil, false
		}
		if !slices.ContainsFunc(asked.Topics,
			func(t kmsg.ProduceRequestTopic) bool { return t.Topic == merge || t.TopicID == id }) {
			return nil, nil, false
		}
		if left--; left > 0 {
			return nil, nil, false
		}
		over.Store(true)
		w.cluster.DropControl()
		for _, p := range living {
			p.kill()
		}
		return nil, errSevered, true
	})
	defer over.Store(true)
	if err := w.produce(1+w.rng.IntN(40), true); err != nil {
		return err
	}
	return w.sleepOrDie(time.Minute)
}

// loseState has a member begin with nothing: a shard or a daemon that is whole reads its partitions again, as long as
// the brokers have them, and the trainer, and who is given shards by a group, the merge topic.
func (w *world) loseState(m *member) error {
	if err := w.stop(m); err != nil || (m != w.publisher || !w.isTeam()) && !w.grouped && w.retained {
		return err
	}
	return w.loseStateOf(m)
}

// loseStateOf is loseState of a member that has ended.
func (w *world) loseStateOf(m *member) error {
	m.next, w.lost = map[int32]int64{}, w.lost || m == w.publisher
	return os.RemoveAll(m.state)
}

// takeForDead pauses a shard, and has another process be it, elsewhere and with a separate state. Then the first one
// continues, with all that it has still to say: one of the two has to end.
func (w *world) takeForDead(m *member) error {
	if m == w.publisher || w.retained {
		return w.act("hang", m)
	}
	first := m.process
	resume := first.net.hang()
	defer resume()
	if err := w.produce(1+w.rng.IntN(20), true); err != nil {
		return err
	}
	if err := w.sleepOrDie(w.minutes(2)); err != nil || m.process != first {
		return err
	}
	w.moves++
	m.state, m.next, m.process = fmt.Sprintf("%s-%d", m.state, w.moves), map[int32]int64{}, nil
	w.late = append(w.late, first)
	if err := w.start(m); err != nil {
		return err
	}
	if err := w.sleepOrDie(w.minutes(5)); err != nil {
		return err
	}
	resume()
	for range 3 { // the second may be the one that ends, and then begins again
		if err := w.startAll(); err != nil {
			return err
		}
		if err := w.sleepOrDie(3 * time.Minute); err != nil {
			return err
		}
	}
	if !first.hasEnded() {
		return fmt.Errorf("%s is two processes for good", m.name)
	}
	w.late = w.late[:len(w.late)-1]
	processes.Delete(first.label)
	return first.trouble(m.name)
}
