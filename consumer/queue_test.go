package consumer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// late is a queue that stores at the next Flush, and fails at a chosen one.
type late struct {
	*memory
	waiting []Batch
	flushes int
	failAt  int
	rig     *rig
	early   bool // a batch counted as stored before Flush had returned
}

var errLate = errors.New("the disk is gone")

func (l *late) Take(_ context.Context, b *Batch) error {
	kept := *b
	kept.Records = append([]Record(nil), b.Records...)
	l.waiting = append(l.waiting, kept)
	return nil
}

func (l *late) Flush() error {
	for _, p := range l.rig.Status().Partitions {
		for _, b := range l.waiting {
			l.early = l.early || b.Topic == p.Topic && b.Partition == p.Partition && b.Next > b.Base && p.Next >= b.Next
		}
	}
	if l.flushes++; len(l.waiting) > 0 && l.flushes >= l.failAt {
		l.waiting = nil
		return errLate
	}
	for i := range l.waiting {
		if err := l.Apply(context.Background(), &l.waiting[i]); err != nil {
			return err
		}
	}
	l.waiting = nil
	return nil
}

// TestQueue: what a queue has taken counts as stored once Flush has returned, not before; where it fails, nothing of it
// does.
func TestQueue(t *testing.T) {
	const topic, n = "t", 300
	cluster := newCluster(t, kfake.SeedTopics(3, topic))
	cl := newProducer(t, cluster.ListenAddrs())
	for i := range n {
		produce(t, cl, topic, int32(i%3), fmt.Sprint(i))
	}
	cl.Close()
	ends := map[TopicPartition]int64{}
	for p := range int32(3) {
		ends[tp(topic, p)] = n / 3
	}
	for _, failAt := range []int{1, math.MaxInt} {
		m := newMemory()
		r := newRig(t, m, cluster.ListenAddrs(), []string{topic}, nil)
		l := &late{memory: m, failAt: failAt, rig: r}
		r.Consumer.sink, r.Consumer.queue = l, l
		err := r.RunUntil(t.Context(), ends)
		if failed := failAt == 1; errors.Is(err, errLate) != failed {
			t.Errorf("error %v", err)
		}
		for _, p := range r.Status().Partitions {
			if want := map[bool]int64{false: n / 3}[failAt == 1]; p.Next != want {
				t.Errorf("partition %d counts as stored up to %d, want %d", p.Partition, p.Next, want)
			}
		}
		if l.early {
			t.Error("a batch counted as stored before it was")
		}
	}
}
