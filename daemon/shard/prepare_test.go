package shard_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/sketch"
)

// reading counts the records that are fetched, and those that are written. first is the smallest offset of those fetched: how many there are from an offset on
// is up to compaction, which runs whenever it will.
type reading struct{ fetched, written, first atomic.Int64 }

func (c *reading) OnFetchRecordBuffered(r *kgo.Record) { // one client reads at a time
	if n := c.fetched.Add(1); n == 1 || r.Offset < c.first.Load() {
		c.first.Store(r.Offset)
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

// TestPrepareReadsOn: a shard that is started again reads the topic from where it was when it sent its last head, and sends nothing again that the topic has.
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
		t.Errorf("another policy: read from offset %d on, and %d records written; the first heads end at %d", first, wrote, early)
	}
	r.send(0, s, nil)
	var c reading
	r.send(0, s, r.counted(&c))
	if read, wrote := c.fetched.Load(), c.written.Load(); read > 50 || wrote > 1 { // the last head, the rows before it, and a head that says who it is now
		t.Errorf("%d records read and %d written of a topic with %d", read, wrote, records(t, r.Bench, merge))
	}
	apply(t, s, 0, 20)
	r.send(0, s, r.lossy(true))
	rows, _ := s.Size()
	var all reading
	r.send(0, s, r.counted(&all))
	if first, wrote := all.first.Load(), all.written.Load(); first >= early || wrote < int64(rows[sketch.Train]) {
		t.Errorf("a head is lost: read from offset %d on, the first heads end at %d, %d written of %d rows", first, early, wrote, rows[sketch.Train])
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

// TestTakenPlaceIsRead: who takes the place of a shard up from the topic reads it once.
func TestTakenPlaceIsRead(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	before := store(t, sketch.Options{Seed: 7, Mirror: true})
	r.heads(before, 5)
	place := 0
	s := store(t, sketch.Options{Seed: 7, Mirror: true, Merges: true})
	var c reading
	sender := r.sender(0, s, r.counted(&c))
	receiver := shard.NewReceiver(shard.ReceiverOptions{Kafka: r.kafka(), Topic: merge, Model: "m", Count: 2, Store: s, Log: daemontest.Quiet(), Place: &place,
		Sender: sender, MaxSkew: time.Minute, Values: func(string, []byte) ([][]byte, error) { return nil, nil },
		Owns: func(number int, _ string, partition int32) bool { return int(partition)%2 == number }})
	if _, err := receiver.TakePlace(t.Context()); err != nil {
		t.Fatal(err)
	}
	sender.Took(true)
	if err := sender.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if next, _ := s.Position("a", 0); next != 100 || c.fetched.Load() != 0 {
		t.Errorf("taken up to offset %d of 100, and %d records read again", next, c.fetched.Load())
	}
}
