package shard

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/produce"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/backoff"
)

const (
	// ForwardRate is how many events a second the shards of a team forward at most, all together. The trainer learns an
	// event in 10 µs of processor time (go test -run xxx -bench Take/full ./daemon/ingest): two fifths of a processor,
	// so that it keeps up while a refit runs.
	ForwardRate = 40_000
	// forwardBytes bounds the payloads of a batch: brokers take records of a megabyte.
	forwardBytes = 512 << 10
	forwardEvery = 100 * time.Millisecond // between two batches
	forwardBeat  = 20 * time.Second       // between two batches of a shard that has nothing to forward
	// for as long a shard may be ahead of its bound, as batches of a fetch come at once
	burst = time.Second
	// forwardTimeout bounds the wait for the brokers to take a batch.
	forwardTimeout = 10 * time.Second
)

// ForwarderBytes is the memory of a Forwarder: two batches, each with the place of ForwardRate events, of 64 bytes, and
// its record.
const ForwarderBytes = 2 * (2*forwardBytes + 64*ForwardRate)

// ForwarderOptions are those of a Forwarder. All are required.
type ForwarderOptions struct {
	Kafka  []kgo.Opt // brokers, encryption, sign-in
	Topic  string    // the live topic
	Model  string
	Count  int // shards
	Number int // of this one
	Log    *slog.Logger
	// OnForwarded is called after a batch was written, with how many of so many events it has, and its bytes.
	OnForwarded func(events, of int, share float64, bytes int64)
}

// Forwarder writes the events of a shard into the live topic, thinned where there are too many. Make it with
// NewForwarder, call Run once. Add may be called while it runs, by one goroutine at a time.
type Forwarder struct {
	ForwarderOptions
	client  *kgo.Client // of Run, as what follows
	checked bool        // the topic is as it has to be
	waiting *thinned    // what is written, until the brokers have it
	beat    time.Time   // of the last batch
	failing liveOutage

	mu      sync.Mutex // guards what follows
	pending *thinned
	allowed float64 // events that may be forwarded by now
	reached time.Time
}

// NewForwarder returns what forwards the events of a shard. Nothing is connected before Run.
func NewForwarder(o ForwarderOptions) *Forwarder {
	f := &Forwarder{ForwarderOptions: o, pending: newThinned(o.Number), reached: time.Now()}
	f.allowed = f.rate() * burst.Seconds()
	return f
}

// rate returns how many events a second this shard may forward.
func (f *Forwarder) rate() float64 { return ForwardRate / float64(f.Count) }

// Add forwards the events of a part that the store takes next, of an incarnation of its topic. It does not wait for the
// brokers.
func (f *Forwarder) Add(p *sketch.Part, incarnation uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.allowed = min(f.allowed+f.rate()*now.Sub(f.reached).Seconds(), f.rate()*burst.Seconds())
	f.reached = now
	at := f.pending.stretch(Stretch{p.Topic, p.Partition, incarnation, p.Base, p.Next})
	for i := range p.Records {
		if r := &p.Records[i]; r.Fate == sketch.Applied && !r.Replayed {
			f.pending.add(at, r.Offset, r.Forgotten, r.Payload)
		}
	}
	f.pending.thin(int(f.allowed), forwardBytes)
}

// take returns what is to be written next, nil for nothing.
func (f *Forwarder) take() *thinned {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.pending.Stretches) == 0 && time.Since(f.beat) < forwardBeat {
		return nil
	}
	taken := f.pending
	f.allowed -= float64(len(taken.Events))
	f.pending = newThinned(f.Number)
	return taken
}

// Run writes what was added until ctx is done. Whatever fails is tried again, and what is added until then is thinned:
// the sample does not depend on it.
func (f *Forwarder) Run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		wait := forwardEvery
		if err := f.Flush(ctx); err != nil {
			failures++
			wait = max(wait, backoff.Doubled(failures, retryMin, retryMax))
		} else {
			failures = 0
		}
		_ = backoff.Sleep(ctx, wait)
	}
}

// Flush writes what was added by now. It may be called once Run has returned.
func (f *Forwarder) Flush(ctx context.Context) error {
	if f.waiting == nil {
		if f.waiting = f.take(); f.waiting == nil {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	n, err := f.write(ctx)
	if f.failing.note(f.Topic, err) {
		f.Log.Error("events not forwarded: tried again until they are", "topic", f.Topic, "error", err)
	}
	if err != nil {
		f.Close()
		return err
	}
	f.beat = time.Now()
	f.OnForwarded(len(f.waiting.Events), f.waiting.seen, f.waiting.Share, n)
	f.waiting = nil
	return nil
}

// write writes the batch that waits.
func (f *Forwarder) write(ctx context.Context) (bytes int64, err error) {
	if f.client == nil {
		if f.client, err = produce.NewClient(append([]kgo.Opt{kgo.DefaultProduceTopic(f.Topic)}, f.Kafka...)...); err != nil {
			return 0, err
		}
	}
	if !f.checked {
		if err := prepareLive(ctx, f.client, f.Topic, f.Log); err != nil {
			return 0, err
		}
		f.checked = true
	}
	value, err := f.waiting.value(f.Model, f.Count)
	if err != nil {
		return 0, err
	}
	record := &kgo.Record{Key: keyOf(kindHead, f.Number, nil), Value: value}
	return int64(len(record.Key) + len(value)), f.client.ProduceSync(ctx, record).FirstErr()
}

// Close closes what Run opened.
func (f *Forwarder) Close() { produce.Close(&f.client) }

// Trouble says why nothing can be forwarded, or "".
func (f *Forwarder) Trouble() string { return f.failing.text() }

// A liveOutage is why the live topic cannot be read or written.
type liveOutage struct{ why atomic.Pointer[string] }

// note takes an error up, nil for none, and reports whether it is the first one.
func (o *liveOutage) note(topic string, err error) (first bool) {
	if err == nil {
		o.why.Store(nil)
		return false
	}
	text := "shard: the live topic " + topic + ": " + err.Error()
	return o.why.Swap(&text) == nil
}

func (o *liveOutage) text() string {
	if why := o.why.Load(); why != nil {
		return *why
	}
	return ""
}
