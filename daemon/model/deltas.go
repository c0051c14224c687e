package model

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/refitd/refitd/daemon/durations"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// deltaCheckEvery is the number of deltas between two digests of the whole version: making one takes as long as
// writing a version.
const deltaCheckEvery = 100

// deltaChecks makes digests of whole versions in parallel with the trainer, one at a time.
type deltaChecks struct {
	busy sync.WaitGroup
	done chan deltaCheck // nil while none is made
}

type deltaCheck struct {
	version int64
	state   format.CheckedState
	err     error
}

// beginDeltas lets deltas follow the update that was published just now, if consumers are to get any.
func (t *Trainer) beginDeltas(ctx context.Context) {
	v := t.versions
	v.endDeltas("another version is published")
	if t.cycle.Following() == nil {
		return
	}
	if err := v.publisher.BeginDeltas(ctx); err != nil {
		t.deltasFailed(err)
		return
	}
	at := publish.Position{Version: v.publisher.Champion().Version}
	t.chainBegan = time.Now()
	v.chain.Store(&at)
	t.log.Info("deltas begin", "version", at.Version)
}

// deltas takes a delta when one is due, and publishes those that were taken, as far as their events are stored.
func (t *Trainer) deltas(ctx context.Context, applied int64) {
	t.versions.check()
	now := time.Now()
	if t.schedule.DeltaDue(t.settings.Publish.Deltas.Every.Std(), now, applied) {
		t.schedule.DeltaTaken(now, applied)
		if whole := t.cycle.TakeDelta(now); whole != "" {
			t.versions.endDeltas(whole)
			t.schedule.AskUpdate()
			return
		}
		if t.cycle.AsksUpdate() {
			t.schedule.AskUpdate()
		}
	}
	t.publishDeltas(ctx)
}

// publishDeltas publishes the deltas that were taken, as far as their events are stored.
func (t *Trainer) publishDeltas(ctx context.Context) {
	for d := t.cycle.Delta(); d != nil && t.state.holds(d.Cut) && time.Now().After(t.deltaAt); d = t.cycle.Delta() {
		if !t.delta(ctx, d) {
			return
		}
	}
}

// deltasWait reports whether there are deltas whose events are not stored yet: the next update is made of the one
// before and its deltas as soon as they are published, which takes milliseconds.
func (t *Trainer) deltasWait(ctx context.Context) bool {
	t.publishDeltas(ctx)
	d := t.cycle.Delta()
	return d != nil && !t.state.holds(d.Cut)
}

// delta publishes the oldest delta that was taken, and reports whether it did.
func (t *Trainer) delta(ctx context.Context, d *format.Delta) bool {
	v, name := t.versions, t.state.settings.Name
	at, err := v.publisher.PublishDelta(ctx, d, t.cycle.Following())
	if err != nil {
		if ctx.Err() == nil {
			t.deltasFailed(err)
		}
		return false
	}
	t.cycle.PublishDelta()
	v.chain.Store(&at)
	t.metrics.deltas.WithLabelValues(name, "success").Inc()
	t.metrics.deltaRows.WithLabelValues(name).Add(float64(len(d.Columns)))
	t.metrics.deltaBytes.WithLabelValues(name).Add(float64(at.Delta))
	if d.Created.After(t.chainBegan) { // else it was published before, after another version
		durations.Observe(
			t.metrics.deltaSeconds.WithLabelValues(name),
			time.Since(d.Created),
			prometheus.Labels{
				"version": strconv.FormatInt(at.Version, 10),
				"delta":   strconv.FormatInt(at.Sequence, 10),
			},
		)
	}
	t.log.Debug(
		"delta published",
		"version",
		at.Version,
		"sequence",
		at.Sequence,
		"rows",
		len(d.Columns),
		"names",
		len(d.Added),
		"bytes",
		at.Delta,
	)
	if at.Sequence%deltaCheckEvery == 0 {
		v.beginCheck(at, t.cycle.Following())
	}
	if at.Bytes >= int64(t.settings.Publish.Deltas.MaxBytes) {
		t.schedule.AskUpdate()
	}
	return true
}

// deltasFailed counts and logs that a delta could not be published. Where the store may take it later, it is tried
// again; else deltas end until the next update.
func (t *Trainer) deltasFailed(err error) {
	if errors.Is(err, publish.ErrNoChain) {
		t.cycle.EndDeltas()
		t.versions.endDeltas(publish.ErrNoChain.Error())
		return
	}
	t.metrics.deltas.WithLabelValues(t.state.settings.Name, "failure").Inc()
	for _, final := range []error{snapshot.ErrConflict, snapshot.ErrChain, snapshot.ErrNotFound, snapshot.ErrContents,
		snapshot.ErrSignature,
		snapshot.ErrFormat, snapshot.ErrDigest, snapshot.ErrName} {
		if errors.Is(err, final) {
			t.log.Error("delta not published: a whole version comes next", "error", err)
			t.cycle.EndDeltas()
			t.versions.endDeltas(err.Error())
			t.schedule.AskUpdate()
			return
		}
	}
	t.deltaAt = time.Now().Add(publishRetry)
	t.log.Error("delta not published: tried again", "error", err, "after", publishRetry)
	if !t.versions.publisher.HasDeltas() { // not even begun
		t.cycle.EndDeltas()
		t.schedule.AskUpdate()
	}
}

// endDeltas ends the deltas of a version.
func (v *Versions) endDeltas(reason string) {
	if at := v.chain.Swap(nil); at != nil {
		v.log.Info("deltas end", "version", at.Version, "sequence", at.Sequence, "bytes", at.Bytes, "reason", reason)
	}
	v.publisher.EndDeltas()
}

// beginCheck makes the digest of the whole version at a delta, unless one is made still.
func (v *Versions) beginCheck(at publish.Position, model *snapshot.Model) {
	if v.checks.done != nil {
		return
	}
	done := make(chan deltaCheck, 1)
	v.checks.done = done
	v.checks.busy.Go(func() {
		digest, err := format.PayloadDigest(model.Contents())
		done <- deltaCheck{at.Version, format.CheckedState{Sequence: at.Sequence, PayloadDigest: digest}, err}
	})
}

// check passes a digest that is ready to the publisher, for the next delta.
func (v *Versions) check() {
	select {
	case c := <-v.checks.done:
		v.checks.done = nil
		if c.err != nil {
			v.log.Error(
				"digest at a delta not made",
				"version",
				c.version,
				"sequence",
				c.state.Sequence,
				"error",
				c.err,
			)
			return
		}
		v.publisher.Check(c.version, c.state)
	default:
	}
}

// endChecks waits for the digest that is being made, if any.
func (v *Versions) endChecks() { v.checks.busy.Wait() }
