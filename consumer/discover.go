package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
)

// discover keeps partitions and leaders up to date, and starts a fetch goroutine for each leader.
func (c *Consumer) discover(ctx context.Context) {
	for tries := 0; ; {
		err := c.refresh(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			tries++
			c.source.forget() // the transport would repeat its last answer
			pause := backoff(tries)
			c.report("metadata", c.source.explain(err))
			if refused(err) {
				pause = refusedBackoff
			}
			if !sleep(ctx, pause) {
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
		case <-c.wake:
			if !sleep(ctx, minBackoff) { // many partitions fail together
				return
			}
			c.source.forget()
		}
	}
}

var errNoLeader = errors.New("no leader is elected")

// refresh looks for partitions and leaders once.
func (c *Consumer) refresh(ctx context.Context) error {
	topics, err := c.source.topics(ctx)
	if err != nil {
		return err
	}
	var errs []error
	leaders := make(map[TopicPartition]int32)
	fresh := make(map[string][]TopicPartition)
	for _, t := range topics {
		if t.Error != nil {
			errs = append(errs, fmt.Errorf("topic %s: %w", t.Name, t.Error))
			continue
		}
		for _, p := range t.Partitions {
			tp := TopicPartition{t.Name, int32(p.ID)}
			if _, ok := c.ends[tp]; c.ends != nil && !ok {
				continue
			}
			leaders[tp] = -1
			if p.Leader.Host != "" { // else the leader is not among the live brokers
				leaders[tp] = int32(p.Leader.ID)
			} else {
				errs = append(errs, fmt.Errorf("%s: %w", tp, errNoLeader))
			}
			if !c.known(tp) {
				fresh[t.Name] = append(fresh[t.Name], tp)
			}
		}
	}
	for _, parts := range fresh {
		if err := c.place(ctx, parts); err != nil {
			errs = append(errs, err)
		}
	}
	c.lead(ctx, leaders)
	return errors.Join(errs...)
}

func (c *Consumer) known(tp TopicPartition) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.parts[tp] != nil
}

// place decides where new partitions of one topic start.
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
	when := int64(kafka.FirstOffset)
	if c.opts.StartPolicy == Latest && len(stored) == 0 && !c.reads(parts[0].Topic) {
		when = kafka.LastOffset
	}
	found := make(map[TopicPartition]int64)
	if len(open) > 0 {
		var err error
		if found, err = c.source.offsets(ctx, open, when, c.opts.Isolation.level()); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, tp := range parts {
		if offset, ok := stored[tp]; ok {
			c.add(tp, offset, true, now)
		} else {
			c.add(tp, found[tp], false, now)
		}
	}
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

// lead hands partitions to the fetch goroutines of their leaders.
func (c *Consumer) lead(ctx context.Context, leaders map[TopicPartition]int32) {
	c.mu.Lock()
	var settled []portion
	for tp, leader := range leaders {
		p := c.parts[tp]
		if p == nil {
			continue
		}
		p.leader = leader
		if leader >= 0 && !c.fetchers[leader] {
			c.fetchers[leader] = true
			c.wg.Go(func() { c.fetch(ctx, leader) })
		}
		// RunUntil never fetches a partition that is at or past its end.
		switch {
		case p.applied > p.until && p.halted == "" && !p.waiting:
			p.waiting = true
			settled = append(settled, portion{p: p, from: p.applied, halt: truncated(p.until, p.applied)})
		case p.applied == p.until && !p.begun:
			settled = append(settled, portion{p: p, from: p.applied})
		}
	}
	c.discovered = c.discovered || len(c.parts) > 0
	c.mu.Unlock()
	c.send(ctx, delivery{parts: settled})
}

// watch drops the connections when a partition is behind, has a leader, and made no progress for StallTimeout while the sink was idle. A
// partition that waits at the last stable offset for an open transaction is not behind.
func (c *Consumer) watch(ctx context.Context) {
	for sleep(ctx, c.opts.StallTimeout/8+1) {
		now := time.Now()
		var stalled []*partition
		c.mu.Lock()
		for _, p := range c.parts {
			if c.blocked.Load() > 0 || p.halted != "" || p.waiting || p.fetched >= p.until {
				p.moved = now
			}
			if now.Sub(p.moved) > c.opts.StallTimeout {
				stalled = append(stalled, p)
				p.moved = now
			}
		}
		c.mu.Unlock()
		for _, p := range stalled {
			c.metrics.stalls.Inc()
			c.opts.Logger.Warn("no progress: connections are rebuilt", "topic", p.Topic, "partition", p.Partition, "for", c.opts.StallTimeout)
		}
		if len(stalled) > 0 {
			c.source.drop()
			c.lookAgain()
		}
	}
}

// commit shows applied offsets to lag tools every CommitEvery and when ctx is done.
func (c *Consumer) commit(ctx context.Context) {
	if c.opts.GroupID == "" {
		return
	}
	shown := make(map[TopicPartition]int64)
	for alive, failing := true, false; alive; {
		alive = sleep(ctx, c.opts.CommitEvery)
		if !alive {
			c.wg.Wait() // nothing moves any more
		}
		moved := make(map[TopicPartition]int64)
		c.mu.Lock()
		for tp, p := range c.parts {
			if last, ok := shown[tp]; p.begun && (!ok || last != p.applied) {
				moved[tp] = p.applied
			}
		}
		c.mu.Unlock()
		if len(moved) == 0 {
			continue
		}
		c.metrics.commits.Inc()
		if err := c.commitOnce(ctx, moved); err != nil {
			c.metrics.commitErrors.Inc()
			if !failing {
				c.opts.Logger.Warn("offsets are not shown to the group", "group", c.opts.GroupID, "reason", c.source.explain(err))
			}
			failing = true
			continue
		}
		failing = false
		for tp, offset := range moved {
			shown[tp] = offset
		}
	}
}

// lastCommitTimeout keeps a broker that is gone from holding up the stop.
const lastCommitTimeout = 2 * time.Second

func (c *Consumer) commitOnce(ctx context.Context, moved map[TopicPartition]int64) error {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastCommitTimeout)
		defer cancel()
	}
	if err := failpoint("consumer.offsets"); err != nil {
		return err
	}
	return c.source.commit(ctx, moved)
}
