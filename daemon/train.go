package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/failpoint"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/snapshot"
)

// observeEvery is the time between two looks at the disk, and between two words to the witness.
const observeEvery = 5 * time.Second

// publishRetry is the time between two attempts to write a version to a store that does not take it.
const publishRetry = 5 * time.Second

// trained is what a refit came to.
type trained struct {
	challenger *cycle.Champion
	against    *cycle.Champion // what the gate compared it with, nil for a first version
	counted    bool            // the gate's decision, before an attempt to publish that failed
	err        error           // ends the daemon
}

// train refits on schedule and publishes updates in between, also while a refit runs, until ctx is done; after readDone it refits once
// more and returns. A refit that fails is logged and counted, and the next one is due on schedule.
func (u *unit) train(ctx context.Context, readDone <-chan struct{}) error {
	s := newSchedule(u)
	defer s.tick.Stop()
	for {
		finished := false
		select {
		case <-ctx.Done():
			if s.running != nil {
				<-s.running // it stops with ctx
			}
			return nil
		case t := <-s.running:
			if err := s.install(ctx, t); err != nil {
				return err
			}
		case <-readDone:
			finished = true
		case <-u.wake:
		case <-s.tick.C:
		}
		if ctx.Err() != nil {
			continue
		}
		if finished {
			return s.finish(ctx)
		}
		if err := s.step(ctx); err != nil {
			return err
		}
	}
}

// schedule decides what the trainer does next. It belongs to the trainer's goroutine; only a refit runs on one of its own. Its times are read
// from the monotonic clock: setting the wall clock neither hastens nor delays anything.
type schedule struct {
	*unit
	model        *config.Model // as last tuned
	tick         *time.Ticker
	running      chan trained // nil without a refit under way
	refitAt      time.Time    // end of the last refit
	refitEvents  int64        // applied when it began
	updateAt     time.Time
	updateEvents int64
	lookAt       time.Time
	unpublished  *trained // that the store did not take, nil without one
	retryAt      time.Time
}

func newSchedule(u *unit) *schedule {
	now := time.Now()
	return &schedule{unit: u, model: u.config, refitAt: now, updateAt: now, lookAt: now, tick: time.NewTicker(tickOf(u.config))}
}

// step looks at the disk and the witness, starts a refit if one is due, and publishes an update if one is.
func (s *schedule) step(ctx context.Context) error {
	s.tune()
	if time.Since(s.lookAt) >= observeEvery {
		s.lookAt = time.Now()
		s.Look()
		s.follow()
		if err := s.witness(); err != nil {
			return err
		}
	}
	if s.Reason() != "" {
		return nil // the reserve of the disk is not for models
	}
	t, applied := &s.model.Train, s.applied.Load()
	due := t.EveryEvents > 0 && applied-s.refitEvents >= int64(t.EveryEvents) ||
		t.Every > 0 && applied > s.refitEvents && time.Since(s.refitAt) >= t.Every.Std()
	if s.running == nil && (s.refitNow.Swap(false) || due && s.mayTrain(time.Now())) {
		s.refitEvents, s.running = applied, make(chan trained, 1)
		go func(out chan<- trained) { out <- s.refit(ctx) }(s.running)
	}
	if t := s.unpublished; t != nil && time.Now().After(s.retryAt) {
		s.unpublished = nil
		return s.contain("refit", func() error { return s.promote(ctx, *t) })
	}
	every := s.model.Publish.UpdateEvery.Std()
	if every > 0 && time.Since(s.updateAt) >= every && applied > s.updateEvents {
		s.updateAt, s.updateEvents = time.Now(), applied
		return s.contain("update", func() error { return s.update(ctx) })
	}
	return nil
}

// finish waits for the refit under way and, with UntilEnd, makes the last one.
func (s *schedule) finish(ctx context.Context) error {
	if s.running != nil {
		if err := s.install(ctx, <-s.running); err != nil {
			return err
		}
	}
	if !s.daemon.UntilEnd || ctx.Err() != nil || !s.mayTrain(time.Now()) {
		return nil
	}
	return s.install(ctx, s.refit(ctx))
}

// shortest returns the shorter of two positive durations, or observeEvery if neither is.
func shortest(a, b time.Duration) time.Duration {
	out := observeEvery
	for _, d := range []time.Duration{a, b} {
		if d > 0 {
			out = min(out, d)
		}
	}
	return max(out, time.Millisecond)
}

// refit trains and judges one challenger. Without one, and without an error, there was nothing to train on or it failed, which is told
// and counted.
func (u *unit) refit(ctx context.Context) trained {
	start := time.Now()
	defer u.noteTraining(ctx)()
	sample, err := ingest.TakeSample(u.store)
	if err != nil {
		return trained{err: ingest.StateError(err, u.daemon.config.StatePath(u.config))}
	}
	against := u.cycle.Champion()
	var challenger *cycle.Champion
	err = recovered(func() (err error) {
		if err = failpoint.At(failpoint.TrainFit); err == nil {
			challenger, err = u.fit(ctx, sample)
		}
		return err
	})
	switch {
	case errors.Is(err, cycle.ErrNoRows):
		u.log.Info("refit skipped", "reason", "no rows to train on yet", "held_out", len(sample.Select)+len(sample.Gate))
		return trained{}
	case ctx.Err() != nil:
		return trained{}
	case err != nil:
		u.metrics.trainFailed.WithLabelValues(u.config.Name).Inc()
		u.log.Error("refit failed", "error", err, "stack", stackOf(err))
		return trained{}
	}
	u.metrics.trained(&challenger.Version, time.Since(start).Seconds())
	u.metrics.dropped.WithLabelValues(u.config.Name).Add(float64(challenger.Vocabulary.Dropped))
	now := time.Now()
	u.refitted.Store(&now)
	return trained{challenger: challenger, against: against}
}

// install publishes a challenger and, if it was promoted, makes it the champion. Its error ends the daemon: the state is at fault.
func (s *schedule) install(ctx context.Context, t trained) error {
	s.running, s.refitAt, s.unpublished = nil, time.Now(), nil
	if t.err != nil || t.challenger == nil {
		return t.err
	}
	return s.contain("refit", func() error { return s.promote(ctx, t) })
}

// promote is install for a challenger that there is.
func (s *schedule) promote(ctx context.Context, t trained) error {
	if reason := s.behindPublished(t.challenger.Version.Cut); reason != "" {
		s.log.Warn("publication waits", "reason", reason)
		return nil
	}
	if err := s.witness(); err != nil {
		return err
	}
	s.follow()
	if v, now := &t.challenger.Version, s.cycle.Champion(); v.Decision == publish.Promoted && now != nil && now != t.against {
		v.Decision, t.challenger.Cause = publish.Kept, "overtaken"
		v.Reason = fmt.Sprintf("version %d became champion while this one was trained: the next refit is compared with it", now.Version.Version)
	}
	if !t.counted {
		s.metrics.judged(t.challenger)
		t.counted = true
	}
	if err := s.publish(ctx, t.challenger); err != nil {
		// The next refit is compared with the other champion, and a model that cannot be published never can.
		if !errors.Is(err, snapshot.ErrConflict) && !errors.Is(err, snapshot.ErrContents) && !errors.Is(err, snapshot.ErrGolden) {
			s.unpublished, s.retryAt = &t, time.Now().Add(publishRetry)
		}
		return nil // told and counted; the champion stays
	}
	if t.challenger.Version.Decision == publish.Promoted {
		s.cycle.Install(t.challenger)
		s.updateAt, s.updateEvents = time.Time{}, 0 // consumers get what was learned since the cut with the next step
		if err := s.keep(t.challenger); err != nil {
			return err
		}
	}
	return s.tell(t.challenger)
}

// update publishes the live model, unless its window loss is worse than that of the version consumers have.
func (s *schedule) update(ctx context.Context) error {
	u := s.unit
	u.follow()
	if u.versions.Chosen() {
		u.log.Debug("update skipped", "reason", "an operator chose the champion: only a refit that passes the gate replaces it")
		return nil
	}
	if u.cycle.LiveIsWorse() {
		u.log.Info("update skipped", "reason", "the live model's window loss is worse than the published one's")
		return nil
	}
	if reason := u.behindPublished(nil); reason != "" {
		u.log.Warn("publication waits", "reason", reason)
		return nil
	}
	live := u.cycle.Update()
	if live == nil {
		return nil
	}
	live.Version.Decision, live.Version.Reason = publish.Promoted, "fold-in since the last refit; its window loss is not worse"
	if !live.Model.IsFinite() {
		u.log.Error("update not finite")
		return nil
	}
	if err := u.publish(ctx, live); err != nil {
		s.updateEvents = 0 // tried again when the next one is due, with new events or without
		return nil
	}
	u.cycle.PublishUpdate(live)
	return u.tell(live)
}

// publish writes a version; a store that cannot be written to is told and counted.
func (u *unit) publish(ctx context.Context, ch *cycle.Champion) error {
	window := u.cycle.Progressive().Window
	ch.Progressive = window.Published
	if err := u.write(ctx, ch); err != nil {
		u.metrics.published.WithLabelValues(u.config.Name, "failure").Inc()
		u.log.Error("publish failed", "error", err)
		return err
	}
	u.metrics.published.WithLabelValues(u.config.Name, "success").Inc()
	return nil
}

// tell counts, logs and emits a published version.
func (u *unit) tell(ch *cycle.Champion) error {
	v := &ch.Version
	last := &dated{*v, time.Now()}
	u.judged.Store(last)
	if v.Decision == publish.Promoted {
		u.serving.Store(last)
		u.promoted++
		number := v.Version
		u.champion = &number
		published, expires := time.Now(), time.Time{}
		if after := u.config.Publish.ExpiresAfter.Std(); after > 0 {
			expires = published.Add(after)
		}
		u.metrics.live(u.config.Name, ch, published, expires)
	} else {
		u.keptBack++
	}
	u.log.Info("version judged", "version", v.Version, "kind", v.Kind, "decision", v.Decision, "reason", v.Reason, "k", v.K, "rows", v.Rows)
	if u.daemon.OnVersion != nil {
		u.daemon.OnVersion(*v)
	}
	return u.daemon.Out.Emit("version", *v)
}
