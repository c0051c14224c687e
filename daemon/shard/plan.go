package shard

import (
	"math"
	"time"

	"github.com/refitd/refitd/daemon/report"
)

// What a plan rests on.
const (
	// of processor time for a shard to fetch, read and account for an event of 100 bytes; configs/docs/scale.md says where
	eventCost = 3 * time.Microsecond
	busy      = .5 // of a processor that events keep busy: with the rest a shard catches up with its log
	day       = 24 * time.Hour
)

// Plan returns what input of rate events a second, above 0, wants of shards for a model whose sample has size rows that
// count half as much after halfLife, 0 for never.
func Plan(model string, rate float64, size int, halfLife time.Duration) report.ShardPlan {
	n := max(1, int(math.Ceil(rate*eventCost.Seconds()/busy)))
	k, events := float64(size), rate*day.Seconds()
	rows := min(k, events)
	if events > k {
		rows += k * math.Log(events/k)
	}
	if halfLife > 0 {
		rows = min(events, rows+k*math.Ln2*float64(day)/float64(halfLife))
	}
	return report.ShardPlan{
		Model: model, EventsPerSecond: rate, Shards: n, Processors: rate * eventCost.Seconds() / float64(n),
		RowsFirstDay: int64(rows), HeadsPerSecond: float64(n) / every(n).Seconds(),
	}
}
