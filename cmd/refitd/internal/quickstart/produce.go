package quickstart

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/produce"
)

const (
	// sendEvery is the longest an event that is due waits to be sent.
	sendEvery = 50 * time.Millisecond
	// maxBatchRecords bounds one write, and so the rate: 200,000 events/s.
	maxBatchRecords = 10_000
	// writeTimeout bounds the acknowledgement of one write, and so the time Produce takes to return.
	writeTimeout = 10 * time.Second
	// maxAttempts is how often a write is tried, and a topic asked for: the broker is in this process, and a dead one will
	// not come back.
	maxAttempts = 3
)

// ProduceOptions are the settings of Produce.
type ProduceOptions struct {
	Addr       string  // host:port of a broker
	Topic      string  // must exist
	Rate       float64 // events per second, above 0
	DriftAfter int64   // events before the change of taste; 0 for none
	OnDrift    func()  // called once, just before the first event of the changed taste is sent; may be nil
}

// ProduceCounts says what Produce has sent.
type ProduceCounts struct {
	Sent         int64 // events handed to the broker
	Acknowledged int64 // those it confirmed; the rest may or may not be in the topic
}

// Produce writes ratings of g to a topic at a steady rate, as JSON with the user as key, until ctx is done; then it
// returns nil. Events that could not be sent in time, because the broker was slow, are sent as soon as it answers. It
// owns g while it runs.
func Produce(ctx context.Context, g *Generator, opt ProduceOptions) (counts ProduceCounts, err error) {
	if !(opt.Rate > 0) || math.IsInf(opt.Rate, 0) {
		return counts, fmt.Errorf("quickstart: --rate %v is not a number of events per second above 0", opt.Rate)
	}
	client, err := opt.client()
	if err != nil {
		return counts, fmt.Errorf("quickstart: %s: %w", opt.Addr, err)
	}
	defer client.Close()

	start := time.Now()
	tick := time.NewTicker(sendEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return counts, nil
		case <-tick.C:
		}
		now := time.Now()
		due := int64(min(now.Sub(start).Seconds()*opt.Rate-float64(counts.Sent), maxBatchRecords))
		if due <= 0 {
			continue
		}
		records := opt.records(g, counts.Sent, due, now)
		results := client.ProduceSync(context.WithoutCancel(ctx), records...) // so that the last ones are counted rightly
		counts.Sent += due
		for _, result := range results {
			if result.Err == nil {
				counts.Acknowledged++
			}
		}
		err := results.FirstErr()
		switch {
		case err != nil && ctx.Err() != nil:
			return counts, nil // the broker is being closed too; the counts say so
		case err != nil:
			return counts, fmt.Errorf("quickstart: write to topic %q at %s: %d of %d events not acknowledged: %w",
				opt.Topic, opt.Addr, counts.Sent-counts.Acknowledged, counts.Sent, err)
		}
	}
}

// client returns the producer.
func (opt *ProduceOptions) client() (*kgo.Client, error) {
	return produce.NewClient(
		kgo.SeedBrokers(opt.Addr),
		kgo.DefaultProduceTopic(opt.Topic),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), // that of the Java client
		kgo.ProducerLinger(0),                                // a write brings all that is due
		kgo.UnknownTopicRetries(maxAttempts),
		kgo.RecordRetries(maxAttempts),
		kgo.MetadataMinAge(sendEvery),
		kgo.RecordDeliveryTimeout(writeTimeout),
		kgo.AllowIdempotentProduceCancellation(), // else the timeout does not count for what may have arrived
	)
}

// records returns the next events, of which sent were before.
func (opt *ProduceOptions) records(g *Generator, sent, due int64, now time.Time) []*kgo.Record {
	records := make([]*kgo.Record, 0, due)
	for n := sent; n < sent+due; n++ {
		if opt.DriftAfter > 0 && n == opt.DriftAfter {
			g.Drift()
			if opt.OnDrift != nil {
				opt.OnDrift()
			}
		}
		r := g.Next(now.UnixMilli())
		records = append(records, &kgo.Record{Key: []byte(r.User), Value: r.AppendJSON(nil)})
	}
	return records
}

// AppendJSON appends the rating as {"user":"u17","item":"i42","rating":4,"ts":1700000000000}. Its ids need no escapes.
func (r Rating) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"user":"`...)
	dst = append(dst, r.User...)
	dst = append(dst, `","item":"`...)
	dst = append(dst, r.Item...)
	dst = append(dst, `","rating":`...)
	dst = strconv.AppendInt(dst, int64(r.Level), 10)
	dst = append(dst, `,"ts":`...)
	dst = strconv.AppendInt(dst, r.TS, 10)
	return append(dst, '}')
}
