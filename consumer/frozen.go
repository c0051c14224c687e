package consumer

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
)

// A connection on which a log always ends where it did says nothing that is odd: to the reader it looks like a topic
// without producers. So where nothing comes any more another connection is asked for the end.

// lookEvery is how long nothing may come of a partition before another connection is asked for its end, again and
// again. Chosen by hand: as long as any other halt of reading takes to be noticed.
const lookEvery = time.Minute

// silence is what is known of a partition of which nothing comes. Consumer.mu guards it.
type silence struct {
	since  time.Time // of the last records, or of the last look
	end    int64     // that another connection has said, above what was fetched; 0 for none
	looked time.Time // when it did
}

// lookAtEnds asks about the ends of the partitions of which nothing came for a while, and begins with new connections
// where fetches have kept on ending below them.
func (c *Consumer) lookAtEnds(ctx context.Context) {
	now := time.Now()
	var silent []TopicPartition
	var frozen []*partition
	c.mu.Lock()
	for tp, p := range c.parts {
		s, visible := &p.silence, p.stable
		if c.opts.Isolation == ReadUncommitted {
			visible = p.end
		}
		switch {
		case c.blocked.Load() > 0 || p.halted != "" || p.waiting || p.leader < 0 || p.end < 0 || p.fetched >= p.until ||
			p.pause.reason != "" || p.problem != "" || s.since.IsZero(),
			visible > p.fetched: // it waits for its turn: answers are full with other partitions, or of tiered storage
			*s = silence{since: now}
		case s.end > p.fetched && p.answered.Sub(s.looked) > 2*c.opts.MaxWait: // the answer is to a later question
			frozen = append(frozen, p)
		case s.end == 0 && now.Sub(s.since) > c.lookEvery:
			silent = append(silent, tp)
		}
	}
	c.mu.Unlock()
	for _, p := range frozen {
		c.mu.Lock()
		text := fmt.Sprintf("fetches have nothing from %d on, and the log ends at %d", p.fetched, p.silence.end)
		at := p.silence.end
		p.silence = silence{since: now}
		p.doubt()
		c.mu.Unlock()
		c.refused(p.Topic, p.Partition, refusedEnd, at, text)
	}
	if len(frozen) > 0 {
		c.source.forget()
	}
	if len(silent) == 0 {
		return
	}
	ends, err := c.source.offsets(ctx, c.source.witness, silent, kafka.LastOffset, c.opts.Isolation.level())
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, tp := range silent {
		p := c.parts[tp]
		p.silence = silence{since: time.Now()}
		if err == nil && ends[tp] > p.fetched {
			p.silence.end, p.silence.looked = ends[tp], time.Now()
		}
	}
}
