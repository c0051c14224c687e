package consumer

import (
	"fmt"
	"time"
)

const (
	// pauseReport is how long a partition waits for its sink before OnPause is called. A sink that soon catches up is
	// not reported.
	pauseReport = 5 * time.Second
	// pauseLimit is how long RunUntil waits for a sink that takes nothing before it halts the partition: it has to end.
	pauseLimit = 20 * time.Second
)

// A PauseError is a sink's way to say that it cannot take more of this partition for now, as when a buffer is full.
// What it took stays, nothing is skipped: the rest is fetched and offered again, less and less often, while the other
// partitions are read.
type PauseError struct {
	Next   int64  // the sink has stored everything below, at least Batch.Base
	Reason string // for the operator: what is full and what to do
}

func (e *PauseError) Error() string { return fmt.Sprintf("paused at offset %d: %s", e.Next, e.Reason) }

// A HaltError is a sink's way to say that a partition is not to be read on before an operator has decided something.
// What it took stays, and the partition halts behind that.
type HaltError struct {
	Next   int64  // the sink has taken everything below, at least Batch.Base
	Reason string // for the operator: what is wrong and what to do
}

func (e *HaltError) Error() string { return fmt.Sprintf("halted at offset %d: %s", e.Next, e.Reason) }

// pauseState is the state of a pause. Consumer.mu guards it; it is changed by the goroutine that calls the sink.
type pauseState struct {
	reason   string // empty while the sink takes what comes
	since    time.Time
	tries    int  // refusals in a row
	reported bool // OnPause was called
}

// appliedTo is applied for a batch that the sink has stored up to next only.
func (c *Consumer) appliedTo(p *partition, b *Batch, next int64) {
	if next <= b.Base {
		return
	}
	b.Next = next
	for n := len(b.Records); n > 0 && b.Records[n-1].Offset >= next; n-- {
		b.Records = b.Records[:n-1]
	}
	c.applied(tallyOf(p, b))
}

// pause puts a partition off. The sink took the batch up to e.Next.
func (c *Consumer) pause(p *partition, b *Batch, e *PauseError) {
	c.appliedTo(p, b, e.Next)
	now := time.Now()
	c.mu.Lock()
	if p.pause.reason == "" {
		p.pause.since = now
		c.metrics.paused.Inc()
	}
	p.pause.reason = e.Reason
	p.pause.tries++
	p.fetched, p.retry, p.moved = p.applied, now.Add(wait(p.pause.tries)), now
	p.waiting = false // a gap or halt behind what was refused will be found again
	waited := now.Sub(p.pause.since)
	report := !p.pause.reported && waited >= c.pauseReport
	p.pause.reported = p.pause.reported || report
	halt := c.ends != nil && waited >= c.pauseLimit
	offset := p.applied
	c.mu.Unlock()
	if halt {
		c.resumed(p)
		c.halt(p, e.Reason)
		return
	}
	if report {
		c.opts.Logger.Warn("partition paused", "topic", p.Topic, "partition", p.Partition, "offset", offset, "reason",
			e.Reason)
		if c.opts.OnPause != nil {
			c.opts.OnPause(p.Topic, p.Partition, offset, e.Reason)
		}
	}
}

// resumed ends a pause, if there is one: the sink takes records again.
func (c *Consumer) resumed(p *partition) {
	c.mu.Lock()
	was := p.pause
	p.pause = pauseState{}
	c.mu.Unlock()
	if was.reason != "" {
		c.metrics.paused.Dec()
	}
	if was.reported {
		c.opts.Logger.Info("partition resumed", "topic", p.Topic, "partition", p.Partition, "after",
			time.Since(was.since))
		if c.opts.OnResume != nil {
			c.opts.OnResume(p.Topic, p.Partition)
		}
	}
}
