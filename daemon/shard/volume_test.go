package shard_test

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/sketch"
)

// TestVolume: what shards write while they catch up with their logs is no more than 1.2 times the rows that one
// sample of all their events takes in, though each has events enough to fill a sample, and tombstones of those rows
// alone; and the trainer has the sample of one store.
func TestVolume(t *testing.T) {
	tier.NotUnderRace(t)
	k, total := tier.Size(200, 10_000), tier.Size(200_000, 10_000_000)
	for _, count := range tier.Size([]int{8}, []int{4, 8, 16}) {
		t.Run(fmt.Sprint(count), func(t *testing.T) { volume(t, count, k, total) })
	}
}

func volume(t *testing.T, count, k, total int) {
	r := rig{t, daemontest.New(t)}
	n := total / count
	whole, trainer := store(t, sketch.Options{Seed: 7, Size: k}), store(t,
		sketch.Options{Seed: 7, Size: k, Merges: true})
	ctx, cancel := context.WithCancel(t.Context())
	running, feeding := new(errgroup.Group), new(errgroup.Group)
	receiver := r.receiver(trainer, count)
	running.Go(func() error { return receiver.Run(ctx, false) })
	var written counting
	for i := range count {
		s := store(t, sketch.Options{Seed: 7, Size: k, Mirror: true})
		sender := r.sender(i, s, func(o *shard.SenderOptions) {
			o.Count, o.Kafka = count, append(r.kafka(), kgo.WithHooks(&written))
			o.Lag = func() int64 {
				next, _ := s.Position("a", int32(i))
				return int64(n) - next
			}
		})
		if err := sender.Prepare(ctx); err != nil {
			t.Fatal(err)
		}
		running.Go(func() error { return sender.Run(ctx, make(chan struct{})) })
		feeding.Go(func() error {
			for range n / 1000 {
				if err := feed(s, int32(i), 1000); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := feeding.Wait(); err != nil {
		t.Fatal(err)
	}
	daemontest.Within(t, daemontest.Patience, "everything to be merged", func() bool {
		for i := range count {
			if next, _ := trainer.Position("a", int32(i)); next != int64(n) {
				return false
			}
		}
		return true
	})
	cancel()
	if err := running.Wait(); err != nil {
		t.Error(err)
	}
	for i := range count {
		for range n / 1000 {
			if err := feed(whole, int32(i), 1000); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := trainer.State()
	if err != nil {
		t.Fatal(err)
	}
	want, err := whole.State()
	if err != nil {
		t.Fatal(err)
	}
	if got.SampleDigest != want.SampleDigest {
		t.Errorf("digest %s, one store has %s", got.SampleDigest, want.SampleDigest)
	}
	formula := float64(k) * (1 + math.Log(float64(n*count)/float64(k)))
	rows, gone := written.rows.Load(), written.gone.Load()
	t.Logf(
		"%d shards, %d events, %d rows and %d tombstones: %.2f and, with these, %.2f of the %.0f rows that one sample "+
			"takes in; %.2f %% of the events",
		count,
		n*count,
		rows,
		gone,
		float64(rows)/formula,
		float64(rows+gone)/formula,
		formula,
		100*float64(rows+gone)/float64(n*count),
	)
	if float64(rows) > 1.2*formula || gone > rows {
		t.Errorf("%d rows and %d tombstones, want at most %.0f, and no more tombstones than rows", rows, gone,
			1.2*formula)
	}
}

// counting counts the rows and tombstones that are written.
type counting struct{ rows, gone atomic.Int64 }

func (c *counting) OnProduceRecordBuffered(r *kgo.Record) {
	switch {
	case r.Key[0] != 'p':
	case r.Value == nil:
		c.gone.Add(1)
	default:
		c.rows.Add(1)
	}
}
