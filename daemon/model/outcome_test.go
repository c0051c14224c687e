package model

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/report"
)

// TestFailure: a run to the log ends whose last refit fails, all of whose refits the gate keeps back, or whose store
// takes no version, says so with its exit code; one whose last attempt succeeds is done. The last failure is in the
// status until a refit succeeds.
func TestFailure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fits, writes int32 // how many fail
		good         int32 // refits after which all fail, 0 for none
		kept         bool  // the gate keeps each back
		code         int
		says         string
	}{
		"good":                   {0, 0, 0, false, report.ExitDone, ""},
		"the first refit fails":  {1, 0, 0, false, report.ExitDone, ""},
		"every refit fails":      {1 << 30, 0, 0, false, report.ExitNo, "model a: no refit succeeded: no convergence"},
		"the later refits fail":  {0, 0, 1, false, report.ExitNo, "model a: the last refit failed: no convergence"},
		"no refit passes a gate": {0, 0, 0, true, report.ExitNo, "model a: the gate let no version through: worse"},
		"the store takes nothing": {0, 1 << 30, 0, false, report.ExitState,
			"did not take the last version: no space left on device"},
		"the store takes a later": {0, 1, 0, false, report.ExitDone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, io.Discard)
			if err := errors.Join(p.a.Close(), p.b.Close()); err != nil {
				t.Fatal(err)
			}
			p.options.UntilEnd = true
			p.open(t)
			a := p.a
			settings := *a.state.Settings
			settings.Train.Every, settings.Train.EveryEvents = 0, 500 // some refits before the last one
			a.trainer.Configure(&settings)
			var fits, writes atomic.Int32
			fit, write := a.trainer.Fit, a.versions.Write
			a.trainer.Fit = func(ctx context.Context, s *encode.Sample) (*fitted.Fitted, error) {
				if n := fits.Add(1); n <= c.fits || c.good > 0 && n > c.good {
					return nil, errors.New("no convergence")
				}
				ch, err := fit(ctx, s)
				if err == nil && c.kept {
					ch.Version.Decision, ch.Version.Reason = publish.Kept, "worse"
				}
				return ch, err
			}
			a.versions.Write = func(p *publish.Publication, ctx context.Context, ch *fitted.Fitted) error {
				if writes.Add(1) <= c.writes {
					return syscall.ENOSPC
				}
				return write(p, ctx, ch)
			}
			if err := p.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			failure := a.Failure()
			if failure == nil {
				failure = &report.ExitError{Code: report.ExitDone, Err: errors.New("")}
			}
			if failure.Code != c.code || !strings.Contains(failure.Error(), c.says) {
				t.Errorf("exit code %d, %v; %d refits, %d versions written", failure.Code, failure, fits.Load(),
					writes.Load())
			}
			if s := a.Status(); (s.RefitFailure != "") != (c.fits >= fits.Load() || c.good > 0) {
				t.Errorf("after %d refits, of which %d failed, the status says %q", fits.Load(), c.fits, s.RefitFailure)
			}
			if b := p.b.Failure(); b != nil {
				t.Errorf("the other model: %v", b)
			}
		})
	}
}
