package versions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/curves"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/model/metrics"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/model/state"
	publishing "github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/traces"
	"github.com/refitd/refitd/daemon/web/statuspage"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/publish"
	"go.opentelemetry.io/otel/trace"
)

// Versions are the published versions of a model: which one consumers have, and which one challengers are compared
// with. But for what the status shows it belongs to the trainer's goroutine.
type Versions struct {
	settings  *config.Model // as at the start; Renew is called with reloaded ones
	log       *slog.Logger
	metrics   *metrics.Metrics
	tracer    trace.Tracer
	out       *report.Emitter
	onVersion func(report.Version) // may be nil
	state     *state.State         // counters of versions, and the checkpoint of the last refit
	cycle     *cycle.Cycle

	Publisher *publishing.Publisher // writes to the store; of the trainer's goroutine, but for its Publications
	// Mark marks an event in the curves.
	Mark func(at time.Time, kind string, version int64, text string)
	// Write writes a version: Publication.Write, unless a test replaces it.
	Write func(*publishing.Publication, context.Context, *fitted.Fitted) error

	promoted int // of this run, for Tally
	kept     int
	champion *int64
	strays   map[string]bool       // paths that were named
	renewed  time.Time             // last attempt to renew the champion; zero renews it now
	serving  atomic.Pointer[dated] // what consumers have
	judged   atomic.Pointer[dated] // the last version of this run

	trouble atomic.Pointer[statuspage.Reason] // why the last version could not be published, nil if it was
	lost    atomic.Pointer[string]            // what publisher.Lost() is about, nil where it is false
	// why consumers have no version that can be read, nil if they have or none was published
	unread    atomic.Pointer[string]
	checks    deltaChecks
	chain     atomic.Pointer[publishing.Position] // of deltas, nil without
	fruitless atomic.Pointer[string]              // why the last refit without a version for consumers ended so
}

// dated is a version and when it was published.
type dated struct {
	version report.Version
	at      time.Time
	expires time.Time // consumers refuse it from then on; zero is never
}

// NewPublisher returns what publishes a model, with its store. The error carries its exit code.
func NewPublisher(m *config.Model, log *slog.Logger) (*publishing.Publisher, error) {
	p := &m.Publish
	publisher, err := publishing.New(m, p.Store, time.Now, log)
	switch {
	case errors.Is(err, snapshot.ErrKey):
		return nil, &report.ExitError{
			Code: report.ExitUsage,
			Err:  err,
			Key:  "publish.signing_key_file",
			Path: p.SigningKeyFile,
		}
	case err != nil:
		return nil, &report.ExitError{Code: report.ExitState, Err: err, Key: "publish.store", Path: p.Store}
	}
	return publisher, nil
}

// New opens the store of snapshots and compares the state with what is in it. The error carries its exit code.
func New(o *part.Options, state *state.State, learning *cycle.Cycle) (*Versions, error) {
	publisher, err := NewPublisher(o.Settings, o.Log)
	if err != nil {
		return nil, err
	}
	if publisher.Store() != nil {
		// Numbers are noted in the state before they are used in the store: a store that is lost does not lead to the
		// same number twice.
		publisher.Store().Reserve = state.Counters.Reserve
	}
	state.CompareWith(publisher.Store())
	v := &Versions{
		settings:  o.Settings,
		log:       o.Log,
		metrics:   o.Metrics,
		tracer:    o.Tracer,
		out:       o.Out,
		onVersion: o.OnVersion,
		state:     state,
		cycle:     learning,
		Publisher: publisher,
		Write:     (*publishing.Publication).Write,
		strays:    make(map[string]bool),
		Mark:      func(time.Time, string, int64, string) {},
	}
	v.refused()
	v.nameStrays()
	return v, nil
}

// nameStrays logs once what lies in the store and is no part of it, and aliases that are damaged.
func (v *Versions) nameStrays() {
	found, err := v.Publisher.Strays()
	if err != nil {
		v.log.Warn("directory of the versions cannot be listed", "error", err)
		return
	}
	for _, s := range found {
		switch {
		case v.strays[s.Path]:
			continue
		case s.Alias != "":
			v.log.Error("alias is damaged and cannot be rebuilt",
				"note", "promote a version to set it", "alias", s.Alias, "path",
				s.Path, "reason", s.Err)
		default:
			v.log.Warn("in the store and no part of it: ignored", "path", s.Path, "reason", s.Err)
		}
		v.strays[s.Path] = true
	}
}

// refused logs and counts what the publisher did not take from the store.
func (v *Versions) refused() {
	for _, r := range v.Publisher.Refusals() {
		v.renewed = time.Time{} // where the alias is moved back, its renewal was of another move
		v.metrics.Untrusted.WithLabelValues(v.settings.Name).Inc()
		v.log.Error("in the store and not signed by our keys",
			"note", "left alone, and not used", "alias", r.Alias, "version",
			r.Version, "reason", r.Reason)
	}
}

// Store returns the store of snapshots, nil without one.
func (v *Versions) Store() *publish.Store { return v.Publisher.Store() }

// Serving returns the version that consumers have, and when it was published; nil without one.
func (v *Versions) Serving() (version *report.Version, published time.Time) {
	if serving := v.serving.Load(); serving != nil {
		return &serving.version, serving.at
	}
	return nil, time.Time{}
}

// Judged returns the last version of this run, nil before the first.
func (v *Versions) Judged() *report.Version {
	if judged := v.judged.Load(); judged != nil {
		return &judged.version
	}
	return nil
}

// Unread says why consumers have no version that can be read, "" if they have or none was published.
func (v *Versions) Unread() string {
	if unread := v.unread.Load(); unread != nil {
		return *unread
	}
	return ""
}

// Trouble returns why the last version could not be published, nil if it was.
func (v *Versions) Trouble() *statuspage.Reason { return v.trouble.Load() }

// Tally returns how many versions of this run were promoted and kept back, and which one consumers have, nil if none.
// Call it when the trainer has ended.
func (v *Versions) Tally() (promoted, kept int, champion *int64) {
	return v.promoted, v.kept, v.champion
}

// Lead continues from what the process published that has led before, in a term with a given epoch.
func (v *Versions) Lead(epoch int64) {
	v.Publisher.Lead(epoch)
	v.Follow()
	v.renewed = time.Time{}
	v.state.CompareWith(v.Store())
}

// Revive loads the champion of an earlier run and folds in again what the sample holds from after its cut. Without one,
// or if it does not fit any more, which is logged, the model starts without a champion and folds in the whole sample;
// what cannot be read is replaced at the gate by another version, or by the baselines.
func (v *Versions) Revive() error {
	defer v.refused()
	var cut []report.Cut
	// Two things may be there: the last refit with its posterior, which learning continues from, and what consumers
	// have, which may be a later update of it or an operator's choice.
	refit, err := v.lastRefit()
	switch {
	case errors.Is(err, snapshot.ErrNotFound):
	case err != nil:
		v.notRestored(err)
	default:
		v.cycle.Install(refit)
		cut = refit.Version.Cut
	}
	champion, salvaged := v.openChampion()
	// An operator's choice stays until a refit beats it. What was salvaged counts only without a refit.
	takes := champion != nil &&
		(v.Publisher.Chosen() || salvaged && refit == nil && v.settings.MadeFor(champion.Manifest().ConfigHash))
	adopted := takes && v.adopt(champion)
	if adopted {
		cut = v.cycle.Champion().Version.Cut
	}
	if refit == nil && !adopted && !errors.Is(err, fitted.ErrOtherSettings) {
		v.substitute(err)
	}
	if champion == nil && v.consumersHad() && v.unread.Load() == nil {
		v.unreadable("store: versions were published to %s, and none of them can be read before the next refit",
			v.settings.Publish.Store)
	}
	if champion == nil || takes {
		return v.state.Relearn(v.cycle, cut)
	}
	if out, err := fitted.FromSnapshot(v.settings, champion); err == nil && refit != nil {
		v.cycle.PublishUpdate(out)
		v.serve(out, champion.Manifest())
		v.log.Info("champion loaded", "version", out.Version.Version, "refit", refit.Version.Version)
	} else if err == nil {
		v.serve(out, champion.Manifest())
	}
	return v.state.Relearn(v.cycle, cut)
}

// substitute lets the next refit be compared with another version in place of a champion that there was and that cannot
// be read.
func (v *Versions) substitute(reason error) {
	if !v.consumersHad() {
		return
	}
	for version := range v.Publisher.Readable() {
		if ch, err := fitted.FromSnapshot(v.settings, version); err == nil {
			v.log.Warn("champion cannot be used", "note", "the next refit is compared with another version", "version",
				ch.Version.Version, "reason", reason)
			v.cycle.CompareWith(ch)
			return
		}
	}
	v.log.Warn("neither the champion nor another version can be used",
		"note", "the next refit is compared with the baselines",
		"reason", reason)
	v.cycle.CompareWith(nil)
}

// consumersHad reports whether there was a version for consumers.
func (v *Versions) consumersHad() bool {
	return v.Publisher.Champion().Version != 0 || v.state.Counters.Last().Version != 0 && !v.neverPromoted()
}

// neverPromoted reports whether the publish log has versions, and that champion never named one: the publisher of the
// first was killed before it moved that alias.
func (v *Versions) neverPromoted() bool {
	store := v.Store()
	if store == nil {
		return false
	}
	published := false
	for record, err := range store.Log(v.settings.Name) {
		isChampion := func(m publish.AliasMove) bool { return m.Alias == snapshot.Champion }
		if err != nil || slices.ContainsFunc(record.Moves, isChampion) {
			return false
		}
		published = true
	}
	return published
}

// notRestored logs why the last refit is not continued, and counts what another build has kept of it.
func (v *Versions) notRestored(err error) {
	if errors.Is(err, fitted.ErrOtherBuild) {
		v.metrics.Unknown.WithLabelValues(v.settings.Name).Inc()
	}
	v.log.Warn("champion not loaded", "reason", err)
}

// lastRefit reads the last promoted refit with what the state directory keeps of it.
func (v *Versions) lastRefit() (*fitted.Fitted, error) {
	refit, err := v.Publisher.Open(publishing.Refit)
	if err != nil {
		return nil, err
	}
	kept, err := v.state.Kept()
	if err != nil {
		return nil, err
	}
	last, err := fitted.Restore(v.settings, refit, kept)
	if err != nil && !errors.Is(err, fitted.ErrOtherSettings) {
		err = fmt.Errorf("%s: %w", filepath.Join(v.state.Dir, config.PosteriorFile), err)
	}
	return last, err
}

// Follow loads the version that champion names if somebody else moved the alias: an operator, or another instance on
// the same store.
func (v *Versions) Follow() {
	// Before and after, so that a loss is logged once, when it is found.
	lost := v.Publisher.Lost()
	version, err := v.Publisher.Follow()
	v.noteLost()
	v.refused()
	if err != nil {
		v.log.Error("champion not loaded", "reason", err)
		return
	}
	switch damage := v.Publisher.Damage(); {
	case lost || !v.Publisher.Lost():
	case damage != nil:
		v.log.Error("champion is damaged", "note", "the last refit is published again in its place", "version",
			v.Publisher.Champion().Version, "reason", damage)
	default:
		v.log.Error("store of the versions is lost",
			"note", "it is made again with the champion, and numbers continue", "store",
			v.settings.Publish.Store, "version", v.Publisher.Champion().Version)
	}
	if err := v.state.Counters.Note(v.Publisher.Champion()); err != nil {
		v.log.Error("numbers of the versions not kept", "error", err)
	}
	if version != nil {
		v.followTo(version)
	}
}

// followTo adopts a version that somebody else made champion.
func (v *Versions) followTo(version *snapshot.Model) {
	if number := version.Manifest().Version; v.adopt(version) {
		v.Mark(time.Now(), curves.Moved, number, "somebody else made it the champion")
		v.log.Info("champion moved by somebody else", "version", number, "by_operator", v.Publisher.Chosen())
	}
}

// adopt makes a version of the store the champion that challengers are compared with, and reports whether that was
// possible.
func (v *Versions) adopt(version *snapshot.Model) bool {
	manifest := version.Manifest()
	ch, err := fitted.FromSnapshot(v.settings, version)
	if err != nil {
		v.log.Error("champion not loaded", "version", manifest.Version, "reason", err)
		return false
	}
	ch.Chosen = v.Publisher.Chosen()
	v.cycle.Adopt(ch)
	v.EndDeltas("somebody else moved the champion")
	v.renewed = time.Time{}
	v.serve(ch, manifest)
	return true
}

// serve notes that consumers have a version of the store.
func (v *Versions) serve(ch *fitted.Fitted, manifest snapshot.Manifest) {
	number := manifest.Version
	v.champion = &number
	v.unread.Store(nil)
	v.serving.Store(&dated{ch.Version, manifest.Created, manifest.Expires})
	v.metrics.Live(v.settings.Name, ch, manifest.Created, manifest.Expires)
}

// RenewEvery is the time between two renewals of the champion: a quarter of its life at most, so that a failure or two
// do not end it.
func RenewEvery(m *config.Model) time.Duration {
	every := m.Publish.RenewEvery.Std()
	if life := m.Publish.ExpiresAfter.Std(); life > 0 {
		every = min(every, life/4)
	}
	return every
}

// Renew renews the alias of the champion when a renewal is due. Renewals continue while this daemon lives, with or
// without events, so that consumers notice a daemon that has ended.
func (v *Versions) Renew(ctx context.Context, m *config.Model) {
	if time.Since(v.renewed) < RenewEvery(m) {
		return
	}
	v.renewed = time.Now()
	pointer, done, err := v.Publisher.Renew(ctx)
	if err != nil && ctx.Err() == nil {
		v.log.Error("champion not renewed", "error", err)
		v.troubled(err)
	}
	if done {
		v.StandsUntil(pointer.Renewal.Expires)
		v.metrics.Renew(v.settings.Name, pointer.Renewal.Renewed, pointer.Renewal.Expires)
	}
}

// Publish writes a version; a store that cannot be written to is logged and counted.
func (v *Versions) Publish(ctx context.Context, ch *fitted.Fitted) error {
	seen := v.cycle.Progressive()
	ch.Observed = &seen
	// Begin and End belong to this goroutine; Write between them may run on another one (Trainer.write).
	publication := v.Publisher.Begin()
	err := traces.Publish(ctx, v.tracer, ch,
		func(ctx context.Context, ch *fitted.Fitted) error { return v.Write(publication, ctx, ch) })
	if err == nil {
		v.Publisher.End(ctx, ch)
	}
	return v.Published(ctx, err)
}

// Published notes what came of writing a version.
func (v *Versions) Published(ctx context.Context, err error) error {
	defer v.refused()
	if err != nil {
		if errors.Is(err, publishing.ErrReplaced) || errors.Is(context.Cause(ctx), publishing.ErrReplaced) {
			v.log.Info("publication called off: another trainer publishes")
			return err
		}
		if ctx.Err() != nil {
			v.log.Info("publication called off: the daemon ends")
			return err
		}
		v.Failed(err)
		return err
	}
	v.trouble.Store(nil)
	v.noteLost()
	v.state.Counters.Confirm()
	v.metrics.Published.WithLabelValues(v.settings.Name, "success").Inc()
	v.nameStrays()
	return nil
}

// Failed logs and counts a version that could not be published.
func (v *Versions) Failed(err error, attributes ...any) {
	v.metrics.Published.WithLabelValues(v.settings.Name, "failure").Inc()
	v.troubled(err)
	attributes = append(attributes, "error", err)
	if stack := part.StackOf(err); stack != "" {
		attributes = append(attributes, "stack", stack)
	}
	v.log.Error("publish failed", attributes...)
}

// Emit counts, logs and emits a published version.
func (v *Versions) Emit(ch *fitted.Fitted) error {
	version := &ch.Version
	now := time.Now()
	last := &dated{version: *version, at: now, expires: v.Publisher.Expires(now)}
	v.judged.Store(last)
	kind := version.Decision
	if version.Kind == curves.Update {
		kind = curves.Update
	}
	v.Mark(last.at, kind, version.Version, version.Reason)
	if version.Decision == publishing.Promoted {
		v.serving.Store(last)
		v.unread.Store(nil)
		v.promoted++
		number := version.Version
		v.champion = &number
		v.metrics.Live(v.settings.Name, ch, last.at, last.expires)
	} else {
		v.WithoutVersion("version %d was kept back: %s", version.Version, version.Reason)
		v.kept++
	}
	v.log.Info("version judged", "version", version.Version, "kind", version.Kind, "decision", version.Decision,
		"reason", version.Reason, "k", version.K, "rows", version.Rows, "rejections_in_a_row", v.cycle.Rejections())
	if v.onVersion != nil {
		v.onVersion(*version)
	}
	return v.out.Emit("version", *version)
}
