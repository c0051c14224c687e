package consumer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/fetch"

	"github.com/refitd/refitd/snapshot/backoff"
)

const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
	// maxUseless bounds the wait after answers in a row that came at once and brought nothing, which are errors of
	// partitions.
	maxUseless = time.Second
	// maxDamaged is how often a damaged batch is fetched. The network damages bytes once, a disk always.
	maxDamaged = 5
	// maxBeyond is how often the log must seem to end below the next offset: a new leader may not know its end at
	// first.
	maxBeyond = 3
	// maxThrottle bounds how long a broker may make us wait after one answer.
	maxThrottle = 30 * time.Second
)

// wait returns the wait after so many failures in a row.
func wait(failures int) time.Duration { return backoff.Wait(failures, minBackoff, maxBackoff) }

// fetch reads the partitions that broker leads until it leads none.
func (c *Consumer) fetch(ctx context.Context, broker int32) {
	key := fmt.Sprintf("broker %d", broker)
	for tries, useless, turn := 0, 0, 0; ; turn++ {
		questions, leads := c.ask(broker, turn)
		if !leads {
			c.report(key, "")
			return
		}
		if len(questions) == 0 {
			if backoff.Sleep(ctx, minBackoff/2) != nil {
				return
			}
			continue
		}
		began := time.Now()
		res, answers, shared, err := c.answer(ctx, broker, questions)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			tries++
			if c.failed(ctx, broker, err, tries) != nil {
				return
			}
			continue
		}
		tries = 0
		c.report(key, "")
		if !shared {
			c.metrics.count(questions, answers)
		}
		parts, again := c.portions(ctx, questions, answers)
		if !c.send(ctx, delivery{response: res, parts: parts}) {
			return
		}
		pause := min(time.Duration(res.ThrottleTimeMs)*time.Millisecond, maxThrottle)
		if took := time.Since(began); shared || again || len(parts) > 0 || took > min(minBackoff, c.opts.MaxWait)/2 {
			useless = 0
		} else { // answers at once and without use must not make a hot loop
			useless++
			pause = max(pause, min(wait(useless), maxUseless))
		}
		if len(parts) == 0 {
			res.release()
		}
		if pause > 0 && backoff.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// failed reports that a broker does not answer, after so many tries, and waits before the next one.
func (c *Consumer) failed(ctx context.Context, broker int32, err error, tries int) error {
	c.metrics.fetchErrors.WithLabelValues("connection").Inc()
	c.report(fmt.Sprintf("broker %d", broker), c.source.explain(err))
	c.doubtAll(broker)
	c.lookAgain()
	if refused(err) {
		c.source.forget() // its transport would retry in the background
	}
	return backoff.Sleep(ctx, c.source.pause(err, tries))
}

// count adds a response to the metrics of fetches.
func (m *metrics) count(questions []question, answers []partitionResponse) {
	m.fetches.Inc()
	for i := range answers {
		if find(questions, &answers[i]) != nil {
			m.fetchBytes.Add(float64(len(answers[i].records)))
		}
	}
}

// portions returns what the answers have for the sink. again says that a partition is to be asked once more at once.
func (c *Consumer) portions(ctx context.Context, questions []question, answers []partitionResponse) (parts []portion,
	again bool) {
	for i := range answers {
		a := &answers[i]
		q := find(questions, a)
		if q == nil {
			continue
		}
		o, ok := c.accept(ctx, *q, a)
		if again = again || o.again; ok {
			parts = append(parts, o)
		}
	}
	return parts, again
}

// question is what was asked about a partition.
type question struct {
	p     *partition
	from  int64        // its next offset
	seq   uint64       // of the response of the Share that it was last read from
	check *fingerprint // fetched from here, if not nil
}

// at is the offset that was asked for.
func (q *question) at() int64 {
	if q.check != nil {
		return q.check.offset
	}
	return q.from
}

// ask lists what to fetch from broker, starting with another partition each turn because a full response leaves out the
// last ones. leads is false, and the goroutine's place is given up, if broker leads no partition.
func (c *Consumer) ask(broker int32, turn int) (questions []question, leads bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, p := range c.sorted() {
		leads = leads || p.leader == broker
		if !p.answered.IsZero() && now.Sub(p.answered) > staleAfter {
			p.doubt()
		}
		if p.wants(broker, now) {
			q := question{p: p, from: p.fetched, seq: p.seq}
			if p.check {
				last := p.last
				q.check = &last
			}
			questions = append(questions, q)
		}
	}
	if !leads {
		delete(c.fetchers, broker)
	}
	if n := len(questions); n > 0 {
		questions = slices.Concat(questions[turn%n:], questions[:turn%n])
	}
	return questions, leads
}

func requestTopics(questions []question, most int) (topics []fetch.RequestTopic) {
	for i := range questions {
		q := &questions[i]
		if n := len(topics); n == 0 || topics[n-1].Topic != q.p.Topic {
			topics = append(topics, fetch.RequestTopic{Topic: q.p.Topic})
		}
		t := &topics[len(topics)-1]
		t.Partitions = append(
			t.Partitions,
			fetch.RequestPartition{Partition: q.p.Partition, CurrentLeaderEpoch: -1, FetchOffset: q.at(),
				LogStartOffset: -1, PartitionMaxBytes: int32(most)},
		)
	}
	return topics
}

// send waits for the sink to take d.
func (c *Consumer) send(ctx context.Context, d delivery) bool {
	if len(d.parts) == 0 {
		return ctx.Err() == nil
	}
	c.blocked.Add(1)
	defer c.blocked.Add(-1)
	select {
	case <-ctx.Done():
		return false
	case c.deliveries <- d:
		return true
	}
}

// accept checks the answer for one partition and moves its fetch offset. ok is false if there is nothing for the sink.
func (c *Consumer) accept(ctx context.Context, q question, a *partitionResponse) (o portion, ok bool) {
	p, from := q.p, q.from
	o = portion{p: p, from: from, check: q.check, aborted: a.aborted, start: a.logStart, end: a.high, stable: a.stable}
	switch err := kafka.Error(a.code); {
	case a.unconfirmed != nil:
		c.fail(p, a.unconfirmed)
		return o, false
	case a.code != 0 && err != kafka.OffsetOutOfRange:
		c.metrics.fetchErrors.WithLabelValues("partition").Inc()
		c.fail(p, err)
		c.lookAgain()
		return o, false
	case a.code != 0 || a.high < q.at(),
		q.check != nil && a.high == q.at(): // what is fetched at the log end brings nothing, and no error
		return c.outOfRange(ctx, o, q.at())
	}
	if a.logStart > from {
		return c.gap(o), true
	}

	good, next, err := scan(a.records, q.at())
	next = max(next, from)
	o.records = good
	if holes(good, q.at()) {
		c.learnPolicy(ctx, p.Topic)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.fetched != from { // moved by a response of an earlier leader
		return o, false
	}
	if q.check == nil && p.backwards(a) && p.last.offset >= 0 {
		p.doubt()
		return o, false
	}
	if o.again = len(good) > 0 && q.check == nil && p.rested() && p.last.offset >= 0; o.again {
		p.doubt()
		return o, false
	}
	if p.empty = len(good) == 0; !p.empty {
		p.heard = time.Now()
	}
	p.start, p.end, p.stable = a.logStart, a.high, a.stable
	p.high.Set(float64(a.high))
	p.lag.Set(float64(max(a.high-p.applied, 0)))
	p.fetched, p.beyond, p.answered = next, 0, time.Now()
	if q.check != nil && len(good) > 0 {
		p.check = false
	}
	if next > from {
		p.damaged, p.silence = 0, silence{since: p.answered}
	}
	visible := a.stable
	if c.opts.Isolation == ReadUncommitted {
		visible = a.high
	}
	if next > from || next >= visible {
		p.moved = p.answered
	}
	if next < visible || visible == a.high {
		p.stuck, p.held = time.Time{}, ""
	} else if p.stuck.IsZero() {
		p.stuck = p.answered
	}
	if err == nil {
		p.tries, p.problem = 0, ""
		return o, len(good) > 0
	}
	c.metrics.crcErrors.Inc()
	c.source.forget() // the next fetch is on another connection
	p.damaged++
	p.tries++
	p.retry = time.Now().Add(wait(p.tries))
	p.problem = err.Error()
	if p.damaged >= maxDamaged {
		p.waiting = true
		o.halt = fmt.Sprintf("%v (fetched %d times); later records cannot be read past it", err, maxDamaged)
	}
	return o, len(good) > 0 || o.halt != ""
}

// outOfRange finds out on which side of the log the offset at lies that was asked for: the answer itself does not say
// on a real broker.
func (c *Consumer) outOfRange(ctx context.Context, o portion, at int64) (portion, bool) {
	p := o.p
	o.records, o.check = nil, nil
	var err error
	if o.start, o.end, err = c.bounds(ctx, p.TopicPartition, at); err != nil {
		if ctx.Err() == nil {
			c.fail(p, err)
		}
		return o, false
	}
	switch {
	case o.start > o.from:
		return c.gap(o), true
	case o.start > at: // the record to compare is gone, nothing after it is
		c.metrics.fingerprints.WithLabelValues("skipped").Inc()
		c.opts.Logger.Info("fingerprint not compared", "topic", p.Topic, "partition", p.Partition, "offset", at,
			"reason", "the log starts above it")
		c.mu.Lock()
		defer c.mu.Unlock()
		if p.check = false; p.last.offset == at {
			p.last.offset = -1 // else it would be doubted again, with each answer, and nothing be read any more
		}
		return o, false
	case o.end >= o.from: // it was appended to, or led by another broker, in between, or that was not so
		c.source.forget()
		c.fail(p, kafka.OffsetOutOfRange)
		return o, false
	}
	c.fail(p, fmt.Errorf("log end %d is below our position %d", o.end, o.from))
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.beyond++; p.beyond < maxBeyond {
		return o, false
	}
	p.waiting = true
	o.halt = c.opts.truncated(o.end, o.from)
	return o, true
}

// truncated says that a log ends before what was applied of it.
func (o *Options) truncated(end, position int64) string {
	return o.advise(
		fmt.Sprintf(
			"log end %d is below our position %d: the topic was truncated or "+MadeAnew+
				", and what we applied is not what it holds",
			end,
			position,
		),
		CauseOtherLog,
	)
}

func (c *Consumer) gap(o portion) portion {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.p.waiting = true
	o.p.start = o.start
	o.gap, o.records = true, nil
	o.halt = c.opts.advise(
		fmt.Sprintf(
			"gap of %d offsets: the log starts at %d, our next offset is %d; retention took the records between before they "+
				"were read",
			o.start-o.from,
			o.start,
			o.from,
		),
		CauseGap,
	)
	return o
}

// fail puts off the next try of one partition.
func (c *Consumer) fail(p *partition, err error) {
	reason := c.source.explain(err)
	c.mu.Lock()
	p.tries++
	p.retry = time.Now().Add(c.source.pause(err, p.tries))
	p.doubt()
	changed := p.problem != reason
	p.problem = reason
	c.mu.Unlock()
	if changed {
		c.opts.Logger.Warn("cannot fetch", "topic", p.Topic, "partition", p.Partition, "reason", reason)
	}
}

// lookAgain makes discover ask for leaders now.
func (c *Consumer) lookAgain() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
