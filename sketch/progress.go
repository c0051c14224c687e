package sketch

import "context"

// A Progress gets how far a pass over a store has come: done of total units, which are "bytes" of files that are
// checked or "rows". Passes follow one another, each from 0.
type Progress func(unit string, done, total int64)

// progressEvery is how many rows lie between two calls.
const progressEvery = 1 << 12

type progressKey struct{}

// WithProgress returns a context under which opening or restoring a store reports its progress to p. The store
// reports its later passes to p, too.
func WithProgress(ctx context.Context, p Progress) context.Context {
	return context.WithValue(ctx, progressKey{}, p)
}

// SetProgress makes later passes over the store report their progress to p. It is not safe for concurrent use.
func (s *Store) SetProgress(p Progress) { s.progress = p }

// progressOf returns the Progress of ctx, nil if it has none.
func progressOf(ctx context.Context) Progress {
	p, _ := ctx.Value(progressKey{}).(Progress)
	return p
}

// report reports how far a pass is; p may be nil.
func (p Progress) report(unit string, done, total int64) {
	if p != nil {
		p(unit, done, total)
	}
}
