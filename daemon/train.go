package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/publish"
)

// observeEvery is the time between two looks at free space and at the progressive losses for metrics.
const observeEvery = 5 * time.Second

// train refits on schedule and publishes updates in between, until ctx is done; after readDone it refits once more and returns. A refit
// that fails is logged and counted, and the next one is due on schedule.
func (u *unit) train(ctx context.Context, readDone <-chan struct{}) error {
	t := &u.config.Train
	lastRefit, lastUpdate := time.Now(), time.Now()
	refitAt, updateAt := u.applied.Load(), u.applied.Load()
	tick := time.NewTicker(min(observeEvery, shortest(t.Every.Std(), u.config.Publish.UpdateEvery.Std())))
	defer tick.Stop()
	lastLook := time.Now()
	for {
		finished := false
		select {
		case <-ctx.Done():
			return nil
		case <-readDone:
			finished = true
		case <-u.wake:
		case <-tick.C:
		}
		if ctx.Err() != nil {
			return nil
		}
		if finished && !u.daemon.UntilEnd {
			return nil
		}
		if time.Since(lastLook) >= observeEvery || finished {
			lastLook = time.Now()
			u.look()
			if err := freeSpace(u.daemon.config.StatePath(u.config), int64(u.daemon.config.Storage.MinFreeBytes)); err != nil {
				return err
			}
		}
		applied := u.applied.Load()
		due := t.EveryEvents > 0 && applied-refitAt >= int64(t.EveryEvents) ||
			t.Every > 0 && applied > refitAt && time.Since(lastRefit) >= t.Every.Std()
		if finished || due {
			refitAt = applied
			if err := u.refit(ctx); err != nil {
				return err
			}
			lastRefit, lastUpdate, updateAt = time.Now(), time.Now(), u.applied.Load()
		}
		if finished {
			return nil
		}
		every := u.config.Publish.UpdateEvery.Std()
		if every > 0 && time.Since(lastUpdate) >= every && u.applied.Load() > updateAt {
			lastUpdate, updateAt = time.Now(), u.applied.Load()
			if err := u.update(ctx); err != nil {
				return err
			}
		}
	}
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

// look refreshes the metrics that are read off the cycle and the store.
func (u *unit) look() {
	name := u.config.Name
	u.metrics.observe(name, u.cycle)
	rows, bytes := u.store.Size()
	for role, n := range rows {
		u.metrics.sampleRows.WithLabelValues(name, roleName(role)).Set(float64(n))
	}
	u.metrics.sampleBytes.WithLabelValues(name).Set(float64(bytes))
}

// refit trains, judges, publishes and installs one challenger. Its error ends the daemon: the state or the disk is at fault.
func (u *unit) refit(ctx context.Context) error {
	start := time.Now()
	sample, err := ingest.TakeSample(u.store)
	if err != nil {
		return storeError(err, u.daemon.config.StatePath(u.config))
	}
	challenger, err := u.cycle.Refit(ctx, sample)
	switch {
	case errors.Is(err, cycle.ErrNoRows):
		u.log.Info("refit skipped", "reason", "no rows to train on yet", "held_out", len(sample.Select)+len(sample.Gate))
		return nil
	case ctx.Err() != nil && (err != nil || !u.daemon.UntilEnd):
		return nil
	case err != nil:
		u.metrics.trainFailed.WithLabelValues(u.config.Name).Inc()
		u.log.Error("refit failed", "error", err)
		return nil
	}
	u.metrics.trainSeconds.WithLabelValues(u.config.Name).Observe(time.Since(start).Seconds())
	u.metrics.trainSuccess.WithLabelValues(u.config.Name).SetToCurrentTime()
	u.metrics.decisions.WithLabelValues(u.config.Name, challenger.Version.Decision).Inc()
	if err := u.publish(ctx, challenger); err != nil {
		return nil // told and counted; the champion stays, the next refit tries again
	}
	if challenger.Version.Decision == publish.Promoted {
		u.cycle.Install(challenger)
		if err := u.keep(challenger); err != nil {
			return err
		}
	}
	return u.tell(challenger)
}

// update publishes the live model, unless its window loss is worse than that of the version consumers have.
func (u *unit) update(ctx context.Context) error {
	if u.cycle.LiveIsWorse() {
		u.log.Info("update skipped", "reason", "the live model's window loss is worse than the published one's")
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
		return nil
	}
	u.cycle.PublishUpdate(live)
	return u.tell(live)
}

// publish writes a version; a store that cannot be written to is told and counted.
func (u *unit) publish(ctx context.Context, ch *cycle.Champion) error {
	if err := u.versions.Publish(ctx, ch); err != nil {
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
	if v.Decision == publish.Promoted {
		u.promoted++
		number := v.Version
		u.champion = &number
		u.metrics.live(u.config.Name, ch, float64(time.Now().UnixMilli())/1000)
	} else {
		u.keptBack++
	}
	u.log.Info("version judged", "version", v.Version, "kind", v.Kind, "decision", v.Decision, "reason", v.Reason, "k", v.K, "rows", v.Rows)
	if u.daemon.OnVersion != nil {
		u.daemon.OnVersion(*v)
	}
	return u.daemon.Out.Emit("version", *v)
}
