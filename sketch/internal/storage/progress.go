package storage

import "context"

// A Progress gets how far a pass over a store has come: done of total units, which are "bytes" of files that are
// checked or "rows". Passes follow one another, each from 0.
type Progress func(unit string, done, total int64)

// ProgressEvery is how many rows lie between two calls.
const ProgressEvery = 1 << 12

type progressKey struct{}

// WithProgress returns a context under which opening or restoring a store reports its progress to p. The store
// reports its later passes to p, too.
func WithProgress(ctx context.Context, p Progress) context.Context {
	return context.WithValue(ctx, progressKey{}, p)
}

// ProgressOf returns the Progress of ctx, nil if it has none.
func ProgressOf(ctx context.Context) Progress {
	p, _ := ctx.Value(progressKey{}).(Progress)
	return p
}

// Report calls p, unless it is nil, with how far a pass is.
func Report(p Progress, unit string, done, total int64) {
	if p != nil {
		p(unit, done, total)
	}
}
