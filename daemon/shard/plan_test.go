package shard

import (
	"math"
	"testing"
	"time"
)

// TestPlan: shards are as many as keep half a processor each at most, the topic has the rows of the formula, and heads
// are bounded by their pace.
func TestPlan(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{1, 1e5, 3e6, 1e7, 1e9} {
		p := Plan("m", rate, 10_000, 0)
		if p.Processors > busy || p.Shards > 1 && rate*eventCost.Seconds()/float64(p.Shards-1) <= busy {
			t.Errorf("%g events a second: %d shards at %g processors", rate, p.Shards, p.Processors)
		}
		if most := 1 / shareOfHead.Seconds(); p.HeadsPerSecond > most {
			t.Errorf("%g events a second: %g heads a second, at most %g", rate, p.HeadsPerSecond, most)
		}
		n := rate * 86_400
		if want := 1e4 * (1 + math.Log(n/1e4)); math.Abs(float64(p.RowsFirstDay)-want) > 1 {
			t.Errorf("%g events a second: %d rows on the first day, want %g", rate, p.RowsFirstDay, want)
		}
	}
	if p := Plan("m", .01, 10_000, 0); p.RowsFirstDay != 864 {
		t.Errorf("of 864 events %d rows are in the topic", p.RowsFirstDay)
	}
	if p, q := Plan("m", 100, 10_000, 24*time.Hour), Plan("m", 100, 10_000, 0); math.Abs(
		float64(p.RowsFirstDay-q.RowsFirstDay)-1e4*math.Ln2) > 1 {
		t.Errorf("a half-life of a day adds %d rows a day, want 10,000·ln 2", p.RowsFirstDay-q.RowsFirstDay)
	}
}
