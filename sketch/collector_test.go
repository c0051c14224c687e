package sketch

import (
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestCollector (G10): with a sample of a million rows in the heap, garbage collection takes at most 15 % of the
// processor time of storing events. Pauses are printed: on a machine with other work they are the scheduler's.
func TestCollector(t *testing.T) {
	rows := tier.Size(100_000, 1_000_000)
	s := mustOpen(t, Options{Dir: t.TempDir(), Size: rows, HoldoutSize: 1000, HoldoutFraction: 0, Seed: 1})
	must(t, s.Begin("ratings", 3, 0))
	p := benchPart(0, 5000)
	for p.Next <= int64(rows) {
		must(t, s.Apply(p, nil))
		advance(p)
	}
	used := func() (collector, all float64) {
		samples := []metrics.Sample{
			{Name: "/cpu/classes/gc/total:cpu-seconds"},
			{Name: "/cpu/classes/gc/mark/idle:cpu-seconds"},
			{Name: "/cpu/classes/user:cpu-seconds"},
		}
		runtime.GC() // the shares are computed at the end of a collection
		metrics.Read(samples)
		collector = samples[0].Value.Float64() - samples[1].Value.Float64() // idle processors cost nothing
		return collector, collector + samples[2].Value.Float64()
	}
	collector, all := used()
	for range rows / 20_000 {
		must(t, s.Apply(p, nil))
		advance(p)
	}
	collectorAfter, allAfter := used()
	share := (collectorAfter - collector) / (allAfter - all)
	pauses := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(pauses)
	h, seen, total := pauses[0].Value.Float64Histogram(), uint64(0), uint64(0)
	for _, n := range h.Counts {
		total += n
	}
	p99 := 0.0
	for i, n := range h.Counts {
		if seen += n; n > 0 && seen*100 >= total*99 {
			p99 = h.Buckets[i+1]
			break
		}
	}
	t.Logf(
		"%d rows: %.1f %% of the processor time is garbage collection (of 15 %%); 99 of 100 of %d pauses are under %.2g s "+
			"(of 0.005 s)",
		rows,
		100*share,
		total,
		p99,
	)
	if share > 0.15 {
		t.Errorf("garbage collection takes %.1f %% of the processor time", 100*share)
	}
	must(t, s.Close())
}
