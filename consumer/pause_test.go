package consumer

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// bucket is a sink that has room for so many records of partition 0 and asks for a pause when it is full.
type bucket struct {
	*memory
	mu     sync.Mutex
	room   int
	paused []int64 // offsets that OnPause got
	again  int     // calls of OnResume
}

func (s *bucket) Apply(ctx context.Context, b *Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.Partition != 0 || len(b.Records) <= s.room {
		if b.Partition == 0 {
			s.room -= len(b.Records)
		}
		return s.memory.Apply(ctx, b)
	}
	part := *b
	part.Next, part.Records = b.Records[s.room].Offset, b.Records[:s.room]
	s.room = 0
	if part.Next > part.Base {
		if err := s.memory.Apply(ctx, &part); err != nil {
			return err
		}
	}
	return &PauseError{Next: part.Next, Reason: "the bucket is full"}
}

func (s *bucket) pour(room int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room += room
}

func (s *bucket) OnPause(_ string, _ int32, offset int64, _ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = append(s.paused, offset)
}

func (s *bucket) OnResume(string, int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.again++
}

func (s *bucket) reports() (paused, again int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.paused), s.again
}

func (s *bucket) rig(t *testing.T, addrs []string, report, limit time.Duration) *rig {
	r := newRig(t, s.memory, addrs, []string{"t"},
		func(o *Options) { o.OnPause, o.OnResume, o.MaxBatchRecords = s.OnPause, s.OnResume, 30 })
	r.Consumer.sink, r.pauseReport, r.pauseLimit = s, report, limit
	return r
}

// TestPause: a full sink gets the rest later, each record once. Other partitions are read. Status and metric show the
// pause.
func TestPause(t *testing.T) {
	cluster := newCluster(t, kfake.SeedTopics(2, "t"))
	producer := newProducer(t, cluster.ListenAddrs())
	produce(t, producer, "t", 0, numbers(0, 100)...)
	produce(t, producer, "t", 1, numbers(0, 100)...)
	s := &bucket{memory: newMemory(), room: 42}
	r := s.rig(t, cluster.ListenAddrs(), 0, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	await(t, "the pause", func() bool { paused, _ := s.reports(); return paused == 1 && len(s.got(tp("t", 0))) == 42 })
	await(t, "the other partition", func() bool { return len(s.got(tp("t", 1))) == 100 })
	if status := r.Status(); status.Ready ||
		!strings.Contains(r.reasons(), "t/0 paused at offset 42: the bucket is full") {
		t.Errorf("status %+v", status)
	}
	if n := r.metric(t, "refitd_consumer_paused_partitions"); n != 1 {
		t.Errorf("%g partitions paused by the metric", n)
	}
	s.pour(5)
	await(t, "five more", func() bool { return len(s.got(tp("t", 0))) == 47 })
	s.pour(1000)
	await(t, "the rest", func() bool { return len(s.got(tp("t", 0))) == 100 && r.Status().Ready })
	if n := r.metric(t, "refitd_consumer_paused_partitions"); n != 0 {
		t.Errorf("%g partitions paused by the metric", n)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	equalValues(t, s.memory, tp("t", 0), numbers(0, 100))
	s.memory.check(t)
	if paused, again := s.reports(); paused != again || paused < 2 {
		t.Errorf("%d pauses reported, %d ends of pauses", paused, again)
	}
}

// TestPauseHaltsABoundedRun: RunUntil has to end, so that a sink that takes nothing halts its partition.
func TestPauseHaltsABoundedRun(t *testing.T) {
	cluster := newCluster(t, kfake.SeedTopics(2, "t"))
	producer := newProducer(t, cluster.ListenAddrs())
	produce(t, producer, "t", 0, numbers(0, 100)...)
	produce(t, producer, "t", 1, numbers(0, 100)...)
	s := &bucket{memory: newMemory(), room: 42}
	r := s.rig(t, cluster.ListenAddrs(), time.Hour, 200*time.Millisecond)
	r.runUntil(t, map[TopicPartition]int64{tp("t", 0): 100, tp("t", 1): 100})
	if text := s.haltText(tp("t", 0)); text != "the bucket is full" || len(s.got(tp("t", 0))) != 42 ||
		len(s.got(tp("t", 1))) != 100 {
		t.Errorf("halt %q after %d and %d records", text, len(s.got(tp("t", 0))), len(s.got(tp("t", 1))))
	}
}

// warden is a sink that takes partition 0 up to an offset and halts it there.
type warden struct {
	*memory
	limit int64
}

func (s warden) Apply(ctx context.Context, b *Batch) error {
	if b.Partition != 0 || b.Next <= s.limit {
		return s.memory.Apply(ctx, b)
	}
	part := *b
	part.Next, part.Records = s.limit, b.Records[:s.limit-b.Base]
	if part.Next > part.Base {
		if err := s.memory.Apply(ctx, &part); err != nil {
			return err
		}
	}
	return &HaltError{Next: s.limit, Reason: "no further"}
}

// TestSinkHalts: a sink can halt a partition in the middle of a batch, or at its beginning; what it took counts, and
// the other partitions are read.
func TestSinkHalts(t *testing.T) {
	for _, limit := range []int64{42, 60} {
		cluster := newCluster(t, kfake.SeedTopics(2, "t"))
		producer := newProducer(t, cluster.ListenAddrs())
		produce(t, producer, "t", 0, numbers(0, 100)...)
		produce(t, producer, "t", 1, numbers(0, 100)...)
		s := warden{newMemory(), limit}
		r := newRig(t, s.memory, cluster.ListenAddrs(), []string{"t"}, func(o *Options) { o.MaxBatchRecords = 30 })
		r.Consumer.sink = s
		r.runUntil(t, map[TopicPartition]int64{tp("t", 0): 100, tp("t", 1): 100})
		if text := s.haltText(tp("t", 0)); text != "no further" || int64(len(s.got(tp("t", 0)))) != limit ||
			len(s.got(tp("t", 1))) != 100 {
			t.Errorf("halt %q after %d and %d records", text, len(s.got(tp("t", 0))), len(s.got(tp("t", 1))))
		}
		if p := r.Status().Partitions[0]; p.Next != limit || p.Halted != "no further" {
			t.Errorf("%+v", p)
		}
		s.memory.check(t)
	}
}
