package ingest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
	"github.com/refitd/refitd/sketch"
)

// batch returns n records of partition p from base on; every tenth is not JSON.
func batch(r *rand.Rand, p int32, base int64, n int) *consumer.Batch {
	b := &consumer.Batch{Topic: "t", Partition: p, Base: base, Next: base + int64(n), HighWatermark: base + int64(n)}
	for i := range n {
		value := fmt.Appendf(nil, `{"user":"user-%06d","item":"item-%05d","rating":%d,"ts":%d,"source":"web"}`,
			int(20000*r.Float64()*r.Float64()), int(5000*r.Float64()*r.Float64()), 1+r.IntN(5),
			1700000000000+base+int64(i))
		if i%10 == 9 {
			value = value[1:]
		}
		b.Records = append(b.Records,
			consumer.Record{Offset: base + int64(i), Value: value, Timestamp: 1700000000000 + base, CRC: r.Uint32()})
	}
	return b
}

func newIngest(tb testing.TB, m *config.Model, dir string) (*Ingest, *sketch.Store) {
	tb.Helper()
	c, err := cycle.New(m, time.Now)
	if err != nil {
		tb.Fatal(err)
	}
	o := StoreOptions(m)
	o.Dir = dir
	open := func() (*sketch.Store, error) { return sketch.Open(context.Background(), o) }
	if dir == "" {
		open = func() (*sketch.Store, error) { return sketch.NewMemory(o) }
	}
	store, err := open()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := store.Close(); err != nil {
			tb.Error(err)
		}
	})
	for p := range int32(2) {
		if err := store.Begin("t", p, 0); err != nil {
			tb.Fatal(err)
		}
	}
	return New(m, store, c), store
}

// TestBatchesDoNotMatter: the same records in other batches, some of them twice, give the same state and the same
// progressive sums.
func TestBatchesDoNotMatter(t *testing.T) {
	tier.NotUnderRace(t)
	run := func(size int, again bool) (*sketch.State, string) {
		g, store := newIngest(t, ingesttest.Ratings(500), "")
		whole := batch(rand.New(rand.NewPCG(1, 1)), 0, 0, 3000)
		for lo := 0; lo < 3000; lo += size {
			hi := min(lo+size, 3000)
			from := lo
			if again && lo > 0 {
				from -= size / 2 // a batch that begins before the ledger's next
			}
			part := *whole
			part.Base, part.Next, part.Records = int64(from), int64(hi), whole.Records[from:hi]
			if err := g.Apply(context.Background(), &part); err != nil {
				t.Fatal(err)
			}
		}
		s, err := store.State()
		if err != nil {
			t.Fatal(err)
		}
		return s, string(store.Aux())
	}
	state, sums := run(3000, false)
	if l := state.Partitions[0]; l.Applied != 2700 || l.Rejected != 300 ||
		state.RejectedByReason[string(event.NotJSON)] == 0 &&
			state.RejectedByReason[string(event.NotObject)] == 0 {
		t.Fatalf("%d applied, %d rejected: %v", l.Applied, l.Rejected, state.RejectedByReason)
	}
	for _, size := range []int{1, 7, 1000} {
		for _, again := range []bool{false, true} {
			got, gotSums := run(size, again)
			if got.SampleDigest != state.SampleDigest || got.Partitions[0].Digest != state.Partitions[0].Digest ||
				got.Partitions[0].Applied != 2700 {
				t.Errorf("batches of %d, overlapping %v: another state", size, again)
			}
			if gotSums != sums {
				t.Errorf("batches of %d, overlapping %v: sums %s, want %s", size, again, gotSums, sums)
			}
		}
	}
}

// TestBadRecordsAreNotSlow (D16): a stream of nothing but bad records goes at least half as fast as one of good ones,
// measured side by side; as fast as the good ones while they fill the sample if each has to be kept for the dead-letter
// topic.
func TestBadRecordsAreNotSlow(t *testing.T) {
	tier.NotUnderRace(t)
	const n, rounds = 4096, 6
	streams := map[string]struct {
		rows int
		bad  bool
		g    *Ingest
		s    *sketch.Store
		best time.Duration
	}{"good": {}, "bad": {bad: true}, "bad, with letters": {bad: true, rows: 1 << 20}}
	good := batch(rand.New(rand.NewPCG(1, 1)), 0, 0, n)
	bad := *good
	bad.Records = slices.Clone(good.Records)
	for i := range good.Records {
		if i%10 == 9 {
			good.Records[i].Value = good.Records[i-1].Value
		}
		bad.Records[i].Value = append([]byte("x"), good.Records[i].Value...)
	}
	for name, s := range streams {
		m := ingesttest.Ratings(1_000_000)
		c, err := cycle.New(m, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		o := StoreOptions(m)
		o.Dir, o.OutboxRows = t.TempDir(), s.rows
		if s.s, err = sketch.Open(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		if err := s.s.Begin("t", 0, 0); err != nil {
			t.Fatal(err)
		}
		s.g, s.best = New(m, s.s, c), time.Hour
		streams[name] = s
	}
	for round := range int64(rounds) { // taking turns, so that the machine is as busy for each
		for name, s := range streams {
			b := *good
			if s.bad {
				b = bad
			}
			b.Base, b.Next = round*n, (round+1)*n
			for i := range b.Records {
				b.Records[i].Offset = b.Base + int64(i)
			}
			began := time.Now()
			if err := s.g.Apply(context.Background(), &b); err != nil {
				t.Fatal(err)
			}
			s.best = min(s.best, time.Since(began))
			streams[name] = s
		}
	}
	for name, s := range streams {
		rejected := int64(0)
		for _, l := range s.s.Ledger() {
			rejected += l.Rejected
		}
		if want := map[bool]int64{true: n * rounds}[s.bad]; rejected != want ||
			s.s.OutboxLen() != int(min(rejected, int64(s.rows))) {
			t.Errorf("%s: %d rejected, %d letters", name, rejected, s.s.OutboxLen())
		}
		t.Logf("%s: %.0f records a second", name, n/s.best.Seconds())
		if s.best > 2*streams["good"].best {
			t.Errorf("%s takes %v for %d records, good ones %v", name, s.best, n, streams["good"].best)
		}
		if err := s.s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// BenchmarkTake is the whole path of an event except for the network: decode, score, fold in, store, with a Flush for
// every eight batches, as if of
func BenchmarkTake(b *testing.B) {
	for name, size := range map[string]int{"full": 20_000, "filling": 10_000_000, "shard": 20_000,
		"catch_up": 20_000} {
		b.Run(name, func(b *testing.B) {
			g, store := newIngest(b, ingesttest.Ratings(size), b.TempDir())
			if name == "shard" {
				g = New(ingesttest.Ratings(size), store, nil)
			}
			r := rand.New(rand.NewPCG(1, 1))
			const n = 4096
			whole := batch(r, 0, 0, n)
			if name == "catch_up" {
				whole.HighWatermark, whole.LastStable = 1<<40, 1<<40
			}
			for i := range whole.Records {
				if i%10 == 9 {
					whole.Records[i].Value = whole.Records[i-1].Value
				}
			}
			next := int64(0)
			take := func() {
				whole.Base, whole.Next = next, next+n
				for i := range whole.Records {
					whole.Records[i].Offset = next + int64(i)
				}
				if err := g.Take(context.Background(), whole); err != nil {
					b.Fatal(err)
				}
				if next += n; next/n%8 == 0 {
					if err := g.Flush(); err != nil {
						b.Fatal(err)
					}
				}
			}
			for range 16 {
				take()
			}
			start, used := next, processorTime(b)
			b.ReportAllocs()
			for b.Loop() {
				take()
			}
			if err := g.Flush(); err != nil {
				b.Fatal(err)
			}
			events := float64(next - start)
			b.ReportMetric(events/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64((processorTime(b)-used).Nanoseconds())/events, "cpu-ns/event")
		})
	}
}

func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
