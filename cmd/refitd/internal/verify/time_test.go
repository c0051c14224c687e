package verify

import (
	"math"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/sketch"
)

// TestFutureTimes: which times were ahead of the clock when the log was read is stored with the rows: verify, whose
// clock has moved on, replaces the same ones. The digests of the ledger and what was applied do not depend on it.
func TestFutureTimes(t *testing.T) {
	b := newBench(t)
	client := b.producer()
	begin := time.UnixMilli(1_700_000_000_000)
	for i := range 400 {
		r := event(i)
		r.Timestamp = begin.Add(time.Duration(i) * time.Hour) // as the events' own times
		b.produce(client, int32(i%partitions), r)
	}
	reading := begin.Add(100 * time.Hour).
		UnixMilli()
		// every second record was ahead when it was read, for half of the log
	fill := func(bounded bool) *sketch.State {
		b.dir = t.TempDir()
		b.configure("{size: 100, half_life: 1d, holdout: {fraction: 0.2, size: 20}}")
		var state *sketch.State
		b.withStoreOf(7, func(s *sketch.Store) {
			sink := ingest.New(b.model, s, nil)
			sink.Bounds = func(_ string, _ int32, offset int64) int64 {
				if !bounded || offset >= 100 {
					return math.MaxInt64
				}
				return reading
			}
			for p := range int32(partitions) {
				for _, batch := range b.batches(p, b.next[p]) {
					if err := s.Begin(batch.Topic, batch.Partition, batch.Base); err != nil {
						t.Fatal(err)
					}
					if err := sink.Apply(b.context(), &batch); err != nil {
						t.Fatal(err)
					}
				}
			}
			var err error
			if state, err = s.State(); err != nil {
				t.Fatal(err)
			}
			bounds, err := s.TimeBounds(topic, 0)
			if want := (sketch.TimeBound{From: 51, To: 100, Latest: reading}); err != nil ||
				bounded && (len(bounds) != 1 || bounds[0] != want) {
				t.Errorf("bounds %+v, %v, want %+v", bounds, err, want)
			}
		})
		b.verifyOK()
		return state
	}
	with, without := fill(true), fill(false)
	if with.SampleDigest == without.SampleDigest {
		t.Error("the bound changed no row")
	}
	for i := range with.Partitions {
		if with.Partitions[i].Digest != without.Partitions[i].Digest {
			t.Errorf("the digest of partition %d depends on the clock", i)
		}
	}
}
