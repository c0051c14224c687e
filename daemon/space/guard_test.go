package space

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/sketch"
)

type counting struct{ batches int }

func (c *counting) Apply(context.Context, *consumer.Batch) error { c.batches++; return nil }
func (c *counting) Take(context.Context, *consumer.Batch) error  { c.batches++; return nil }
func (c *counting) Flush() error                                 { return nil }

// TestGuard: batches wait while the disk is full, in order, and are applied soon after there is space; in between the
// file system is not asked for every batch.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Int64
		free.Store(100)
		looks := 0
		g := New("state", 50, slog.New(slog.NewTextHandler(io.Discard, nil)))
		g.free = func(string) (int64, error) { looks++; return free.Load(), nil }
		to := &counting{}
		s := g.Sink(to)
		batch := &consumer.Batch{Records: []consumer.Record{{Value: make([]byte, 1<<10)}}}
		for range 1000 {
			if err := s.Apply(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
		if looks != 1 || to.batches != 1000 || g.Reason() != "" {
			t.Errorf("%d looks for %d batches, reason %q", looks, to.batches, g.Reason())
		}
		for range lookEveryBytes >> 10 { // fast writers are looked after by what they write
			if err := s.Apply(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
		if looks != 2 {
			t.Errorf("%d looks after %d bytes, want 2", looks, lookEveryBytes)
		}

		free.Store(49)
		time.Sleep(lookEvery)
		before, start := to.batches, time.Now()
		done := make(chan error, 1)
		go func() { done <- s.Take(t.Context(), batch) }()
		synctest.Wait()
		if to.batches != before || !strings.HasPrefix(g.Reason(), "disk: 49 bytes of free space") {
			t.Errorf("%d batches on a full disk, reason %q", to.batches-before, g.Reason())
		}
		time.Sleep(time.Minute)
		free.Store(50)
		if err := <-done; err != nil || to.batches != before+1 {
			t.Errorf("error %v, %d batches once there was space", err, to.batches-before)
		}
		if d := time.Since(start) - time.Minute; d > waitBetween {
			t.Errorf("continued after %v", d)
		}

		g.files = func(string) (int64, error) { return sketch.LeastFreeFiles - 1, nil }
		if g.Look() || !strings.HasPrefix(g.Reason(), "disk: the file system of state can take 63 more files") {
			t.Errorf("reason %q without inodes", g.Reason())
		}
		g.files = sketch.FreeFiles

		free.Store(0)
		time.Sleep(lookEvery)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- s.Apply(ctx, batch) }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v of a wait that was called off", err)
		}
		g.free = func(string) (int64, error) { return 0, errors.New("no answer") }
		if err := s.Apply(t.Context(), batch); err != nil && g.Reason() != "" {
			t.Errorf("error %v, reason %q of a file system that gives no answer", err, g.Reason())
		}
	})
}
