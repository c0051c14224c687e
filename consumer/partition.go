package consumer

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// partition is the state of one partition. Consumer.mu guards it. It is one type: a fetch and its answer move all its
// fields together.
type partition struct {
	TopicPartition
	lag, high prometheus.Gauge

	leader  int32 // -1 while the partition has no leader
	fetched int64 // the next offset to ask the broker for
	applied int64 // the sink has stored everything below
	until   int64 // nothing from here on is wanted; math.MaxInt64 reads on
	last    fingerprint
	check   bool // last is to be compared before anything else is applied
	numbers Numbers
	seq     uint64 // of the response of the Share that it was last read from
	end     int64  // high watermark, -1 before the first answer
	stable  int64  // last stable offset, -1 before the first answer
	start   int64  // log start, -1 before the first answer

	begun   bool // the caller knows where the partition started
	waiting bool // a gap or a halt is on its way to the goroutine that calls the sink
	halted  string
	problem string // why the last fetch failed

	pause pauseState

	mismatches int // comparisons in a row of last that found another record

	damaged  int // fetches in a row that stopped at a damaged batch
	beyond   int // answers in a row that the log ends below fetched
	tries    int // failures in a row
	retry    time.Time
	answered time.Time // last fetch without an error, zero before
	heard    time.Time // last fetch with records, zero before
	empty    bool      // there has been one without since
	moved    time.Time // last progress, or last answer that nothing is left to read
	stuck    time.Time // since when an open transaction is all that is left to wait for, zero if it is not
	held     string    // the same in words, once it lasts
}

// wants reports whether there is anything to ask broker for.
func (p *partition) wants(broker int32, now time.Time) bool {
	if p.leader != broker || p.halted != "" || p.waiting || now.Before(p.retry) {
		return false
	}
	if p.check {
		return p.applied == p.fetched // nothing is on its way to the sink
	}
	return p.fetched < p.until
}

// done reports whether RunUntil has nothing more to expect of it. A position above the end is not done but about to
// halt.
func (p *partition) done() bool { return p.halted != "" || p.begun && p.applied == p.until && !p.check }

// Status is what the consumer is doing, for readiness and for people.
type Status struct {
	Ready      bool     // the brokers answer, and every partition is being read or has halted
	Reasons    []string // why not ready, and every partition that has halted or waits for an open transaction
	Partitions []PartitionStatus
}

// PartitionStatus is the place of one partition.
type PartitionStatus struct {
	Topic         string
	Partition     int32
	Next          int64  // everything below has been applied
	LogStart      int64  // -1 before the first fetch
	HighWatermark int64  // end of the log, -1 before the first fetch
	LastStable    int64  // end of what read_committed may see, -1 before the first fetch
	Lag           int64  // HighWatermark - Next, 0 before the first fetch
	Halted        string // the text given to OnHalt, or empty
	Paused        string // why its sink takes nothing for now, or empty
}

// Status may be called at any time from any goroutine. Partitions are in the order of topic and number.
func (c *Consumer) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Status{Ready: c.discovered}
	for _, text := range c.problems {
		s.Ready = false
		s.Reasons = append(s.Reasons, text)
	}
	if !c.discovered && len(s.Reasons) == 0 {
		s.Reasons = append(s.Reasons, "kafka: waiting for the first answer of a broker")
	}
	slices.Sort(s.Reasons)
	for _, p := range c.sorted() {
		ps := PartitionStatus{
			Topic:         p.Topic,
			Partition:     p.Partition,
			Next:          p.applied,
			LogStart:      p.start,
			HighWatermark: p.end,
			LastStable:    p.stable,
			Halted:        p.halted,
			Paused:        p.pause.reason,
		}
		if p.end >= 0 {
			ps.Lag = max(p.end-p.applied, 0)
		}
		note := func(ready bool, format string, args ...any) {
			s.Ready = s.Ready && ready
			s.Reasons = append(s.Reasons, fmt.Sprintf("kafka: %s"+format, append([]any{p.TopicPartition}, args...)...))
		}
		switch {
		case p.halted != "":
			note(true, " halted at offset %d: %s", p.applied, p.halted)
		case p.pause.reason != "":
			note(false, " paused at offset %d: %s", p.applied, p.pause.reason)
		case p.problem != "":
			note(false, ": %s", p.problem)
		case p.held != "":
			note(true, ": %s", p.held)
		case p.end < 0 && !p.done():
			note(false, ": waiting for the first fetch")
		}
		s.Partitions = append(s.Partitions, ps)
	}
	return s
}

// sorted returns the partitions by topic and number. The caller holds mu.
func (c *Consumer) sorted() []*partition {
	return slices.SortedFunc(maps.Values(c.parts), func(a, b *partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

// add makes the state of a partition that continues at offset. The caller holds mu.
func (c *Consumer) add(tp TopicPartition, offset int64, begun bool, now time.Time) *partition {
	p := &partition{
		TopicPartition: tp,
		leader:         -1,
		fetched:        offset,
		applied:        offset,
		until:          math.MaxInt64,
		end:            -1,
		stable:         -1,
		start:          -1,
		begun:          begun,
		moved:          now,
		last:           fingerprint{offset: -1},
	}
	if end, ok := c.ends[tp]; ok {
		p.until = end
	}
	p.lag, p.high = c.metrics.partition(tp)
	c.parts[tp] = p
	return p
}

// finished reports whether RunUntil has reached every end.
func (c *Consumer) finished() bool {
	if c.ends == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for tp := range c.ends {
		if p := c.parts[tp]; p == nil || !p.done() {
			return false
		}
	}
	return true
}

// report records or, with an empty text, clears a problem that is not one of a single partition. It is logged when it
// changes.
func (c *Consumer) report(key, text string) {
	c.mu.Lock()
	old := c.problems[key]
	if text == "" {
		delete(c.problems, key)
	} else {
		c.problems[key] = "kafka: " + text
	}
	c.mu.Unlock()
	switch {
	case text == "" && old != "":
		c.opts.Logger.Info("kafka trouble is over", "at", key, "was", old)
	case text != "" && old != "kafka: "+text:
		c.opts.Logger.Warn("kafka trouble", "at", key, "reason", text)
	}
}
