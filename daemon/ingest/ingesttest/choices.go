package ingesttest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
)

// Choices returns a model of choices whose items have a genre, in topic t.
func Choices(size int) *config.Model {
	m := Ratings(size)
	m.Schema = config.Schema{
		Task:         config.Implicit,
		Label:        "event",
		EventWeights: []config.EventWeight{{Event: "view", Weight: 1}, {Event: "buy", Weight: 5}},
		Time:         "ts",
		TimeUnit:     "ms",
		Categorical:  []string{"user", "item", "genre"},
		Of:           map[string]string{"genre": "item"},
	}
	m.Train.Loss, m.Train.FoldIn.By, m.Evaluate.BaselineBy, m.Sample.MaxBytes = config.Auto, nil, "", 0
	m.Resolve()
	return m
}

// ChoiceBatch returns n choices of a partition from base on. Item k is chosen about k times as often as item 1.
func ChoiceBatch(seed uint64, p int32, base int64, n int) *consumer.Batch {
	r := rand.New(rand.NewPCG(seed, uint64(p)))
	b := &consumer.Batch{Topic: "t", Partition: p, Base: base, Next: base + int64(n), HighWatermark: base + int64(n)}
	for i := range n {
		item := 1 + int(30*math.Sqrt(r.Float64()))
		value := fmt.Appendf(nil, `{"user":"u%d","item":"i%d","genre":"g%d","event":%q,"ts":%d}`, r.IntN(200), item,
			item%3, []string{"view", "view", "buy"}[r.IntN(3)], 1700000000000+base+int64(i))
		b.Records = append(b.Records,
			consumer.Record{Offset: base + int64(i), Value: value, Timestamp: 1700000000000 + base, CRC: r.Uint32()})
	}
	return b
}
