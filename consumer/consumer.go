package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/refitd/refitd/consumer/internal/codec"
	"github.com/refitd/refitd/snapshot/backoff"
	"github.com/refitd/refitd/snapshot/failpoint"
)

// Consumer reads every partition of its topics into a sink. One goroutine for each broker fetches and checks batches
// while the goroutine of Run walks and applies what came before, so that at most two responses of a broker are in
// memory. It is one type: its lock guards the partitions that fetching, discovery and applying share.
type Consumer struct {
	opts    Options
	sink    Sink
	queue   Queue // sink, if it is one
	source  *source
	metrics *metrics

	// Set by RunUntil before anything else runs.
	ends map[TopicPartition]int64

	deliveries chan delivery
	counts     map[string]int // partitions of each topic; belongs to the goroutine that discovers
	wake       chan struct{}  // something changed that discover should look at now
	blocked    atomic.Int32   // deliveries that wait for the sink, or are in it
	wg         sync.WaitGroup

	mu         sync.Mutex
	parts      map[TopicPartition]*partition
	fetchers   map[int32]bool // brokers that have a fetch goroutine
	problems   map[string]string
	policies   map[string]topicPolicy // of topics with holes
	discovered bool                   // the topics and their partitions are known

	pauseReport, pauseLimit, lookEvery time.Duration // the constants, but for tests

	// Of the goroutine of Run.
	walker  walker
	records []Record
	batch   Batch
	taken   []tally // of batches that queue has taken and not said to have stored
}

// tally is what is counted of a batch once it is stored.
type tally struct {
	p          *partition
	base, next int64
	fates      [Aborted + 1]int
	records    int
	last       fingerprint // of the last record delivered, if there was one
}

func tallyOf(p *partition, b *Batch) tally {
	t := tally{p: p, base: b.Base, next: b.Next, records: len(b.Records)}
	for i := range b.Records {
		r := &b.Records[i]
		if t.fates[r.Fate]++; r.Fate == Delivered {
			t.last = fingerprint{r.Offset, r.CRC}
		}
	}
	return t
}

// holes returns how many of the offsets have no record.
func (t *tally) holes() int64 { return t.next - t.base - int64(t.records) }

// delivery is one response on its way to the sink.
type delivery struct {
	parts    []portion
	response *fetchResponse // given back when its parts have been applied; may be nil
}

// portion is what a delivery has for one partition: batches that were checked, then perhaps why there are no more.
type portion struct {
	p       *partition
	from    int64        // the next offset when it was asked for
	check   *fingerprint // to be found in records first, which begin with it; nil if not
	records []byte
	aborted []AbortedTransaction
	start   int64 // log start
	end     int64 // high watermark
	stable  int64 // last stable offset
	gap     bool  // the log starts above from
	again   bool  // nothing of it counts: the same is to be asked for with the fingerprint, at once
	halt    string
}

// New returns a consumer of opts that applies batches to sink. It does not connect. The error is that of
// Options.Validate. It panics without a logger or registerer.
func New(opts Options, sink Sink) (*Consumer, error) {
	if opts.Logger == nil || opts.Registerer == nil {
		panic("consumer: Options.Logger and Options.Registerer are required")
	}
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	c := &Consumer{opts: opts, sink: sink, deliveries: make(chan delivery), wake: make(chan struct{}, 1),
		parts: make(map[TopicPartition]*partition), fetchers: make(map[int32]bool), counts: make(map[string]int),
		problems: make(map[string]string), policies: make(map[string]topicPolicy),
		pauseReport: pauseReport, pauseLimit: pauseLimit, lookEvery: lookEvery}
	c.queue, _ = sink.(Queue)
	var err error
	c.metrics = newMetrics(opts.Registerer, opts.Topics)
	if c.source, err = newSource(&c.opts, c.metrics); err != nil {
		return nil, err
	}
	c.source.dialer.SignedIn = func(err error) {
		text := ""
		if err != nil {
			text = c.source.explain(err)
		}
		c.report("sign-in", text)
	}
	c.walker.maxDecompressed = opts.MaxDecompressedBytes
	if opts.Share != nil {
		opts.Share.join(c)
	}
	return c, nil
}

// Run reads until ctx is done and then returns nil. A broker that is down, slow or refuses us is waited for; Status
// says so. The only errors are those of the sink, Begin and AcceptGap, which end it. Call one of Run and RunUntil,
// once.
func (c *Consumer) Run(ctx context.Context) error { return c.RunUntil(ctx, nil) }

// RunUntil reads as Run does, but only the partitions in ends and nothing from the offsets given there on, and returns
// nil when each of them has been reached or has halted. A nil map has no end.
func (c *Consumer) RunUntil(ctx context.Context, ends map[TopicPartition]int64) error {
	c.ends = ends
	running, stop := context.WithCancel(ctx)
	c.wg.Go(func() { c.discover(running) })
	c.wg.Go(func() { c.watch(running) })
	rest, committed := make(chan struct{}), make(chan struct{})
	go func() { // commits once more after everything else has ended
		defer close(committed)
		c.commit(running, rest)
	}()
	err := c.apply(running)
	stop()
	c.source.drop() // a fetch that waits for the broker ends now
	c.wg.Wait()
	close(rest)
	<-committed
	c.source.drop()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// apply hands deliveries to the sink until ctx is done or all ends are reached.
func (c *Consumer) apply(ctx context.Context) error {
	var tick <-chan time.Time
	if c.ends != nil { // notices ends that are reached without a delivery
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		tick = ticker.C
	}
	for !c.finished() {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		case d := <-c.deliveries:
			c.blocked.Add(1)
			err := c.deliver(ctx, d)
			c.blocked.Add(-1)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Consumer) deliver(ctx context.Context, d delivery) error {
	err := c.deliverParts(ctx, d.parts)
	if err != nil {
		c.taken = c.taken[:0] // nobody knows how much of it is stored
	}
	if flushed := c.flush(); err == nil { // in any case: nothing is stored any more after Run
		err = flushed
	}
	if err == nil && ctx.Err() == nil && d.response != nil {
		d.response.release()
	}
	return err
}

func (c *Consumer) deliverParts(ctx context.Context, parts []portion) error {
	for i := range parts {
		if ctx.Err() != nil {
			return nil
		}
		if err := c.deliverPortion(ctx, &parts[i]); err != nil {
			return err
		}
		if err := failpoint.At(failpoint.ConsumerBetween); err != nil {
			return err
		}
	}
	return nil
}

// take gives the sink a batch.
func (c *Consumer) take(ctx context.Context, p *partition, b *Batch) error {
	if c.queue == nil {
		if err := c.sink.Apply(ctx, b); err != nil {
			return err
		}
		c.applied(tallyOf(p, b))
		return nil
	}
	if err := c.queue.Take(ctx, b); err != nil {
		return err
	}
	c.taken = append(c.taken, tallyOf(p, b))
	return nil
}

// flush waits until all that the sink has taken is stored.
func (c *Consumer) flush() error {
	if c.queue == nil {
		return nil
	}
	if err := c.queue.Flush(); err != nil {
		return fmt.Errorf("consumer: apply: %w", err)
	}
	for _, t := range c.taken {
		c.applied(t)
	}
	c.taken = c.taken[:0]
	return nil
}

func (c *Consumer) deliverPortion(ctx context.Context, o *portion) error {
	p := o.p
	c.mu.Lock()
	from, begun := p.applied, p.begun
	skip := p.halted != ""
	stale := o.from != from // another leader's response came before this one
	if stale {
		p.waiting = false
		if o.check != nil {
			p.doubt()
		}
	}
	if o.from > from { // and one is still to come: ask again
		p.fetched, skip = from, true
	}
	c.mu.Unlock()
	if skip || stale && o.check != nil {
		return nil
	}
	if o.check != nil {
		if text := c.compare(o); text != "" {
			if c.mismatched(p, text) {
				c.halt(p, text)
			}
			return nil
		}
		c.mu.Lock()
		p.mismatches = 0
		c.mu.Unlock()
	}
	if !begun {
		if c.opts.Begin != nil {
			if err := c.opts.Begin(p.Topic, p.Partition, from); err != nil {
				return fmt.Errorf("consumer: begin %s at %d: %w", p.TopicPartition, from, err)
			}
		}
		c.mu.Lock()
		p.begun = true
		c.mu.Unlock()
	}
	ended, err := c.deliverRecords(ctx, o, from)
	if ended || err != nil || stale || ctx.Err() != nil || !o.gap && o.halt == "" {
		return err
	}
	if err := c.flush(); err != nil {
		return err
	}
	if o.gap && c.opts.AcceptGap != nil {
		return c.acceptGap(p, o.start)
	}
	c.halt(p, o.halt)
	return nil
}

// deliverRecords gives the records of a portion from an offset on to the sink. ended is true if the partition was
// paused, halted or moved, so that what else the portion says is not to be looked at.
func (c *Consumer) deliverRecords(ctx context.Context, o *portion, from int64) (ended bool, err error) {
	p := o.p
	c.walker.reset(o.records, from, p.until, o.aborted)
	for done := false; !done && ctx.Err() == nil; {
		var next int64
		var unread error
		c.records, next, done, unread = c.walker.walk(c.records[:0], c.opts.MaxBatchRecords)
		if next > from {
			c.batch = Batch{
				Topic:         p.Topic,
				Partition:     p.Partition,
				Base:          from,
				Next:          next,
				LogStart:      o.start,
				HighWatermark: o.end,
				LastStable:    o.stable,
				Records:       c.records,
			}
			if err := c.take(ctx, p, &c.batch); err != nil {
				return true, c.notTaken(p, &c.batch, err)
			}
			from = next
		}
		if unread == nil {
			continue
		}
		if err := c.flush(); err != nil {
			return true, err
		}
		// Its CRC was right: to fetch it again would not help.
		if big, ok := errors.AsType[*codec.TooBigError](unread); ok && c.opts.AcceptGap != nil {
			c.opts.Logger.Warn("batch given up", "topic", p.Topic, "partition", p.Partition, "reason", unread.Error())
			return true, c.acceptGap(p, min(big.Next, p.until))
		}
		c.halt(p, unread.Error())
		return true, nil
	}
	return false, nil
}

// notTaken does what the sink's error asks for, once what it took before is stored.
func (c *Consumer) notTaken(p *partition, b *Batch, err error) error {
	full, pauses := errors.AsType[*PauseError](err)
	bad, halts := errors.AsType[*HaltError](err)
	if !pauses && !halts {
		return fmt.Errorf("consumer: apply %s from %d to %d: %w", p.TopicPartition, b.Base, b.Next, err)
	}
	if err := c.flush(); err != nil {
		return err
	}
	if pauses {
		c.pause(p, b, full)
		return nil
	}
	c.appliedTo(p, b, bad.Next)
	c.halt(p, bad.Reason)
	return nil
}

func (c *Consumer) applied(t tally) {
	p := t.p
	c.resumed(p)
	c.metrics.applied(&t)
	c.mu.Lock()
	defer c.mu.Unlock()
	p.applied = t.next
	p.fetched = max(p.fetched, t.next)
	p.moved = time.Now()
	if t.fates[Delivered] > 0 {
		p.last = t.last
	}
	p.lag.Set(float64(max(p.end-p.applied, 0)))
	c.missed(&t)
}

// acceptGap gives up the offsets below until.
func (c *Consumer) acceptGap(p *partition, until int64) error {
	if err := c.opts.AcceptGap(p.Topic, p.Partition, until); err != nil {
		return fmt.Errorf("consumer: accept a gap of %s up to %d: %w", p.TopicPartition, until, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opts.Logger.Warn("gap accepted", "topic", p.Topic, "partition", p.Partition, "next", p.applied, "until", until)
	p.applied, p.fetched, p.waiting = until, until, false
	return nil
}

// halt stops a partition for good. It is called from the goroutine that calls the sink.
func (c *Consumer) halt(p *partition, reason string) {
	c.mu.Lock()
	p.halted, p.problem, p.waiting = reason, "", false
	offset := p.applied
	c.mu.Unlock()
	c.metrics.halted.Inc()
	c.opts.Logger.Error("partition halted", "topic", p.Topic, "partition", p.Partition, "offset", offset, "reason",
		reason)
	if c.opts.OnHalt != nil {
		c.opts.OnHalt(p.Topic, p.Partition, offset, reason)
	}
}

// endsTimeout is how long Ends tries. A broker that is starting up needs a few seconds.
const endsTimeout = 10 * time.Second

// Ends returns the end of every partition as it is now: the last stable offset under ReadCommitted, else the high
// watermark. No end is one answer's alone. It tries for ten seconds; a broker that cannot be reached, refuses us, or
// lacks one of the topics is an error. Call it before RunUntil.
func (c *Consumer) Ends(ctx context.Context) (map[TopicPartition]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, endsTimeout)
	defer cancel()
	defer c.source.drop()
	for tries := 1; ; tries++ {
		ends, err := c.listed(ctx, kafka.LastOffset)
		if err == nil || refused(err) || backoff.Sleep(ctx, wait(tries)) != nil {
			if err != nil {
				return nil, fmt.Errorf("consumer: log ends: %s", c.source.explain(err))
			}
			return ends, nil
		}
		c.source.forget()
	}
}

// listed returns the first or last offset of every partition of the topics.
func (c *Consumer) listed(ctx context.Context, when int64) (map[TopicPartition]int64, error) {
	parts, err := c.partitions(ctx)
	if err != nil {
		return nil, err
	}
	return c.confirmedOffsets(ctx, parts, when)
}

// partitions lists those of the topics that are this consumer's.
func (c *Consumer) partitions(ctx context.Context) (parts []TopicPartition, err error) {
	topics, err := c.source.topics(ctx, c.source.client)
	if err != nil {
		return nil, err
	}
	unlike, err := c.source.unlike(ctx, topics)
	if err != nil {
		return nil, err
	}
	for _, t := range topics {
		if err := cmp.Or(t.Error, unlike[t.Name]); err != nil {
			return nil, fmt.Errorf("topic %s: %w", t.Name, err)
		}
		for _, p := range t.Partitions {
			if tp := (TopicPartition{t.Name, int32(p.ID)}); c.opts.owns(tp) {
				parts = append(parts, tp)
			}
		}
	}
	return parts, nil
}
