package replay

import (
	"context"
	"time"

	"github.com/refitd/refitd/snapshot/backoff"
)

// pacer says when a record is due, by a rate or by event times.
type pacer struct {
	rate    float64 // records per second
	speedup float64
	began   time.Time
	first   int64 // event time of the first record, in milliseconds
}

func newPacer(rate, speedup float64) *pacer { return &pacer{rate: rate, speedup: speedup} }

// minWait is the shortest wait worth a timer; due records go out together.
const minWait = 2 * time.Millisecond

// due returns how long after the first record the i-th one is due. Event times that lie before the first count as the
// first.
func (p *pacer) due(i, eventTime int64) time.Duration {
	switch {
	case p.rate > 0:
		return time.Duration(float64(i) / p.rate * float64(time.Second))
	case p.speedup > 0:
		return time.Duration(float64(max(0, eventTime-p.first)) / p.speedup * float64(time.Millisecond))
	}
	return 0
}

// wait blocks until the i-th record is due or ctx is done.
func (p *pacer) wait(ctx context.Context, i, eventTime int64) error {
	if p.rate == 0 && p.speedup == 0 {
		return ctx.Err()
	}
	if i == 0 {
		p.began, p.first = time.Now(), eventTime
	}
	ahead := p.due(i, eventTime) - time.Since(p.began)
	if ahead < minWait {
		return ctx.Err()
	}
	return backoff.Sleep(ctx, ahead)
}
