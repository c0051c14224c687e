package model

import (
	"context"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/daemontest/locked"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
)

// TestBrokenModels: E6. Whatever is wrong with a model that the gate has let pass, it does not reach the store: it is
// counted and logged, not tried again, and the next sound one is published as the first.
func TestBrokenModels(t *testing.T) {
	t.Parallel()
	var log locked.Buffer
	p := newPair(t, &log)
	a := p.a
	breaks := []struct {
		name  string
		model func(m *solver.Model)
	}{
		{"NaN", func(m *solver.Model) { m.Bias[0] = math.NaN() }},
		{"infinite", func(m *solver.Model) { m.Weights[0] = math.Inf(1) }},
		{"huge", func(m *solver.Model) {
			for i := range m.Bias {
				m.Bias[i] = math.MaxFloat64
			}
			for i := range m.Linear {
				m.Linear[i] = math.MaxFloat64
			}
		}},
		{"all zero", func(m *solver.Model) {
			clear(m.Weights)
			clear(m.Linear)
			clear(m.Bias)
		}},
		{"cut short", func(m *solver.Model) { m.Bias = m.Bias[:len(m.Bias)-1] }},
	}
	fit := a.trainer.Fit
	var fits atomic.Int32
	a.trainer.Fit = func(ctx context.Context, s *encode.Sample) (*fitted.Fitted, error) {
		ch, err := fit(ctx, s)
		if n := int(fits.Add(1)) - 1; err == nil && n < len(breaks) {
			ch.Model = ch.Model.Clone()
			breaks[n].model(ch.Model)
			a.reader.Applied.Add(1) // as if more came, so that the next refit is due
		}
		return ch, err
	}
	versions := make(chan report.Version, 100)
	p.onVersion(func(v report.Version) {
		if v.Model == a.name {
			versions <- v
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.run(ctx) }()
	first := <-versions
	failures := testutil.ToFloat64(
		p.options.Metrics.Published.WithLabelValues(a.name, "failure"),
	) // before the end calls one off
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if first.Version != 1 || int(fits.Load()) <= len(breaks) {
		t.Errorf("version %d was published after %d refits, of which %d were broken", first.Version, fits.Load(),
			len(breaks))
	}
	if int(failures) != len(breaks) {
		t.Errorf("%g failures for %d broken models:\n%s", failures, len(breaks), log.String())
	}
	if n := strings.Count(log.String(), snapshot.ErrContents.Error()); n != len(breaks) {
		t.Errorf("%d lines about %d broken models:\n%s", n, len(breaks), log.String())
	}
}
