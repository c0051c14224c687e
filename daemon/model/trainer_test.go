package model

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/refitd/refitd/daemon/curves"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/daemontest/locked"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/solver"
)

// onlyWhenAsked makes the models refit at nobody's word but an operator's.
func (p *pair) onlyWhenAsked() {
	for _, m := range []*Model{p.a, p.b} {
		settings := *m.state.Settings
		settings.Train.Every, settings.Train.EveryEvents = 0, 0
		m.trainer.Configure(&settings)
	}
}

// panickyPath panics on a goroutine of the solver.
func panickyPath(ctx context.Context) error {
	x := solver.NewRows(2, 2, 2)
	x.Append([]int32{0}, []float64{1})
	x.Append([]int32{1}, []float64{1})
	p := &solver.Problem{
		X:         x,
		Targets:   []float64{1, -1},
		Outputs:   1,
		Loss:      solver.Squared{},
		Field:     []int32{0, 0},
		NumFields: 1,
	}
	s := solver.DefaultSettings()
	s.Workers = 2
	_, _, err := solver.Path(ctx, p, []float64{1, 0.5}, s,
		solver.PathOptions{Judge: func(*solver.Model) float64 { panic("judge") }})
	return err
}

// TestPanicOfTheSolver (A7): a panic on one of the solver's goroutines costs one refit: the daemon stays up, the
// failure is counted and logged with the stack where it happened, the versions before it stay, and the next refit is
// like any other.
func TestPanicOfTheSolver(t *testing.T) {
	t.Parallel()
	var log locked.Buffer
	p := newPair(t, &log)
	a := p.a
	p.onlyWhenAsked()
	fit := a.trainer.Fit
	var broken atomic.Bool
	a.trainer.Fit = func(ctx context.Context, s *encode.Sample) (*fitted.Fitted, error) {
		if broken.Load() {
			return nil, fmt.Errorf("not a panic: %w", panickyPath(ctx))
		}
		return fit(ctx, s)
	}
	defer p.start(t)()
	refit := func() int64 {
		p, err := a.Store().Alias("a", publish.Refit)
		if err != nil {
			return 0
		}
		return p.Version
	}
	failures := func() float64 { return testutil.ToFloat64(p.options.Metrics.TrainFailed.WithLabelValues("a")) }
	until(t, "all events", func() bool { return a.reader.Applied.Load() == 2000 })
	a.trainer.Refit()
	until(t, "a refit", func() bool { return refit() > 0 })
	before := refit()
	broken.Store(true)
	a.trainer.Refit()
	until(t, "a failure", func() bool { return failures() > 0 })
	if failures() != 1 || refit() != before || len(a.NotReady()) > 0 {
		t.Errorf("%g failures, the refit is version %d after %d, not ready: %v", failures(), refit(), before,
			a.NotReady())
	}
	broken.Store(false)
	a.trainer.Refit()
	until(t, "the next refit", func() bool { return refit() > before })
	if failures() != 1 {
		t.Errorf("%g failures", failures())
	}
	if text := log.String(); !strings.Contains(text, `msg="refit failed" model=a error="panic: judge"`) ||
		!strings.Contains(text, "panickyPath") {
		t.Errorf("the log lacks the panic and where it was:\n%.3000s", text)
	}
}

// TestOneRefitAtATime (G8): however often a refit is asked for while one runs, there is one more afterwards.
func TestOneRefitAtATime(t *testing.T) {
	t.Parallel()
	var log locked.Buffer
	p := newPair(t, &log)
	a := p.a
	p.onlyWhenAsked()
	fit := a.trainer.Fit
	var begun, under, most atomic.Int32
	release := make(chan struct{})
	a.trainer.Fit = func(ctx context.Context, s *encode.Sample) (*fitted.Fitted, error) {
		begun.Add(1)
		most.Store(max(most.Load(), under.Add(1)))
		defer under.Add(-1)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return fit(ctx, s)
	}
	var versions atomic.Int32
	p.onVersion(func(v report.Version) {
		if v.Model == "a" {
			versions.Add(1)
		}
	})
	defer p.start(t)()
	until(t, "all events", func() bool { return a.reader.Applied.Load() == 2000 })
	a.trainer.Refit()
	until(t, "the first refit", func() bool { return begun.Load() == 1 })
	for range 100 {
		a.trainer.Refit()
	}
	release <- struct{}{}
	until(t, "the second refit", func() bool { return begun.Load() == 2 })
	release <- struct{}{}
	until(t, "the second version", func() bool { return versions.Load() >= 2 })
	close(release)
	held := func() int { return strings.Count(log.String(), `msg="update skipped" model=a reason="held back`) }
	for range 3 { // updates, which the guard may hold back: the trainer has looked at what there is to do
		now, before := versions.Load(), held()
		a.reader.Applied.Add(1)
		a.trainer.Wake()
		until(t, "an update", func() bool { return versions.Load() > now || held() > before })
	}
	if begun.Load() != 2 || most.Load() != 1 {
		t.Errorf("%d refits for one request and a hundred while it ran, %d at once", begun.Load(), most.Load())
	}
}

// TestTrainerLearnsWhileAnUpdateIsWritten: an update of the live model, such as the first after a refit, is written
// in parallel with the trainer, which begins a refit before it is written.
func TestTrainerLearnsWhileAnUpdateIsWritten(t *testing.T) {
	t.Parallel()
	p := newPairOf(
		t,
		io.Discard,
		func(i int) int { return 1 + (i%50*(i%31)+i*i%7)%5 },
	) // without noise updates are held back
	a := p.a
	p.onlyWhenAsked()
	fit, write := a.trainer.Fit, a.versions.Write
	var begun, writing, versions atomic.Int32
	release := make(chan struct{})
	a.trainer.Fit = func(ctx context.Context, s *encode.Sample) (*fitted.Fitted, error) {
		begun.Add(1)
		return fit(ctx, s)
	}
	a.versions.Write = func(p *publish.Publication, ctx context.Context, ch *fitted.Fitted) error {
		if ch.Version.Kind == curves.Update {
			writing.Add(1)
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return write(p, ctx, ch)
	}
	p.onVersion(func(v report.Version) {
		if v.Model == "a" {
			versions.Add(1)
		}
	})
	defer p.start(t)()
	until(t, "all events", func() bool { return a.reader.Applied.Load() == 2000 })
	a.trainer.Refit()
	until(t, "a version", func() bool { return versions.Load() > 0 })
	until(t, "an update that is written", func() bool {
		a.reader.Applied.Add(1) // as if more came, so that the next one is due
		a.trainer.Wake()
		return writing.Load() > 0
	})
	a.trainer.Refit()
	until(t, "a refit during the write", func() bool { return begun.Load() == 2 })
	close(release)
	until(t, "the update and the refit", func() bool { return versions.Load() >= 3 })
}
