package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/refitd/refitd/snapshot/backoff"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/snapshot/verify"
)

// WatchOptions say what is watched and what is accepted.
type WatchOptions struct {
	Model string
	Alias string       // "" is champion
	Trust verify.Trust // what versions and aliases have to prove
	// StateFile keeps what was accepted last, so that a restart does not fall back to something older. "" keeps it in
	// memory only.
	StateFile string
	// Pin is a version to serve whatever the alias says, also an older one: an operator's decision. 0 follows the
	// alias.
	Pin int64
	// OnLoad, if not nil, is called with each version before it is served, on the watcher's goroutine; an error refuses
	// it. It may warm caches or check the model against the program's own expectations. It is not called for deltas, of
	// which there may be one every second.
	OnLoad func(*scorer.Model) error
	// NoDeltas serves versions as they were published, without what changed since, where the source is a DeltaSource.
	NoDeltas bool
	// CheckDeltas compares the whole model with the digest that the publisher sends of it at every hundredth delta.
	// Digests and signatures of deltas are always verified. The comparison takes the time and the memory of writing a
	// version. It shows that two machines agree.
	CheckDeltas bool
	Log         *slog.Logger // nil logs nothing

	catchUp time.Duration // 0 is catchUpTimeout
}

// retryMin and retryMax bound the pause after a failure, which doubles from one to the other; retryAbsent bounds it
// while there is no such alias yet.
const (
	retryMin    = 250 * time.Millisecond
	retryMax    = 5 * time.Second
	retryAbsent = 500 * time.Millisecond
)

// Watcher keeps the newest acceptable model of an alias. Its methods are safe for concurrent use.
type Watcher struct {
	source  Source
	options WatchOptions
	cancel  context.CancelFunc
	done    chan struct{}
	loaded  chan struct{} // closed with the first model
	model   atomic.Pointer[scorer.Model]
	expires atomic.Pointer[time.Time] // of the model, with its renewals; zero is never
	stop    func()                    // ends the deltas of the version that is served. The goroutine of run owns it.

	mu     sync.Mutex
	status Status
}

// Status is the state of a watcher.
type Status struct {
	Version        int64 // loaded; 0 is none
	ManifestDigest string
	PayloadDigest  string
	SignedBy       string    // id of the key, "" is unsigned or not asked for
	Created        time.Time // of the version, by its publisher's clock
	Watermark      time.Time // newest event that it knows
	Expires        time.Time // by its manifest, or the last renewal of the alias if that is later; zero is never
	Renewed        time.Time // when the publisher last confirmed the alias: every few minutes. Zero is not known
	Expired        bool      // it is past that
	LoadedAt       time.Time
	Checked        time.Time // when the source last answered
	Loads          int64     // models loaded since the start
	Refused        int64     // versions or aliases refused since the start
	Err            error     // why the newest version is not loaded, or why the source does not answer; nil if all is well

	Position      format.Position // of the model that is served: the version, and the last delta after it
	DeltasApplied int64           // since the start
	DeltasRefused int64           // since the start, as often as one was
	// why no deltas come: the last one was refused, or the source does not answer. Nil if all is well, or none are
	// asked for
	DeltaErr error
	// since the last delta, or else the version, was made, by the publisher's clock; 0 before the first version
	Age          time.Duration
	WatermarkAge time.Duration // since the newest event that the model knows; 0 if that is not known
}

// Watch follows an alias: it loads the version that it names, verified and self-tested, then waits for the next one,
// and so on until Close. A version that is refused changes nothing: the last good one is served on. It returns an error
// only for options that cannot work and for a StateFile that cannot be read; it does not wait for the first model.
//
// Where the source is a DeltaSource, the deltas of the version that is served are applied as they come, each as a new
// Model, also while the next version is read. The next version is served with the deltas that it has by then, if it
// knew fewer events without them. One that does not follow the last, is damaged or not signed as Trust asks changes
// nothing, whatever comes after it: the last good state is served, the source is asked again, at last the version is
// read again and its deltas from the first, and the next version makes an end of it. StateFile has versions only: a
// restart loads the version and applies its deltas again.
//
// Versions may be older than the one before, which is how a rollback arrives, but moves of an alias may not: the number
// of the move, which is signed with the alias, has to be larger than the last one accepted (ErrOlder). What StateFile
// says was accepted counts only if it would be accepted from the source: a number that nobody signed, or that nobody
// can have counted to, freezes no reader.
func Watch(source Source, options WatchOptions) (*Watcher, error) {
	if options.Alias == "" {
		options.Alias = pointer.Champion
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	for _, name := range []string{options.Model, options.Alias} {
		if !disk.ValidName.MatchString(name) {
			return nil, fmt.Errorf("snapshot: watch: %w: %q is not of the form %s", disk.ErrName, name, disk.ValidName)
		}
	}
	w := &Watcher{
		source:  source,
		options: options,
		done:    make(chan struct{}),
		loaded:  make(chan struct{}),
		stop:    func() {},
	}
	w.expires.Store(new(time.Time))
	accepted, err := readAccepted(options.StateFile, options.Model, options.Alias)
	if err != nil {
		return nil, fmt.Errorf("snapshot: watch %s: %w", options.Model, err)
	}
	if err := accepted.Verify(options.Model, options.Alias, options.Trust.Keys); accepted.Version != 0 && err != nil {
		options.Log.Warn("what was accepted before counts for nothing", "model", options.Model, "alias", options.Alias,
			"error", err)
		accepted = pointer.Pointer{}
	}
	accepted.Renewal = accepted.VerifyRenewal(options.Model, options.Alias, options.Trust.Keys)
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(w.done)
		w.run(ctx, accepted)
	}()
	return w, nil
}

// Model returns the model to score with, nil before the first one is loaded, and once it has expired unless
// Trust.AllowExpired is set. Call it for every request and use what it returns for the whole of that request; it costs
// an atomic load.
func (w *Watcher) Model() *scorer.Model {
	m := w.model.Load()
	if m == nil || w.options.Trust.AllowExpired {
		return m
	}
	if expires := w.expires.Load(); !expires.IsZero() && !w.options.Trust.Time().Before(*expires) {
		return nil
	}
	return m
}

// Wait returns the first model as soon as there is one, or the error of ctx with the reason why no model is loaded.
func (w *Watcher) Wait(ctx context.Context) (*scorer.Model, error) {
	select {
	case <-w.loaded:
		return w.model.Load(), nil
	case <-w.done:
		if m := w.model.Load(); m != nil {
			return m, nil
		}
		return nil, fmt.Errorf("snapshot: watch %s: closed", w.options.Model)
	case <-ctx.Done():
		return nil, fmt.Errorf("snapshot: watch %s: no model yet: %w", w.options.Model,
			errors.Join(ctx.Err(), w.Status().Err))
	}
}

// Status returns the state of the watcher.
func (w *Watcher) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.status
	now := w.options.Trust.Time()
	s.Expired = !s.Expires.IsZero() && !now.Before(s.Expires)
	if !s.Position.Created.IsZero() {
		s.Age = now.Sub(s.Position.Created)
	}
	if !s.Position.Watermark.IsZero() {
		s.WatermarkAge = now.Sub(s.Position.Watermark)
	}
	return s
}

// Close stops watching and returns when nothing runs any more. The last model can still score.
func (w *Watcher) Close() {
	w.cancel()
	<-w.done
}

// run loads what the alias names until ctx is done.
func (w *Watcher) run(ctx context.Context, accepted pointer.Pointer) {
	defer func() { w.stop() }()
	var seen pointer.Pointer // what Wait is asked to return a change of: accepted in this run, or refused for good
	failures := 0
	for {
		most, absent := retryMax, false
		p, err := w.wait(ctx, seen)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			w.note(func(s *Status) { s.Checked = w.options.Trust.Time() })
			if p.Unchanged(&seen) {
				continue
			}
			if p.Same(&accepted) &&
				w.model.Load() != nil { // it is renewed, or an alias that was refused is back where it was
				w.renew(&p, &accepted)
				seen, failures = p, 0
				continue
			}
			if err = w.accept(ctx, p, &accepted); err == nil {
				seen, failures = p, 0
				continue
			}
			if ctx.Err() != nil {
				return
			}
			if isFinal(err) {
				seen, failures = p, 0 // reading the same bytes again would change nothing: wait for another version
				continue
			}
		} else {
			w.note(func(s *Status) { s.Err = err })
			if absent = errors.Is(err, disk.ErrNotFound); absent {
				most = retryAbsent
			}
		}
		failures++
		pause := backoff.Wait(failures, retryMin, most)
		if dir, ok := w.source.(DirSource); ok && absent && w.options.Pin == 0 {
			err = dir.arrival(ctx, w.options.Model, w.options.Alias, pause)
		} else {
			err = backoff.Sleep(ctx, pause)
		}
		if err != nil {
			return
		}
	}
}

// isFinal reports whether a version is refused for what it is. What is missing or damaged may still be on its way to a
// synchronised directory.
func isFinal(err error) bool {
	return errors.Is(err, disk.ErrOlder) || errors.Is(err, disk.ErrGolden) || errors.Is(err, errOnLoad)
}

// errOnLoad marks a refusal by WatchOptions.OnLoad.
var errOnLoad = errors.New("refused by the program")

// wait asks the source, or the operator's pin.
func (w *Watcher) wait(ctx context.Context, seen pointer.Pointer) (pointer.Pointer, error) {
	if w.options.Pin == 0 {
		return w.source.Wait(ctx, w.options.Model, w.options.Alias, seen)
	}
	if seen.Version == w.options.Pin {
		<-ctx.Done()
		return pointer.Pointer{}, ctx.Err()
	}
	return pointer.Pointer{Version: w.options.Pin}, nil
}

// accept verifies, loads and serves what a pointer names. What was accepted before is in accepted.
func (w *Watcher) accept(ctx context.Context, p pointer.Pointer, accepted *pointer.Pointer) error {
	p.Renewal = newerRenewal(p.VerifyRenewal(w.options.Model, w.options.Alias, w.options.Trust.Keys), &p, accepted)
	m, err := w.load(ctx, p, *accepted)
	if err == nil && w.options.Pin == 0 {
		err = writeAccepted(w.options.StateFile, w.options.Model, w.options.Alias, p)
	}
	if err == nil {
		m = w.catchUp(ctx, p, m)
	}
	if err != nil {
		if ctx.Err() == nil {
			w.note(func(s *Status) { s.Err, s.Refused = err, s.Refused+1 })
			w.options.Log.Warn("version refused", "model", w.options.Model, "alias", w.options.Alias, "version",
				p.Version, "error", err)
		}
		return err
	}
	expires := m.Expires()
	w.expires.Store(&expires)
	first := false
	*accepted = p
	manifest := m.Manifest()
	w.note(func(s *Status) {
		first = w.model.Swap(m) == nil
		s.Position, s.DeltaErr = m.Position(), nil
		s.DeltasApplied += s.Position.Sequence
		s.Version, s.ManifestDigest, s.PayloadDigest, s.SignedBy = manifest.Version, manifest.Digest, manifest.PayloadDigest,
			m.SignedBy()
		s.Created, s.Watermark, s.Expires, s.LoadedAt = manifest.Created, manifest.Watermark, expires, w.options.Trust.Time()
		s.Renewed = p.Renewed()
		s.Loads, s.Err = s.Loads+1, nil
	})
	w.options.Log.Info("version loaded", "model", w.options.Model, "alias", w.options.Alias, "version",
		manifest.Version, "digest", manifest.PayloadDigest)
	if first {
		close(w.loaded)
	}
	w.stop()
	w.stop = w.follow(ctx, p, m)
	return nil
}

// newerRenewal returns the newer of a renewal of p and the one that was accepted of the same move: a copy may bring
// back an old one.
func newerRenewal(r pointer.Renewal, p, accepted *pointer.Pointer) pointer.Renewal {
	if p.Same(accepted) && accepted.Renewal.Renewed.After(r.Renewed) {
		return accepted.Renewal
	}
	return r
}

// renew takes up the renewal of what is being served, if it is one.
func (w *Watcher) renew(p, accepted *pointer.Pointer) {
	o := &w.options
	r := newerRenewal(p.VerifyRenewal(o.Model, o.Alias, o.Trust.Keys), p, accepted)
	if r.Renewed.Equal(accepted.Renewal.Renewed) {
		w.note(func(s *Status) { s.Err = nil })
		return
	}
	accepted.Renewal = r
	err := writeAccepted(o.StateFile, o.Model, o.Alias, *accepted)
	manifest := w.model.Load().Manifest()
	expires := accepted.Expiry(&manifest)
	w.expires.Store(&expires)
	w.note(func(s *Status) { s.Expires, s.Renewed, s.Err = expires, accepted.Renewed(), err })
}

// load returns the model that a pointer names.
func (w *Watcher) load(ctx context.Context, p, accepted pointer.Pointer) (*scorer.Model, error) {
	o := &w.options
	if o.Pin == 0 {
		if err := p.Verify(o.Model, o.Alias, o.Trust.Keys); err != nil {
			return nil, err
		}
		if err := p.Follow(&accepted); err != nil {
			return nil, err
		}
	}
	m, err := o.Trust.Load(o.Model, p, sourceReader(ctx, w.source, o.Model, p.Version))
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", p.Version, err)
	}
	if o.OnLoad != nil {
		if err := o.OnLoad(m); err != nil {
			return nil, fmt.Errorf("version %d: %w: %w", p.Version, errOnLoad, err)
		}
	}
	return m, nil
}

func (w *Watcher) note(change func(*Status)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.status)
}
