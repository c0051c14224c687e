package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/refitd/refitd/snapshot/backoff"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/scorer"
)

// A follower applies the deltas of the version that a watcher serves, on a separate goroutine.
type follower struct {
	watcher *Watcher
	source  DeltaSource
	pointer pointer.Pointer // of the version, as it was accepted
	refused int             // in a row
	again   int             // how often until the version is read again
	warned  error           // the kind of refusal that the log has
	// at the newest multiple of markEvery, to be compared; nil before the first, and unless WatchOptions.CheckDeltas
	marked *scorer.Model
}

// replayAfter is how often the next delta is refused before the version is read again, and its deltas from the first.
// Where that does not help, it is read again after twice as many refusals, and so on.
// replayTimeout bounds how long that waits for a delta that was there a moment ago; emptyPause is what a source that
// answers with nothing is asked again after.
const (
	replayAfter   = 3
	mostAgain     = 120 // refusals between two times that the version is read again, which are minutes
	replayTimeout = time.Minute
	emptyPause    = 100 * time.Millisecond
)

// markEvery is the number of deltas between models that are kept for comparison. The publisher sends the digest of
// such a model with a later delta.
const markEvery = 100

// errReplaced says that another version is served by now.
var errReplaced = errors.New("another version is served")

// follow starts applying the deltas of m, which is served. stop ends it, and returns when nothing runs any more.
func (w *Watcher) follow(ctx context.Context, p pointer.Pointer, m *scorer.Model) (stop func()) {
	source, ok := w.source.(DeltaSource)
	if !ok || w.options.NoDeltas {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		f := &follower{watcher: w, source: source, pointer: p}
		f.run(ctx, m)
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// catchUpTimeout bounds how long an update that knows fewer events than what is served waits for its next delta. An
// update may be made while deltas of the version before are published. Its publisher appends those deltas to it one
// after the other, right after it has moved the alias.
const catchUpTimeout = time.Second

// catchUp returns an update that is about to be served with the deltas that there are of it, as far as it knows fewer
// events than what is served without:
// readers do not go back in time for a moment. A refit or an earlier version, as by a rollback, is served as it is.
func (w *Watcher) catchUp(ctx context.Context, p pointer.Pointer, m *scorer.Model) *scorer.Model {
	source, ok := w.source.(DeltaSource)
	served := w.model.Load()
	if !ok || w.options.NoDeltas || served == nil || m.Manifest().Kind != "update" ||
		p.Version < served.Manifest().Version {
		return m
	}
	ctx, cancel := context.WithTimeout(ctx, replayTimeout)
	defer cancel()
	timeout := cmp.Or(w.options.catchUp, catchUpTimeout)
	idle := time.AfterFunc(timeout, cancel)
	defer idle.Stop()
	f := &follower{watcher: w, source: source, pointer: p}
	for isBehind(m, w.model.Load()) { // which changes during the loop
		next, err := f.take(ctx, m, func(_, _ *scorer.Model) error {
			idle.Reset(timeout)
			return nil
		})
		if next == m || err != nil {
			return next // the follower of the version finds and reports again what is wrong with the next delta
		}
		m = next
	}
	return m
}

// isBehind reports whether a model knows fewer events of a partition than another.
func isBehind(m, other *scorer.Model) bool {
	cut, than := m.Position().Cut, other.Position().Cut
	return slices.ContainsFunc(than, func(o format.Cut) bool {
		return slices.ContainsFunc(cut,
			func(c format.Cut) bool { return c.Topic == o.Topic && c.Partition == o.Partition && c.Next < o.Next })
	})
}

// run serves the model after each delta of the chain of m until ctx is done or another version is served.
func (f *follower) run(ctx context.Context, m *scorer.Model) {
	failures := 0
	for ctx.Err() == nil {
		next, err := f.take(ctx, m, f.serve)
		if errors.Is(err, errReplaced) || ctx.Err() != nil {
			return
		}
		moved := next != m
		if m = next; moved || err == nil {
			f.recovered(m)
			failures = 0
		}
		pause := time.Duration(0)
		switch {
		case err != nil:
			m = f.failed(ctx, m, err)
			failures++
			pause = backoff.Wait(failures, retryMin, retryMax)
		case !moved:
			pause = jitter(emptyPause)
		}
		if backoff.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// take applies what the source has after m, calls each with every step, and returns how far it came: to the end of the
// stream, or to an error of the source, of a delta that is refused, or of each.
func (f *follower) take(ctx context.Context, m *scorer.Model, each func(old, next *scorer.Model) error) (*scorer.Model,
	error) {
	o, at := &f.watcher.options, m.Position()
	stream, err := f.source.Deltas(ctx, o.Model, at.Version, at.Sequence)
	if err != nil {
		return m, err
	}
	defer stream.Close()
	for {
		frame, err := format.ReadFrame(stream)
		if err == io.EOF {
			return m, nil
		}
		var next *scorer.Model
		var d *format.Delta
		if err == nil {
			d, err = format.DecodeDelta(frame, m.Shape(), o.Trust.Keys)
		}
		if err == nil {
			next, err = m.Apply(d)
		}
		if err == nil {
			err = f.compare(d, next)
		}
		if err == nil {
			err = each(m, next)
		}
		if err != nil {
			return m, err
		}
		m = next
	}
}

// compare returns ErrDigest if the digest that a delta has of a model of the chain differs from ours.
func (f *follower) compare(d *format.Delta, next *scorer.Model) error {
	if !f.watcher.options.CheckDeltas {
		return nil
	}
	if d.Sequence%markEvery == 0 {
		f.marked = next
	}
	for _, m := range []*scorer.Model{f.marked, next} {
		if m == nil || d.Checked == nil || d.Checked.Sequence != m.Position().Sequence {
			continue
		}
		digest, err := format.PayloadDigest(m.Contents())
		if err == nil && digest != d.Checked.PayloadDigest {
			err = fmt.Errorf("%w: the model at delta %d is %s, the publisher has %s", disk.ErrDigest,
				d.Checked.Sequence, digest, d.Checked.PayloadDigest)
		}
		return err
	}
	return nil
}

// serve puts the next model in the place of the last one, unless that is not served any more.
func (f *follower) serve(old, next *scorer.Model) error {
	from, to, ok := old.Position(), next.Position(), false
	f.watcher.note(func(s *Status) {
		if ok = f.watcher.model.CompareAndSwap(old, next); ok {
			s.Position, s.DeltasApplied = to, s.DeltasApplied+to.Sequence-from.Sequence
		}
	})
	if !ok {
		return errReplaced
	}
	return nil
}

// report notes why there are no deltas, and logs each cause once.
func (f *follower) report(m *scorer.Model, err error) {
	w, cause := f.watcher, refusal(err)
	w.note(func(s *Status) {
		if s.DeltaErr = err; cause != nil {
			s.DeltasRefused++
		}
	})
	if cause == nil {
		return
	}
	f.refused++
	if cause != f.warned {
		at := m.Position()
		w.options.Log.Warn("delta refused", "model", w.options.Model, "alias", w.options.Alias, "version", at.Version,
			"served_delta", at.Sequence, "error", err)
	}
	f.warned = cause
}

// failed reports why there are no deltas. It returns m, or what comes of reading the version again.
func (f *follower) failed(ctx context.Context, m *scorer.Model, err error) *scorer.Model {
	if f.report(m, err); f.refused < cmp.Or(f.again, replayAfter) {
		return m
	}
	f.again = min(2*f.refused, f.refused+mostAgain)
	return f.replay(ctx, m)
}

// refusal returns the kind of what is wrong with a delta or the files of a chain, nil if the source does not answer or
// has no such version.
func refusal(err error) error {
	for _, cause := range []error{disk.ErrSignature, disk.ErrChain, disk.ErrContents, disk.ErrDigest, disk.ErrFormat} {
		if errors.Is(err, cause) {
			return cause
		}
	}
	return nil
}

// recovered notes that the source answers and the chain of m continues.
func (f *follower) recovered(m *scorer.Model) {
	w := f.watcher
	w.note(func(s *Status) { s.DeltaErr = nil })
	if f.warned != nil {
		at := m.Position()
		w.options.Log.Info("deltas resumed", "model", w.options.Model, "alias", w.options.Alias,
			"version", at.Version, "served_delta", at.Sequence)
	}
	f.refused, f.again, f.warned = 0, 0, nil
}

// replay reads the version again and its deltas from the first, and serves that once it is further than m: a
// publisher that lost its newest deltas may have continued with others. If it does not come that far, m is still
// served.
func (f *follower) replay(ctx context.Context, m *scorer.Model) *scorer.Model {
	ctx, cancel := context.WithTimeout(ctx, replayTimeout)
	defer cancel()
	o, at := &f.watcher.options, m.Position()
	other := &follower{watcher: f.watcher, source: f.source}
	trust := o.Trust
	trust.AllowExpired = true // Model judges that, by renewals since
	again, err := trust.Load(o.Model, f.pointer, sourceReader(ctx, f.source, o.Model, f.pointer.Version))
	for err == nil && again.Position().Sequence <= at.Sequence {
		before := again
		if again, err = other.take(ctx, again, func(_, _ *scorer.Model) error { return nil }); again == before && err == nil {
			err = fmt.Errorf("%w: it has no more than %d deltas now", disk.ErrChain, again.Position().Sequence)
		}
	}
	if err == nil {
		err = f.serve(m, again)
	}
	if err != nil {
		if ctx.Err() == nil {
			f.report(m, fmt.Errorf("version %d was read again: %w", at.Version, err))
		}
		return m
	}
	f.marked = other.marked
	f.recovered(again)
	return again
}
