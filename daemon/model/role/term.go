package role

import (
	"context"
	"time"

	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/shard"
)

// WhileLeading runs what only the process does that leads, again and again in each of its terms, until ctx is done.
func WhileLeading(ctx context.Context, by Leadership, run func(ctx context.Context)) {
	if _, contested := by.Term(); !contested {
		run(ctx)
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		if term, _ := by.Term(); term != nil {
			termCtx, cancel := WithinTerm(ctx, term)
			run(termCtx)
			cancel()
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// WithinTerm returns ctx, done with publish.ErrReplaced as its cause once a term is over.
func WithinTerm(ctx context.Context, term *shard.Term) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-term.Over():
			cancel(publish.ErrReplaced)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}
