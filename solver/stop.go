package solver

import (
	"context"
	"sync/atomic"
)

// stopContext is done once Settings.Stop has said so, as if a deadline had passed.
type stopContext struct {
	context.Context
	stopped atomic.Bool
}

// Err returns context.DeadlineExceeded once the solve was stopped. Done is that of the context below: nothing here waits for it.
func (c *stopContext) Err() error {
	if c.stopped.Load() {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

// stoppable returns the context of one solve.
func (s *Settings) stoppable(ctx context.Context) context.Context {
	if s.Stop == nil {
		return ctx
	}
	return &stopContext{Context: ctx}
}

// mayStop asks Stop. ctx is what stoppable returned.
func (r *solve) mayStop(ctx context.Context) {
	if c, ok := ctx.(*stopContext); ok && r.s.Stop(r.s.Lambda, len(r.result.Steps)) {
		c.stopped.Store(true)
	}
}
