package ingest

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/crash"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
	"github.com/refitd/refitd/sketch"
)

// TestQuarantinedRecord (A8): what is in hand while a record is decoded or learned from is noted, the whole batch at
// first and that record alone after a death; after three, all that is before it is stored and the partition halts
// there, however the batches are cut.
func TestQuarantinedRecord(t *testing.T) {
	const poison, records = 567, 600
	for _, stage := range []string{"decode", "learn"} {
		t.Run(stage, func(t *testing.T) {
			dir := t.TempDir()
			hand := filepath.Join(dir, "in-hand")
			m := ingesttest.Ratings(1000)
			var exclusive sync.Mutex
			start := func() (*Ingest, *sketch.Store) {
				store, err := sketch.NewMemory(StoreOptions(m))
				if err == nil {
					err = store.Begin("t", 0, 0)
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := store.Close(); err != nil {
						t.Error(err)
					}
				})
				c, err := cycle.New(m, time.Now)
				if err != nil {
					t.Fatal(err)
				}
				g := New(m, store, c)
				if g.Crashes, err = crash.Open(dir, store.Ledger(), &exclusive, time.Now(), slog.New(
					slog.DiscardHandler)); err != nil {
					t.Fatal(err)
				}
				return g, store
			}
			b := batch(rand.New(rand.NewPCG(1, 1)), 0, 0, records)
			for i, want := range []string{"t 0 0 600\n", "t 0 567 568\n", "t 0 567 568\n"} {
				g, _ := start()
				var held []byte
				look := func() {
					var err error
					if held, err = os.ReadFile(hand); err != nil {
						t.Fatal(err)
					}
				}
				if stage == "decode" {
					for _, r := range g.readers {
						decode := r.decode
						r.decode = func(ev *event.Event, value []byte, at int64) *event.Rejection {
							if string(value) == string(b.Records[poison].Value) {
								look()
							}
							return decode(ev, value, at)
						}
					}
				} else {
					observe := g.observe
					g.observe = func(events []cycle.Observation, panicked func(int, any)) {
						for i := range events {
							if events[i].Position.Offset == poison {
								look()
							}
						}
						observe(events, panicked)
					}
				}
				if err := g.Apply(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				noted := string(held)
				if i == 0 && stage == "learn" {
					noted = noted[512:] // the place of that stage
				}
				if !strings.HasPrefix(noted, want) {
					t.Fatalf("start %d: %q in hand, want %q", i+1, held, want)
				}
				if left, err := os.ReadFile(hand); err != nil || !strings.HasPrefix(string(left), "\n") ||
					left[512] != '\n' {
					t.Errorf("start %d: %q in hand after the batch, %v", i+1, left, err)
				}
				if err := os.WriteFile(hand, held, 0o600); err != nil { // the process ends there
					t.Fatal(err)
				}
			}
			g, store := start()
			next := func(b *consumer.Batch, want int64, halts bool) {
				t.Helper()
				err := g.Apply(t.Context(), b)
				halt, ok := errors.AsType[*consumer.HaltError](err)
				if ok != halts || !ok && err != nil ||
					ok && (halt.Next != poison || !strings.Contains(halt.Reason, "quarantined")) {
					t.Errorf("error %v, halts %t", err, halts)
				}
				if at, _ := store.Position("t", 0); at != want {
					t.Errorf("stored up to %d, want %d", at, want)
				}
			}
			r := rand.New(rand.NewPCG(1, 1))
			next(batch(r, 0, 0, 500), 500, false)
			next(batch(r, 0, 500, 100), poison, true)
			next(batch(r, 0, poison, 10), poison, true)
		})
	}
}
