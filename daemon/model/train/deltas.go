package train

import (
	"context"
	"errors"
	"strconv"
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

// beginDeltas lets deltas follow the update that was published just now, if consumers are to get any.
func (t *Trainer) beginDeltas(ctx context.Context) {
	v := t.versions
	v.EndDeltas("another version is published")
	if t.cycle.Following() == nil { // no deltas are configured, or none can follow this variant
		return
	}
	if err := v.BeginDeltas(ctx); err != nil {
		t.deltasFailed(err)
		return
	}
	t.chain.began = time.Now()
}

// deltas takes a delta when one is due, and publishes those that were taken, as far as their events are stored.
func (t *Trainer) deltas(ctx context.Context, applied int64) {
	t.versions.Check()
	now := time.Now()
	if t.schedule.DeltaDue(t.settings.Publish.Deltas.Every.Std(), now, applied, t.cycle.HasChanged) {
		t.schedule.DeltaTaken(now, applied)
		// The changes cannot be written as a delta, for the given reason: consumers keep the last one until the next
		// version.
		if whole := t.cycle.TakeDelta(now); whole != "" {
			t.versions.EndDeltas(whole)
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
	// A delta whose events are not stored yet could be ahead of the state after a crash: it waits. Order is kept, so
	// all after it wait as well.
	for d := t.cycle.Delta(); d != nil && t.state.Holds(d.Cut) && time.Now().After(t.chain.retryAt); d = t.cycle.Delta() {
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
	return d != nil && !t.state.Holds(d.Cut)
}

// delta publishes the oldest delta that was taken, and reports whether it did.
func (t *Trainer) delta(ctx context.Context, d *format.Delta) bool {
	v, name := t.versions, t.state.Settings.Name
	at, err := v.PublishDelta(ctx, d, t.cycle.Following())
	if err != nil {
		if ctx.Err() == nil {
			t.deltasFailed(err)
		}
		return false
	}
	t.cycle.PublishDelta()
	t.metrics.Deltas.WithLabelValues(name, "success").Inc()
	t.metrics.DeltaRows.WithLabelValues(name).Add(float64(len(d.Columns)))
	t.metrics.DeltaBytes.WithLabelValues(name).Add(float64(at.Delta))
	if d.Created.After(t.chain.began) { // else it was published before, after another version
		durations.Observe(
			t.metrics.DeltaSeconds.WithLabelValues(name),
			time.Since(d.Created),
			prometheus.Labels{
				"version": strconv.FormatInt(at.Version, 10),
				"delta":   strconv.FormatInt(at.Sequence, 10),
			},
		)
	}
	t.log.Debug("delta published", "version", at.Version, "sequence", at.Sequence, "rows", len(d.Columns), "names",
		len(d.Added), "bytes", at.Delta)
	// Consumers compare this digest with theirs: a fault in applying deltas is found within so many.
	if at.Sequence%deltaCheckEvery == 0 {
		v.BeginCheck(at, t.cycle.Following())
	}
	// What a consumer that starts has to read grows with each delta: a whole version ends that.
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
		t.versions.EndDeltas(publish.ErrNoChain.Error())
		return
	}
	t.metrics.Deltas.WithLabelValues(t.state.Settings.Name, "failure").Inc()
	// These do not go away by trying again: something else wrote to the store, or the content is at fault.
	for _, final := range []error{snapshot.ErrConflict, snapshot.ErrChain, snapshot.ErrNotFound, snapshot.ErrContents,
		snapshot.ErrSignature,
		snapshot.ErrFormat, snapshot.ErrDigest, snapshot.ErrName} {
		if errors.Is(err, final) {
			t.log.Error("delta not published: a whole version comes next", "error", err)
			t.cycle.EndDeltas()
			t.versions.EndDeltas(err.Error())
			t.schedule.AskUpdate()
			return
		}
	}
	t.chain.retryAt = time.Now().Add(publishRetry)
	t.log.Error("delta not published: tried again", "error", err, "after", publishRetry)
	if !t.versions.Publisher.HasDeltas() { // not even begun
		t.cycle.EndDeltas()
		t.schedule.AskUpdate()
	}
}
