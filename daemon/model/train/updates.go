package train

import (
	"context"

	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/traces"
)

// update publishes the live model, or whatever else consumers should have between refits.
func (t *Trainer) update(ctx context.Context) error {
	t.versions.Follow()
	if t.versions.Publisher.Chosen() {
		t.log.Debug("update skipped", "reason",
			"an operator chose the champion: only a refit that passes the gate replaces it")
		return nil
	}
	if t.waitsForState(nil) {
		return nil
	}
	x, reason := t.cycle.BeginUpdate()
	if x == nil {
		t.skipped(reason)
		return nil
	}
	t.write(ctx, x)
	return nil
}

// skipped logs that consumers get no update.
func (t *Trainer) skipped(reason string) {
	t.log.Info("update skipped", "reason", reason)
	if reason == updates.FirstUpdate {
		t.schedule.UpdateAgain()
	}
}

// write makes and writes an update in parallel with the trainer, which continues with the deltas of the previous
// update.
func (t *Trainer) write(ctx context.Context, x *updates.Update) {
	out, publication, seen := make(chan written, 1), t.versions.Publisher.Begin(), t.cycle.Progressive()
	t.writing = out
	go func() {
		w := written{of: x}
		w.err = part.Recovered(func() (err error) {
			if w.update, w.reason, err = x.Make(); err == nil && w.update != nil {
				w.update.Observed = &seen
				err = traces.Publish(ctx, t.tracer, w.update, func(ctx context.Context, ch *fitted.Fitted) error {
					return t.versions.Write(publication, ctx, ch)
				})
			}
			return err
		})
		out <- w
	}()
}

// settle waits for the version that is being written, if any.
func (t *Trainer) settle(ctx context.Context) error {
	if t.writing == nil {
		return nil
	}
	return t.written(ctx, <-t.writing)
}

// waitsForState reports whether a publication has to wait because the state is behind the newest version.
func (t *Trainer) waitsForState(cut []report.Cut) bool {
	reason := t.state.BehindPublished(cut, t.reader.LogEnds())
	if reason != "" {
		t.log.Warn("publication waits", "reason", reason)
	}
	return reason != ""
}
