package train

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/curves"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/schedule"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/model/metrics"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/model/read"
	"github.com/refitd/refitd/daemon/model/role"
	"github.com/refitd/refitd/daemon/model/state"
	"github.com/refitd/refitd/daemon/model/versions"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/traces"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/failpoint"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// observeEvery is the time between two looks at the disk, and between two words to the witness.
const observeEvery = 5 * time.Second

// publishRetry is the time between two attempts to write a version to a store that does not take it.
const publishRetry = 5 * time.Second

// trained is what a refit came to.
type trained struct {
	challenger *fitted.Fitted
	against    *fitted.Fitted // what the gate compared it with, nil for a first version
	counted    bool           // the gate's decision, before an attempt to publish that failed
	span       trace.Span     // of the refit: what follows of it is part of that
	err        error          // ends the daemon
}

// unpublished is a refit that the store did not take.
type unpublished struct {
	refit   *trained  // nil without one
	retryAt time.Time // when it is tried again
}

// chain is the trainer's view of the deltas that follow a version.
type chain struct {
	began   time.Time // when they began to follow it
	retryAt time.Time // when a delta that the store did not take is tried again; zero at once
}

// logged is what was logged already.
type logged struct {
	held   [admission.NumHeld]bool // reasons that logHeld has said
	tables map[string]string       // what logTables has said last, by table; of the refit that is under way
}

// shown is what others ask of a trainer. It is safe for concurrent use.
type shown struct {
	refitted atomic.Pointer[time.Time]         // end of the last refit with a model
	failure  atomic.Pointer[string]            // why the last refit failed, nil if it did not
	ages     atomic.Pointer[report.SampleAges] // of the sample as the last refit took it, nil before
}

// Trainer refits on schedule and publishes updates in between, also while a refit runs. Its times are read from the
// monotonic clock: setting the wall clock neither hastens nor delays anything. What it decides it decides on the
// goroutine of Run; a refit runs on another goroutine, and so does the writing of an update. It is one type: each step
// decides what the next one may do.
type Trainer struct {
	log      *slog.Logger
	metrics  *metrics.Metrics
	tracer   trace.Tracer
	untilEnd bool               // Run ends with the log: the last refit is of all of it
	state    *state.State       // store and disk; it halts training where the disk is full
	reader   *read.Reader       // how far the log is applied
	role     role.Role          // whether this process trains, publishes or leads; asked anew at each step
	cycle    *cycle.Cycle       // shared with the reader, which learns; it has a lock
	versions *versions.Versions // what was published
	pause    *Pause             // keeps refits off after crashes
	// Fit makes a challenger: the Refit of the cycle, unless a test replaces it.
	Fit func(context.Context, *encode.Sample) (*fitted.Fitted, error)

	wake     chan struct{}                // there is something to look at
	tuned    atomic.Pointer[config.Model] // the settings with what was reloaded since
	refitNow atomic.Bool                  // an operator asked for a refit
	shown    shown

	// What follows belongs to the goroutine of Run.
	settings    *config.Model // as last tuned
	tick        *time.Ticker
	running     chan trained // nil without a refit under way
	writing     chan written // nil unless a version is being written
	schedule    schedule.Schedule
	lookAt      time.Time   // when look was last
	unpublished unpublished // a refit that waits for the store
	chain       chain
	tenure      tenure // where other processes may train as well

	logged logged
}

// New returns the trainer of a model, which runs with Run.
func New(o *part.Options, state *state.State, r *read.Reader, learning *cycle.Cycle, published *versions.Versions,
	p *Pause) *Trainer {
	t := &Trainer{
		log:      o.Log,
		metrics:  o.Metrics,
		tracer:   o.Tracer,
		untilEnd: o.UntilEnd,
		state:    state,
		reader:   r,
		role:     r.Role,
		cycle:    learning,
		versions: published,
		pause:    p,
		Fit:      learning.Refit,
		wake:     make(chan struct{}, 1),
		settings: o.Settings,
	}
	t.tuned.Store(o.Settings)
	learning.Throttle = func(ctx context.Context, budget time.Duration) func() {
		return newThrottle(ctx, budget, r.Applied.Load, r.Lag).Yield
	}
	return t
}

// Settings returns the settings of the model with what was reloaded since the start.
func (t *Trainer) Settings() *config.Model { return t.tuned.Load() }

// Refitted returns when the last refit of this run ended with a model, nil before it.
func (t *Trainer) Refitted() *time.Time { return t.shown.refitted.Load() }

// Failure says why the last refit failed, "" if it did not.
func (t *Trainer) Failure() string {
	if failure := t.shown.failure.Load(); failure != nil {
		return *failure
	}
	return ""
}

// Ages returns how old the rows of the sample were that the last refit took, nil before it.
func (t *Trainer) Ages() *report.SampleAges { return t.shown.ages.Load() }

// Disabled says why no refit is begun on schedule, "" if refits are.
func (t *Trainer) Disabled() string { return t.pause.reason() }

// Configure applies other settings: those of the schedule, the gate and publishing.
func (t *Trainer) Configure(m *config.Model) {
	t.tuned.Store(m)
	t.Wake()
}

// Refit lets the model be refitted now, or as soon as the refit under way has ended.
func (t *Trainer) Refit() {
	t.refitNow.Store(true)
	t.Wake()
}

// Wake lets the trainer look at what there is to do. It does not block.
func (t *Trainer) Wake() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Run trains until ctx is done; after readDone it refits once more and returns. A refit that fails is logged and
// counted, and the next one is due on schedule. The error carries its exit code.
func (t *Trainer) Run(ctx context.Context, readDone <-chan struct{}) error {
	t.begin()
	defer t.tick.Stop()
	defer t.versions.EndChecks()
	defer t.leave()
	for {
		finished := false
		select {
		case <-ctx.Done():
			if t.running != nil {
				<-t.running // it stops with ctx
			}
			if t.writing != nil {
				<-t.writing
			}
			return nil
		case r := <-t.running:
			if err := t.install(t.inTerm(ctx), r); err != nil {
				return err
			}
		case w := <-t.writing:
			if err := t.written(t.inTerm(ctx), w); err != nil {
				return err
			}
		case <-readDone:
			finished = true
		case <-t.wake:
		case <-t.tick.C:
		}
		if ctx.Err() != nil {
			continue
		}
		if finished {
			return t.finish(t.inTerm(ctx))
		}
		if err := t.step(t.inTerm(ctx)); err != nil {
			return err
		}
	}
}

// begin starts the clocks of the schedule.
func (t *Trainer) begin() {
	now := time.Now()
	t.schedule, t.lookAt, t.tick = schedule.New(t.settings, now), now, time.NewTicker(tickOf(t.settings))
}

// tune applies reloaded settings. On the trainer's goroutine: the cycle and the publisher see others at no other time.
func (t *Trainer) tune() {
	m := t.tuned.Load()
	if m == t.settings { // the pointer is the version of the settings
		return
	}
	t.settings = m
	t.pause.end("the configuration was reloaded")
	t.cycle.Configure(m)
	t.versions.Publisher.Configure(m)
	t.tick.Reset(tickOf(m))
}

// tickOf is the time between two looks at what there is to do.
func tickOf(m *config.Model) time.Duration {
	tick := observeEvery
	for _, d := range []time.Duration{m.Train.Every.Std(), m.Publish.UpdateEvery.Std(), m.Publish.Deltas.Every.Std(),
		versions.RenewEvery(m)} {
		if d > 0 {
			tick = min(tick, d)
		}
	}
	return max(tick, time.Millisecond)
}

// step looks at the disk and the witness, starts a refit if one is due, and publishes an update if one is.
func (t *Trainer) step(ctx context.Context) error {
	t.tune()
	if time.Since(t.lookAt) >= observeEvery {
		if err := t.look(ctx); err != nil {
			return err
		}
	}
	if t.writing == nil && t.role.Leads() { // what is written holds the lock of the store, and renews
		if err := t.contain("renewal", func() error { t.versions.Renew(ctx, t.settings); return nil }); err != nil {
			return err
		}
	}
	if t.state.Guard.Reason() != "" {
		return nil // the reserve of the disk is not for models
	}
	t.logHeld()
	applied := t.reader.Applied.Load()
	if !t.role.Trains() {
		return nil
	}
	t.heedDrift(applied)
	if t.running == nil &&
		// An operator's wish goes before everything; a scheduled refit waits while a backlog is read, unless the events
		// have doubled since the last one, and while a pause lasts.
		(t.refitNow.Swap(false) || t.schedule.RefitDue(&t.settings.Train, time.Now(), applied) &&
			(!t.reader.CatchUp().IsThin() || t.schedule.Doubled(applied)) && t.pause.over(time.Now())) {
		t.schedule.RefitBegun(applied)
		t.running = make(chan trained, 1)
		go func(out chan<- trained) { out <- t.refit(ctx) }(t.running)
	}
	if r := t.unpublished.refit; r != nil && t.writing == nil && time.Now().After(t.unpublished.retryAt) {
		t.unpublished.refit = nil
		return t.contain("refit", func() error { return t.promote(ctx, *r) })
	}
	// Events that other processes forwarded are learned as well, and make updates due.
	learned := applied + t.role.Learned() + t.reader.Tabled.Load()
	if now := time.Now(); t.writing == nil && t.role.Updates() &&
		t.schedule.UpdateDue(&t.settings.Publish, now, learned) &&
		!t.deltasWait(ctx) {
		t.schedule.Updated(now, learned)
		if err := t.contain("update", func() error { return t.update(ctx) }); err != nil {
			return err
		}
	}
	// Deltas are taken in each step, also while a version is written: those of the previous update continue.
	err := t.contain("delta", func() error { t.deltas(ctx, learned); return nil })
	for _, reason := range t.cycle.TakeHeldBack() {
		t.metrics.HeldBack.WithLabelValues(t.state.Settings.Name, string(reason)).Inc()
		t.log.Warn("update held back: consumers keep what they have", "reason", string(reason))
	}
	return err
}

// look looks at the disk, the witness and the store, and publishes the champion again where the store has lost it.
func (t *Trainer) look(ctx context.Context) error {
	t.lookAt = time.Now()
	t.state.Guard.Look()
	if t.writing == nil {
		t.versions.Follow()
	}
	if err := t.state.Witness(); err != nil {
		return err
	}
	if err := t.watch(); err != nil {
		return err
	}
	if t.writing == nil && t.role.Leads() && t.versions.Publisher.Lost() {
		return t.contain("refit", func() error { return t.republish(ctx) })
	}
	return nil
}

// heedDrift reports alarms of drift, and makes a refit due after them.
func (t *Trainer) heedDrift(applied int64) {
	for _, alarm := range t.cycle.DriftAlarms() {
		t.schedule.Alarmed(applied)
		t.metrics.Drift.WithLabelValues(t.state.Settings.Name, alarm.Group).Inc()
		t.versions.Mark(time.Now(), curves.Drift, 0, "what was learned of "+alarm.Group+" does not hold any more")
		t.log.Warn("drift: what was learned does not hold any more", "group", alarm.Group, "learned_events",
			alarm.Event)
	}
}

// finish waits for the refit under way and, with UntilEnd, makes the last one.
func (t *Trainer) finish(ctx context.Context) error {
	if err := t.settle(ctx); err != nil {
		return err
	}
	if t.running != nil {
		if err := t.install(ctx, <-t.running); err != nil {
			return err
		}
	}
	if !t.untilEnd || ctx.Err() != nil || !t.role.Trains() || !t.pause.over(time.Now()) {
		return nil
	}
	return t.install(ctx, t.refit(ctx))
}

// refit trains and judges one challenger. Without one, and without an error, there was nothing to train on or it
// failed, which is logged and counted.
func (t *Trainer) refit(ctx context.Context) (out trained) {
	start, name := time.Now(), t.state.Settings.Name
	span := traces.Refit(t.tracer, name)
	defer func() {
		if out.challenger == nil {
			span.End()
		}
	}()
	// The mark is on disk before the refit begins: a process that dies in it finds the mark at the next start.
	defer t.pause.begin(ctx)()
	sample, err := t.takeSample()
	if err != nil {
		return trained{err: err}
	}
	against := t.cycle.Champion()
	challenger, err := t.fitOn(ctx, sample)
	// The champion may be what makes refits fail. Once more from nothing, on a new sample: the first has given up its
	// rows.
	if err != nil && ctx.Err() == nil && t.cycle.StartsCold() {
		t.log.Warn("refit failed that continued from the champion", "note", "it is made again from nothing", "error", err,
			"stack", part.StackOf(err))
		if sample, err = t.takeSample(); err != nil {
			return trained{err: err}
		}
		challenger, err = t.fitOn(ctx, sample)
	}
	switch {
	case errors.Is(err, encode.ErrNoRows):
		t.log.Info("refit skipped", "reason", "no rows to train on yet", "held_out",
			len(sample.Select)+len(sample.Gate))
		return trained{}
	case ctx.Err() != nil:
		return trained{}
	case err != nil:
		t.metrics.TrainFailed.WithLabelValues(name).Inc()
		span.SetStatus(codes.Error, "the refit failed")
		t.log.Error("refit failed", "error", err, "stack", part.StackOf(err))
		failure := report.WithoutPackages(err.Error())
		t.versions.WithoutVersion("the last refit failed: %s", failure)
		t.shown.failure.Store(&failure)
		return trained{}
	}
	traces.Gate(t.tracer, span, challenger)
	t.logTables(sample)
	t.metrics.Trained(&challenger.Version, time.Since(start), traces.ID(span))
	t.metrics.DroppedNames(name, int64(challenger.Vocabulary.Dropped))
	now := time.Now()
	t.shown.refitted.Store(&now)
	t.shown.failure.Store(nil)
	return trained{challenger: challenger, against: against, span: span}
}

// takeSample returns what a refit learns from. Its error ends the daemon.
func (t *Trainer) takeSample() (*encode.Sample, error) {
	sample, err := ingest.TakeSample(t.state.Settings, t.state.Store, t.reader.Behind())
	if err != nil {
		return nil, ingest.StateError(err, t.state.Dir)
	}
	t.shown.ages.Store(agesOf(sample.TrainAge))
	t.metrics.Joined(t.state.Settings.Name, sample.Outcomes())
	if sample.Limited > 0 {
		t.log.Info("weights limited", "field", t.state.Settings.Schema.Weight, "rows", sample.Limited, "limit",
			sample.WeightLimit)
	}
	return sample, nil
}

// fitOn trains and judges a challenger on a sample.
func (t *Trainer) fitOn(ctx context.Context, sample *encode.Sample) (challenger *fitted.Fitted, err error) {
	err = part.Recovered(func() (err error) {
		if err = failpoint.At(failpoint.TrainFit); err == nil {
			challenger, err = t.Fit(ctx, sample)
		}
		return err
	})
	return challenger, err
}

// install publishes a challenger and, if it was promoted, makes it the champion. Its error ends the daemon: the state
// is at fault.
func (t *Trainer) install(ctx context.Context, r trained) error {
	if err := t.settle(ctx); err != nil {
		return err
	}
	t.running, t.unpublished.refit = nil, nil
	t.schedule.RefitEnded(time.Now())
	if r.err != nil || r.challenger == nil {
		return r.err
	}
	defer r.span.End()
	if !t.role.Leads() {
		t.log.Info("refit dropped: another trainer publishes")
		return nil
	}
	return t.contain("refit", func() error { return t.promote(ctx, r) })
}

// promote is install for a challenger that there is.
func (t *Trainer) promote(ctx context.Context, r trained) error {
	version := &r.challenger.Version
	if t.waitsForState(version.Cut) {
		return nil
	}
	if err := t.state.Witness(); err != nil {
		return err
	}
	t.versions.Follow()
	// An operator, or another trainer, may have changed the champion while this refit ran.
	if now := t.cycle.Champion(); version.Decision == publish.Promoted && now != nil && !r.isAgainst(now) {
		version.Decision, r.challenger.Cause = publish.Kept, "overtaken"
		version.Reason = fmt.Sprintf(
			"version %d became champion while this one was trained: the next refit is compared with it",
			now.Version.Version)
	}
	if !r.counted {
		t.metrics.Judged(r.challenger)
		r.counted = true
	}
	if err := t.versions.Publish(trace.ContextWithSpan(ctx, r.span), r.challenger); err != nil {
		// The next refit is compared with the other champion, and a model that cannot be published never can.
		if !errors.Is(err, snapshot.ErrConflict) && !errors.Is(err, snapshot.ErrContents) &&
			!errors.Is(err, snapshot.ErrGolden) {
			t.unpublished = unpublished{&r, time.Now().Add(publishRetry)}
		}
		return nil // logged and counted; the champion stays
	}
	if version.Decision == publish.Promoted {
		t.cycle.Install(r.challenger)
		t.versions.EndDeltas("a refit is champion")
		t.schedule.Promoted()
		if err := t.state.Keep(r.challenger); err != nil {
			return err
		}
	}
	return t.versions.Emit(r.challenger)
}

// isAgainst reports whether a champion is the one that the gate compared with, under whatever number.
func (r *trained) isAgainst(now *fitted.Fitted) bool {
	return r.against != nil && now.Model == r.against.Model
}

// republish publishes the champion once more, under the next number, because the store that held it was lost, or its
// files are damaged. A model that has none in memory gives consumers another version that can be read.
func (t *Trainer) republish(ctx context.Context) error {
	last := t.cycle.Champion()
	if last == nil {
		t.versions.Salvage()
		return nil
	}
	if t.state.Guard.Reason() != "" {
		return nil // the reserve of the disk is not for it
	}
	again := *last
	again.Version.Kind, again.Version.Decision = "refit", publish.Promoted
	again.Version.Reason = fmt.Sprintf("version %d again: the store that held it was lost", last.Version.Version)
	if damage := t.versions.Publisher.Damage(); damage != nil {
		again.Version.Reason = fmt.Sprintf("version %d again: consumers could not read the champion: %v",
			last.Version.Version, damage)
	}
	if err := t.versions.Publish(ctx, &again); err != nil {
		return nil // logged and counted; tried again with the next look
	}
	again.Model = last.Model
	t.cycle.Renumber(&again)
	t.schedule.Promoted()
	if err := t.state.Keep(&again); err != nil {
		return err
	}
	return t.versions.Emit(&again)
}

// written is an update that was made and written in parallel with the trainer.
type written struct {
	of     *updates.Update
	update *fitted.Fitted // nil where consumers get none
	reason string         // why they do not
	err    error
}

// written installs a version that write has written. Its deltas are published from then on, those of the events since
// write began at once. If it was not written, deltas of the previous update continue, unless another attempt would
// fail, too.
func (t *Trainer) written(ctx context.Context, w written) error {
	t.writing = nil
	t.schedule.UpdateEnded(time.Now())
	return t.contain("update", func() error {
		if w.err == nil && w.update == nil {
			t.cycle.TakeUp(w.of)
			t.skipped(w.reason)
			return nil
		}
		if w.err == nil {
			t.versions.Publisher.End(ctx, w.update)
		}
		if err := t.versions.Published(ctx, w.err); err != nil {
			t.cycle.EndUpdate(w.of)
			if errors.Is(err, snapshot.ErrConflict) || errors.Is(err, snapshot.ErrContents) ||
				errors.Is(err, snapshot.ErrGolden) ||
				part.StackOf(err) != "" {
				t.cycle.EndDeltas()
				t.versions.EndDeltas("the update after them was not published")
			}
			t.schedule.UpdateAgain()
			return nil
		}
		t.cycle.TakeUp(w.of)
		t.cycle.PublishUpdate(w.update)
		t.beginDeltas(ctx)
		t.publishDeltas(ctx)
		return t.versions.Emit(w.update)
	})
}

// contain runs a step of publishing. A panic is logged and counted as a version that could not be published; errors of
// the state pass.
func (t *Trainer) contain(kind string, step func() error) error {
	err := part.Recovered(step)
	if part.StackOf(err) != "" {
		t.versions.Failed(err, "kind", kind)
		return nil
	}
	return err
}
