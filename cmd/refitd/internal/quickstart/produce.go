package quickstart

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	// sendEvery is the longest an event that is due waits to be sent.
	sendEvery = 50 * time.Millisecond
	// batchTimeout ends a batch that is not full. It is short because a batch here is never filled: each call brings
	// all that is due, and kafka-go blocks until the batch is full or this has passed.
	batchTimeout = 5 * time.Millisecond
	// maxBatchRecords bounds one write, and so the rate: 200,000 events/s.
	maxBatchRecords = 10_000
	// maxAttempts is lower than kafka-go's 10: the broker is in this process, and a dead one will not come back.
	maxAttempts = 3
	// writeTimeout bounds the acknowledgement of one write, and so the time Produce takes to return.
	writeTimeout = 10 * time.Second
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
// returns nil. Events that could not be sent in time, because the broker was slow, are sent as soon as it answers. A
// write that is retried may leave duplicates. It owns g while it runs.
func Produce(ctx context.Context, g *Generator, opt ProduceOptions) (counts ProduceCounts, err error) {
	if !(opt.Rate > 0) || math.IsInf(opt.Rate, 0) {
		return counts, fmt.Errorf("quickstart: --rate %v is not a number of events per second above 0", opt.Rate)
	}
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	writer := &kafka.Writer{
		Addr:         kafka.TCP(opt.Addr),
		Topic:        opt.Topic,
		Balancer:     kafka.Murmur2Balancer{},
		RequiredAcks: kafka.RequireAll,
		BatchSize:    maxBatchRecords,
		BatchTimeout: batchTimeout,
		MaxAttempts:  maxAttempts,
		Transport:    transport,
	}
	defer func() { err = errors.Join(err, writer.Close()) }()

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
		messages := make([]kafka.Message, 0, due)
		for n := counts.Sent; n < counts.Sent+due; n++ {
			if opt.DriftAfter > 0 && n == opt.DriftAfter {
				g.Drift()
				if opt.OnDrift != nil {
					opt.OnDrift()
				}
			}
			r := g.Next(now.UnixMilli())
			messages = append(messages, kafka.Message{Key: []byte(r.User), Value: r.AppendJSON(nil)})
		}
		if due == 0 {
			continue
		}
		err := write(ctx, writer, messages)
		counts.Sent += due
		counts.Acknowledged += acknowledged(err, due)
		switch {
		case err != nil && ctx.Err() != nil:
			return counts, nil // the broker is being closed too; the counts say so
		case err != nil:
			return counts, fmt.Errorf(
				"quickstart: write to topic %q at %s: %d of %d events not acknowledged: %w",
				opt.Topic,
				opt.Addr,
				counts.Sent-counts.Acknowledged,
				counts.Sent,
				firstError(err),
			)
		}
	}
}

// write outlives ctx, so that the last events are counted rightly.
func write(ctx context.Context, writer *kafka.Writer, messages []kafka.Message) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	return writer.WriteMessages(ctx, messages...)
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

// acknowledged returns how many of n messages the outcome of a write confirms.
func acknowledged(err error, n int64) int64 {
	if err == nil {
		return n
	}
	if each, ok := errors.AsType[kafka.WriteErrors](err); ok {
		return n - int64(each.Count())
	}
	return 0
}

// firstError replaces a kafka.WriteErrors, whose text repeats itself for every message, by the first of its errors.
func firstError(err error) error {
	if each, ok := errors.AsType[kafka.WriteErrors](err); ok {
		return cmp.Or(cmp.Or(each...), err)
	}
	return err
}
