package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/refitd/refitd/snapshot/backoff"
)

// discover keeps partitions and leaders up to date, and starts a fetch goroutine for each leader.
func (c *Consumer) discover(ctx context.Context) {
	for tries, wakes := 0, 0; ; {
		err := c.refresh(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			tries++
			c.source.forget() // the transport would repeat its last answer
			c.report("metadata", c.source.explain(err))
			if backoff.Sleep(ctx, c.source.pause(err, tries)) != nil {
				return
			}
			continue
		}
		tries = 0
		c.report("metadata", "")
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.opts.RefreshEvery):
			wakes = 0
		case <-c.wake:
			if wakes++; backoff.Sleep(ctx, wait(wakes)) != nil { // many partitions fail together, and some for long
				return
			}
			c.source.forget()
		}
	}
}

var errNoLeader = errors.New("no leader is elected")

// refresh looks for partitions and leaders once.
func (c *Consumer) refresh(ctx context.Context) error {
	topics, err := c.source.topics(ctx, c.source.client)
	if err != nil {
		return err
	}
	leaders, fresh, errs := c.survey(topics)
	more, err := c.placeFresh(ctx, topics, fresh)
	if err != nil {
		return err
	}
	errs = append(errs, more...)
	c.lead(ctx, leaders, len(errs) == 0 && c.opts.Owns != nil)
	return errors.Join(errs...)
}

// survey returns who leads the partitions that are wanted, those of them that are not known yet, by topic, and what is
// wrong with topics.
func (c *Consumer) survey(topics []kafka.Topic) (leaders map[TopicPartition]int32, fresh map[string][]TopicPartition,
	errs []error) {
	leaders, fresh = make(map[TopicPartition]int32), make(map[string][]TopicPartition)
	for _, t := range topics {
		if t.Error != nil {
			errs = append(errs, fmt.Errorf("topic %s: %w", t.Name, t.Error))
			continue
		}
		for _, tp := range c.missing(t.Name, len(t.Partitions)) {
			errs = append(errs,
				fmt.Errorf("%s: the topic has %d partitions now: it was made anew with fewer", tp, len(t.Partitions)))
		}
		for _, p := range t.Partitions {
			tp := TopicPartition{t.Name, int32(p.ID)}
			if !c.opts.owns(tp) {
				continue
			}
			if _, ok := c.ends[tp]; c.ends != nil && !ok {
				continue
			}
			leader, ok := leaderOf(p)
			if leaders[tp] = leader; !ok {
				errs = append(errs, fmt.Errorf("%s: %w", tp, errNoLeader))
			}
			if !c.known(tp) {
				fresh[t.Name] = append(fresh[t.Name], tp)
			}
		}
	}
	return leaders, fresh, errs
}

// placeFresh decides where new partitions start, and notes how many each sound topic has.
func (c *Consumer) placeFresh(ctx context.Context, topics []kafka.Topic, fresh map[string][]TopicPartition) (
	errs []error, err error) {
	unlike := make(map[string]error)
	if len(fresh) > 0 { // how many partitions there are decides where one starts
		if unlike, err = c.source.unlike(ctx, topics); err != nil {
			return nil, err
		}
	}
	for _, t := range topics {
		if parts := fresh[t.Name]; len(parts) > 0 {
			if err := unlike[t.Name]; err != nil {
				errs = append(errs, err)
				continue
			}
			if err := c.place(ctx, parts); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		if t.Error == nil {
			c.counts[t.Name] = len(t.Partitions)
		}
	}
	return errs, nil
}

// leaderOf returns the broker that leads a partition: -1, and false, where it is not among the live ones.
func leaderOf(p kafka.Partition) (broker int32, ok bool) {
	if p.Leader.Host == "" || p.Leader.ID < 0 {
		return -1, false
	}
	return int32(p.Leader.ID), true
}

func (c *Consumer) known(tp TopicPartition) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.parts[tp] != nil
}

// missing lists the partitions of a topic that are being read and are not among its first n any more.
func (c *Consumer) missing(topic string, n int) (out []TopicPartition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.sorted() {
		if p.Topic == topic && int(p.Partition) >= n && p.halted == "" {
			out = append(out, p.TopicPartition)
		}
	}
	return out
}

// place decides where new partitions of one topic start, and has the caller store it before anything of them is read.
func (c *Consumer) place(ctx context.Context, parts []TopicPartition) error {
	stored := make(map[TopicPartition]int64)
	var open []TopicPartition
	for _, tp := range parts {
		if c.opts.Start != nil {
			if offset, ok := c.opts.Start(tp.Topic, tp.Partition); ok {
				stored[tp] = offset
				continue
			}
		}
		open = append(open, tp)
	}
	// A partition that was added to a topic we know starts at 0, whatever the policy is: nothing of it has been skipped
	// on purpose, and what its log has lost by now is a gap. The others may all be of other processes.
	found := make(map[TopicPartition]int64)
	if before := c.counts[parts[0].Topic]; before > 0 {
		open = slices.DeleteFunc(open, func(tp TopicPartition) bool { return int(tp.Partition) >= before })
	}
	if len(open) > 0 && len(stored) == 0 && !c.reads(parts[0].Topic) {
		when := int64(kafka.FirstOffset)
		if c.opts.StartPolicy == Latest && (c.opts.FromStart == nil || !c.opts.FromStart(parts[0].Topic)) {
			when = kafka.LastOffset
		}
		var err error
		if found, err = c.confirmedOffsets(ctx, open, when); err != nil {
			return err
		}
	}
	c.mu.Lock()
	now := time.Now()
	var fresh []portion
	for _, tp := range parts {
		if offset, ok := stored[tp]; ok {
			p := c.add(tp, offset, true, now)
			if c.opts.LastRecord != nil {
				if offset, crc, ok := c.opts.LastRecord(tp.Topic, tp.Partition); ok {
					p.last = fingerprint{offset, crc} // compared once it has a leader
				}
			}
			continue
		}
		fresh = append(fresh, portion{p: c.add(tp, found[tp], false, now), from: found[tp]})
	}
	c.mu.Unlock()
	c.send(ctx, delivery{parts: fresh})
	return nil
}

// reads reports whether any partition of topic is being read.
func (c *Consumer) reads(topic string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for tp := range c.parts {
		if tp.Topic == topic {
			return true
		}
	}
	return false
}

// lead hands partitions to the fetch goroutines of their leaders. Where those are all there are to own, there may be
// none.
func (c *Consumer) lead(ctx context.Context, leaders map[TopicPartition]int32, all bool) {
	c.mu.Lock()
	var settled []portion
	for tp, leader := range leaders {
		p := c.parts[tp]
		if p == nil {
			continue
		}
		if p.leader != leader {
			p.doubt()
		}
		p.leader = leader
		if leader >= 0 && !c.fetchers[leader] {
			c.fetchers[leader] = true
			c.wg.Go(func() { c.fetch(ctx, leader) })
		}
		if p.applied > p.until && p.halted == "" && !p.waiting { // RunUntil does not fetch it
			p.waiting = true
			settled = append(settled, portion{p: p, from: p.applied, halt: c.opts.truncated(p.until, p.applied)})
		}
	}
	c.discovered = c.discovered || all || len(c.parts) > 0
	c.mu.Unlock()
	c.send(ctx, delivery{parts: settled})
}

// watch drops the connections when a partition is behind, has a leader, and made no progress for StallTimeout while the
// sink was idle. A partition that waits at the last stable offset for an open transaction is not behind: that is
// reported once it has lasted as long.
func (c *Consumer) watch(ctx context.Context) {
	for backoff.Sleep(ctx, c.opts.StallTimeout/8+1) == nil {
		now := time.Now()
		var stalled, held []*partition
		c.mu.Lock()
		for _, p := range c.parts {
			if c.blocked.Load() > 0 || p.halted != "" || p.waiting || p.fetched >= p.until {
				p.moved = now
			}
			if now.Sub(p.moved) > c.opts.StallTimeout {
				stalled = append(stalled, p)
				p.moved = now
				p.problem = fmt.Sprintf("no progress for %v: connections were rebuilt", c.opts.StallTimeout)
			}
			if !p.stuck.IsZero() && now.Sub(p.stuck) > c.opts.StallTimeout && p.held == "" {
				held = append(held, p)
				p.held = fmt.Sprintf(
					"waiting at the last stable offset %d, %d below the end of the log: a transaction of a producer is open",
					p.stable,
					p.end-p.stable,
				)
			}
		}
		c.mu.Unlock()
		for _, p := range held {
			c.opts.Logger.Warn("waiting at the last stable offset", "note", "a transaction of a producer is open", "topic",
				p.Topic, "partition", p.Partition, "for", c.opts.StallTimeout)
		}
		for _, p := range stalled {
			c.metrics.stalls.Inc()
			c.opts.Logger.Warn("no progress: connections are rebuilt", "topic", p.Topic, "partition", p.Partition,
				"for", c.opts.StallTimeout)
		}
		if len(stalled) > 0 {
			c.source.drop()
			c.lookAgain()
		}
		c.lookAtEnds(ctx)
	}
}
