package shard_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/sketch"
)

// reading counts the records that are fetched, how often they are from an earlier offset on than those before, and
// those that are written. first is the smallest offset of those fetched, and from where they were read last: how many
// there are from an offset on is up to compaction, which runs whenever it will.
type reading struct{ fetched, written, first, times, from, last atomic.Int64 }

func (c *reading) OnFetchRecordBuffered(r *kgo.Record) { // one client reads at a time
	n := c.fetched.Add(1)
	if n == 1 || r.Offset < c.first.Load() {
		c.first.Store(r.Offset)
	}
	if last := c.last.Swap(r.Offset); n == 1 || r.Offset <= last {
		c.times.Add(1)
		c.from.Store(r.Offset)
	}
}

func (c *reading) OnProduceRecordBuffered(*kgo.Record) { c.written.Add(1) }

// counted has a sender of a group count what it reads and writes.
func (r rig) counted(c *reading) func(*shard.SenderOptions) {
	return func(o *shard.SenderOptions) { o.Kafka, o.Moves = append(r.kafka(), kgo.WithHooks(c)), true }
}

// heads sends a store in so many heads, each of 20 events more.
func (r rig) heads(s *sketch.Store, n int) {
	r.Helper()
	for range n {
		apply(r.T, s, 0, 20)
		r.send(0, s, nil)
	}
}

// TestPrepareReadsOn: a shard that is started again reads the topic from where it was when it sent its last head, and
// sends nothing again that the topic has.
// One whose last head is lost reads all of it, and sends everything again.
func TestPrepareReadsOn(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	s := store(t, sketch.Options{Seed: 7, Mirror: true})
	r.heads(s, 5)
	early := records(t, r.Bench, merge) // rows before it stay in the sample and in the topic
	long := r.sender(0, s, nil)         // with heads of one instance
	if err := long.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	done, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- long.Run(t.Context(), done) }()
	for range 3 {
		apply(t, s, 0, 20)
		daemontest.Within(t, daemontest.Patience, "a head", func() bool { return nothingToSend(t, s) })
	}
	close(done)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	var other reading // under another policy, which reads all
	r.send(0, s, func(o *shard.SenderOptions) {
		r.counted(&other)(o)
		o.Agreement = map[string]string{"schema": "another"}
	})
	if first, wrote := other.first.Load(), other.written.Load(); first >= early || wrote > 1 {
		t.Errorf("another policy: read from offset %d on, and %d records written; the first heads end at %d", first,
			wrote, early)
	}
	r.send(0, s, nil)
	var c reading
	r.send(0, s, r.counted(&c))
	if read, wrote := c.fetched.Load(), c.written.Load(); read > 50 ||
		wrote > 1 { // the last head, the rows before it, and a head that says who it is now
		t.Errorf("%d records read and %d written of a topic with %d", read, wrote, records(t, r.Bench, merge))
	}
	apply(t, s, 0, 20)
	r.send(0, s, r.lossy(true))
	rows, _ := s.Size()
	var all reading
	r.send(0, s, r.counted(&all))
	if first, wrote := all.first.Load(), all.written.Load(); first >= early || wrote < int64(rows[sketch.Train]) {
		t.Errorf("a head is lost: read from offset %d on, the first heads end at %d, %d written of %d rows", first,
			early, wrote, rows[sketch.Train])
	}
}

// nothingToSend reports whether a copy has everything that a store has.
func nothingToSend(t *testing.T, s *sketch.Store) bool {
	t.Helper()
	e, err := s.Excerpt(1, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	return e == nil
}

// takes has a new store take the place of shard 0, and its process begin; it counts what the receiver fetches, and what
// the sender does after it.
func (r rig) takes(fetched, again *reading) (*sketch.Store, *shard.Sender) {
	r.Helper()
	place := 0
	s := store(r.T, sketch.Options{Seed: 7, Mirror: true, Merges: true})
	sender := r.sender(0, s, r.counted(again))
	receiver := shard.NewReceiver(
		shard.ReceiverOptions{
			Kafka:   append(r.kafka(), kgo.WithHooks(fetched)),
			Topic:   merge,
			Model:   "m",
			Count:   2,
			Store:   s,
			Log:     daemontest.Quiet(),
			Place:   &place,
			Sender:  sender,
			MaxSkew: time.Minute,
			Values:  func(string, []byte) ([][]byte, error) { return nil, nil },
			Owns:    func(number int, _ string, partition int32) bool { return int(partition)%2 == number },
		},
	)
	if _, err := receiver.TakePlace(r.Context()); err != nil {
		r.Fatal(err)
	}
	sender.Took(true)
	if err := sender.Prepare(r.Context()); err != nil {
		r.Fatal(err)
	}
	return s, sender
}

// TestTakenPlaceIsRead: who takes the place of a shard up from the topic reads it once, and of a shard that has sent
// everything again only what came since, if the trainer's wishes are there, too.
func TestTakenPlaceIsRead(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	policy, producers := "compact", "CreateTime"
	settings := map[string]*string{"cleanup.policy": &policy, "message.timestamp.type": &producers}
	if _, err := kadm.NewClient(r.Kafka).CreateTopic(t.Context(), 1, 1, settings, merge); err != nil {
		t.Fatal(err)
	}
	old := &kgo.Record{
		Topic:     merge,
		Key:       []byte("x"),
		Value:     []byte("x"),
		Timestamp: time.Now().Add(-time.Hour),
	} // before the end that is looked at
	if err := r.Kafka.ProduceSync(t.Context(), old).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r.heads(store(t, sketch.Options{Seed: 7, Mirror: true}), 5)
	trainer := store(t, sketch.Options{Seed: 7, Merges: true})
	var sent int64 // offset from which on everything was sent again
	for _, test := range []struct {
		what   string
		wishes bool
		from   *int64
	}{
		{"of the first", false, new(int64)},
		{"without wishes", false, new(int64)},
		{"with wishes", true, &sent},
	} {
		if test.wishes {
			if err := r.receiver(trainer, 2).Run(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		}
		whole := records(t, r.Bench, merge)
		var fetched, again reading
		s, sender := r.takes(&fetched, &again)
		if next, _ := s.Position("a", 0); next != 100 || again.fetched.Load() != 0 {
			t.Errorf("%s: taken up to offset %d of 100, and %d records read again", test.what, next,
				again.fetched.Load())
		}
		// of the end, which is all but the first one, and from where it says on
		times, first, from := fetched.times.Load(), fetched.first.Load(), fetched.from.Load()
		if times != 2 || from < *test.from || *test.from == 0 && from > 0 || *test.from > 0 && first < 1 {
			t.Errorf("%s: read %d times, the last time from offset %d on, want 2 and %d; the first offset read is %d",
				test.what, times, from, *test.from, first)
		}
		sent = whole
		done := make(chan struct{})
		close(done)
		if err := sender.Run(t.Context(), done); err != nil {
			t.Fatal(err)
		}
		if rows, _ := s.Size(); rows[sketch.Train] != 50 {
			t.Errorf("%s: %v rows", test.what, rows)
		}
	}
}
