package shard_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/sketch"
)

// lossy has a sender write to a topic that loses rows or, as one whose end was lost, rows and heads.
func (r rig) lossy(heads bool) func(*shard.SenderOptions) {
	return func(o *shard.SenderOptions) {
		o.Kafka = append(r.kafka(), kgo.WithHooks(&losing{}))
		if heads {
			o.Kafka = append(o.Kafka, kgo.WithHooks(losingHeads{}))
		}
	}
}

// losingHeads is losing for heads.
type losingHeads struct{}

func (losingHeads) OnProduceRecordBuffered(r *kgo.Record) {
	if r.Key[0] == 'h' {
		r.Key = []byte("lost")
	}
}

// whole lets a shard and the trainer run until the trainer has so many rows and records, and fails the test if it never
// does.
func (r rig) whole(s, trainer *sketch.Store, n int) {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	sender, receiver, ended := r.sender(0, s, nil), r.receiver(trainer, 2), make(chan error, 2)
	if err := sender.Prepare(ctx); err != nil {
		r.Fatal(err)
	}
	go func() { ended <- sender.Run(ctx, make(chan struct{})) }()
	go func() { ended <- receiver.Run(ctx, false) }()
	daemontest.Within(r.T, daemontest.Patience, "all rows", func() bool {
		next, _ := trainer.Position("a", 0)
		rows, _ := trainer.Size()
		return next == int64(n) && rows[sketch.Train] == n
	})
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			r.Error(err)
		}
	}
}

// misses has the trainer read the topic: it asks for what is not there, and its accounts stay at an offset.
func (r rig) misses(trainer *sketch.Store, at int64) {
	r.Helper()
	receiver := r.receiver(trainer, 2)
	if err := receiver.Run(r.Context(), true); err != nil {
		r.Fatal(err)
	}
	if next, _ := trainer.Position("a", 0); next != at || !strings.Contains(receiver.Trouble(), "not in the topic") {
		r.Errorf("trouble %q, the trainer is at offset %d, not %d", receiver.Trouble(), next, at)
	}
}

// keepsLast has the broker delete all records of the merge topic but so many.
func (r rig) keepsLast(n int64) {
	r.Helper()
	client, err := kgo.NewClient(r.kafka()...)
	if err != nil {
		r.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	ends, err := admin.ListEndOffsets(r.Context(), merge)
	if err != nil {
		r.Fatal(err)
	}
	end, _ := ends.Lookup(merge, 0)
	deleted, err := admin.DeleteRecords(r.Context(), kadm.Offsets{merge: {0: {Topic: merge, At: end.Offset - n}}})
	if err = errors.Join(err, deleted.Error()); err != nil {
		r.Fatal(err)
	}
}

// TestLostFirst: rows are missed, too, that the topic has lost before the first head of a shard.
func TestLostFirst(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	s, trainer := store(t, sketch.Options{Seed: 7, Mirror: true}), store(t, sketch.Options{Seed: 7, Merges: true})
	apply(t, s, 0, 10)
	r.send(0, s, r.lossy(false))
	r.misses(trainer, 0)
	r.whole(s, trainer, 10)
}

// TestLostEnd: a shard whose rows and head were acknowledged and lost sends them again when it is started: its next
// instance counts its own rows alone, and the trainer would not miss them.
func TestLostEnd(t *testing.T) {
	for _, first := range []bool{true, false} {
		r := rig{t, daemontest.New(t)}
		s, trainer := store(t, sketch.Options{Seed: 7, Mirror: true}), store(t, sketch.Options{Seed: 7, Merges: true})
		if !first {
			apply(t, s, 0, 5)
			r.send(0, s, nil)
		}
		apply(t, s, 0, 10)
		r.send(0, s, r.lossy(true))
		apply(t, s, 0, 10)
		r.whole(s, trainer, map[bool]int{true: 20, false: 25}[first])
	}
}

// TestFreshShard: a shard that reads its partitions again from the start is merged once it has come as far in all of
// them. What it has rejected by then of one is not all that it had rejected.
func TestFreshShard(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	fill := func(s *sketch.Store, partition int32) {
		apply(t, s, partition, 5)
		p := &sketch.Part{
			Topic:     "a",
			Partition: partition,
			Base:      5,
			Next:      6,
			Records:   []sketch.Record{{Offset: 5, Fate: sketch.Rejected, Reason: "no_event"}},
		}
		if err := s.Apply(p, nil); err != nil {
			t.Fatal(err)
		}
	}
	s, fresh, trainer := store(t, sketch.Options{Seed: 7, Mirror: true}), store(t,
		sketch.Options{Seed: 7, Mirror: true}),
		store(t, sketch.Options{Seed: 7, Merges: true})
	fill(s, 0)
	fill(s, 2)
	r.send(0, s, nil)
	for _, partition := range []int32{0, 2} {
		fill(fresh, partition)
		r.send(0, fresh, nil)
		receiver := r.receiver(trainer, 2)
		if err := receiver.Run(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if got := receiver.Status()[0].Refused; got != "" {
			t.Errorf("refused: %s", got)
		}
		if err := trainer.Check(); err != nil {
			t.Errorf("with partition %d: %v", partition, err)
		}
	}
}

// TestLostBelowAGap: a trainer that begins with nothing finds rows missing, too, where the topic lacks records that
// may or may not have mattered: a head says how many rows there have to be.
func TestLostBelowAGap(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	client, err := kgo.NewClient(append(r.kafka(), kgo.AllowAutoTopicCreation())...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s, trainer := store(t, sketch.Options{Seed: 7, Mirror: true}), store(t, sketch.Options{Seed: 7, Merges: true})
	r.send(0, s, nil)
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: merge, Key: []byte("none"),
		Value: []byte{1}}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r.keepsLast(1)
	apply(t, s, 0, 10)
	r.send(0, s, r.lossy(false))
	r.misses(trainer, 0)
	r.whole(s, trainer, 10)
}

// TestLostWhileAway: a trainer that was away while rows were lost, and compaction passed, misses them.
func TestLostWhileAway(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	s, trainer := store(t, sketch.Options{Seed: 7, Mirror: true}), store(t, sketch.Options{Seed: 7, Merges: true})
	apply(t, s, 0, 5)
	r.send(0, s, nil)
	if err := r.receiver(trainer, 2).Run(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	apply(t, s, 0, 5)
	r.send(0, s, r.lossy(false))
	r.keepsLast(1) // the head
	r.misses(trainer, 5)
	r.whole(s, trainer, 10)
}

// TestLostStartOfARunBefore: a trainer that has lost its state, or was away, misses the rows that a run of a shard has
// sent, where the topic has lost them since the next run began, which counts its own alone.
func TestLostStartOfARunBefore(t *testing.T) {
	for _, merged := range []bool{false, true} {
		r, at := rig{t, daemontest.New(t)}, int64(0)
		s, trainer := store(t, sketch.Options{Seed: 7, Mirror: true}), store(t, sketch.Options{Seed: 7, Merges: true})
		if merged {
			apply(t, s, 0, 5)
			r.send(0, s, nil)
			if err := r.receiver(trainer, 2).Run(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			at = 5
		}
		apply(t, s, 0, 10)
		r.send(0, s, nil)
		sender, done := r.sender(0, s, nil), make(chan struct{})
		close(done)
		if err := sender.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.keepsLast(0)
		if err := sender.Run(t.Context(), done); err != nil {
			t.Fatal(err)
		}
		r.misses(trainer, at)
		r.whole(s, trainer, int(at)+10)
		if err := trainer.Check(); err != nil {
			t.Error(err)
		}
	}
}

// lostAll returns a shard whose three runs a trainer has merged, and of which the topic has lost everything.
func lostAll(t *testing.T) (r rig, s, trainer *sketch.Store) {
	t.Helper()
	r = rig{t, daemontest.New(t)}
	s, trainer = store(t, sketch.Options{Seed: 7, Mirror: true}), store(t, sketch.Options{Seed: 7, Merges: true})
	for range 3 { // epochs
		apply(t, s, 0, 5)
		r.send(0, s, nil)
	}
	if err := r.receiver(trainer, 2).Run(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	r.keepsLast(0)
	return r, s, trainer
}

// TestLostStartOfAll: a shard that begins when the topic has lost all that it had sent counts as later than what the
// trainer has merged.
func TestLostStartOfAll(t *testing.T) {
	r, s, trainer := lostAll(t)
	apply(t, s, 0, 5)
	r.whole(s, trainer, 20)
}

// TestLostStartAndState: a shard that begins with an empty state when the topic has lost all that it had sent is
// merged once it is as far as it was: the trainer, which has merged later runs of it, sends it that state.
func TestLostStartAndState(t *testing.T) {
	r, _, trainer := lostAll(t)
	fresh := store(t, sketch.Options{Seed: 7, Mirror: true})
	apply(t, fresh, 0, 20)
	r.whole(fresh, trainer, 20)
	if err := trainer.Check(); err != nil {
		t.Error(err)
	}
}

// TestStopWhilePreparing: a shard that is stopped before it has read the merge topic ends without an error.
func TestStopWhilePreparing(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	ctx, cancel := context.WithCancel(t.Context())
	dial := func(context.Context, string, string) (net.Conn, error) {
		cancel()
		return nil, errors.New("no route")
	}
	s := store(t, sketch.Options{Seed: 7, Mirror: true})
	if err := r.sender(0, s, func(o *shard.SenderOptions) { o.Kafka = append(o.Kafka, kgo.Dialer(dial)) }).Prepare(
		ctx); err != nil {
		t.Error(err)
	}
}

// TestDiedBeforeHead: a run of a shard that wrote rows and died before their head is not taken for a later one than the
// next run, whatever both are called.
func TestDiedBeforeHead(t *testing.T) {
	b := daemontest.New(t)
	whole, trainer := configure(b, "whole", ""), configure(b, "trainer", "role: trainer, count: 1")
	only := configure(b, "shard0", `role: shard, count: 1, index: "0"`)
	b.ProduceRatings(1, 500)
	if out := b.Run(only); out.Err != nil {
		t.Fatal(out.Err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.ConsumeTopics(merge), kgo.DefaultProduceTopic(merge))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var died *kgo.Record
	for died == nil {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if len(r.Headers) > 0 && r.Value != nil {
				died = r
			}
		})
	}
	by := slices.Clone(died.Headers[0].Value)
	epoch := by[8:16]
	binary.BigEndian.PutUint64(epoch, binary.BigEndian.Uint64(epoch)+1)
	died = &kgo.Record{
		Key:     died.Key,
		Value:   died.Value,
		Headers: []kgo.RecordHeader{{Key: died.Headers[0].Key, Value: append(by[:16], '~')}},
	}
	if err := client.ProduceSync(t.Context(), died).FirstErr(); err != nil {
		t.Fatal(err)
	}
	b.ProduceRatings(2, 500)
	if out := b.Run(only); out.Err != nil {
		t.Fatal(out.Err)
	}
	compare(t, "after a run that died before its head", b.Run(trainer), b.Run(whole))
}

// TestStopBetweenRuns: rows of a run of a shard wait for a head, for compaction took that run's own, when the trainer
// ends between those of the next run and their head.
func TestStopBetweenRuns(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	first, second := store(t, sketch.Options{Seed: 7, Mirror: true}), store(t, sketch.Options{Seed: 7, Mirror: true})
	trainer := store(t, sketch.Options{Seed: 7, Merges: true})
	apply(t, first, 0, 5)
	r.send(0, first, nil)
	apply(t, first, 0, 5)
	r.send(0, first, nil)
	apply(t, second, 1, 5)
	r.send(1, second, nil)
	client, err := kgo.NewClient(append(r.kafka(), kgo.ConsumeTopics(merge), kgo.DefaultProduceTopic(merge))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var all []*kgo.Record
	for len(all) == 0 || string(all[len(all)-1].Key) != "h\x00\x00\x00\x01" {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		all = append(all, fetches.Records()...)
	}
	var heads []*kgo.Record // of the first shard
	all = slices.DeleteFunc(all, func(rec *kgo.Record) bool {
		head := string(rec.Key) == "h\x00\x00\x00\x00"
		if head {
			heads = append(heads, rec)
		}
		return head
	})
	r.keepsLast(0)
	for _, records := range [][]*kgo.Record{all, heads[1:]} {
		for _, rec := range records {
			again := &kgo.Record{Key: rec.Key, Value: rec.Value, Headers: rec.Headers}
			if err := client.ProduceSync(t.Context(), again).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.receiver(trainer, 2).Run(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	if rows, _ := trainer.Size(); rows[sketch.Train] != 15 {
		t.Errorf("the trainer has %d rows, not 15", rows[sketch.Train])
	}
	if err := trainer.Check(); err != nil {
		t.Error(err)
	}
}
