package model

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/daemontest/locked"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/snapshot"
)

// TestNotReadyWithoutVersions: a model whose refits fail before its first version, one whose versions cannot be
// published and one whose version has expired are not ready, for a reason each; too young a model is, and so is one
// that has a version and whose refit fails.
func TestNotReadyWithoutVersions(t *testing.T) {
	t.Parallel()
	p := newPair(t, new(locked.Buffer))
	p.onlyWhenAsked()
	a := p.a
	fit, write := a.trainer.Fit, a.versions.Write
	var failing, refusing atomic.Bool
	failing.Store(true)
	a.trainer.Fit = func(ctx context.Context, s *encode.Sample) (*fitted.Fitted, error) {
		if failing.Load() {
			return nil, errors.New("singular")
		}
		return fit(ctx, s)
	}
	a.versions.Write = func(p *publish.Publication, ctx context.Context, ch *fitted.Fitted) error {
		if refusing.Load() {
			return fmt.Errorf("manifest: %w: too large", snapshot.ErrContents)
		}
		return write(p, ctx, ch)
	}
	defer p.start(t)()
	is := func(cause, text string) bool {
		list := a.NotReady()
		collected := testutil.CollectAndCount(NewCollector([]*Model{a}, p.options.Config), "refitd_model_not_ready")
		return collected == len(part.Causes) &&
			(cause == "" && len(list) == 0 || len(list) == 1 && list[0].Cause == cause && strings.Contains(list[0].Text, text))
	}
	until(t, "all events, and ready without a version",
		func() bool { return a.reader.Applied.Load() == 2000 && is("", "") })
	a.trainer.Refit()
	until(t, "a failure", func() bool { return is(part.CauseNoVersion, "singular") })
	failing.Store(false)
	refusing.Store(true)
	a.trainer.Refit()
	until(t, "a refusal", func() bool {
		list := a.NotReady() // that the refit before failed counts until there is a version
		return len(list) == 2 && list[0].Cause == part.CauseUnpublishable && strings.Contains(list[0].Text, "too large")
	})
	refusing.Store(false)
	a.trainer.Refit()
	until(t, "a version", func() bool { return is("", "") && a.Status().Champion != nil })
	failing.Store(true)
	a.trainer.Refit()
	failures := func() float64 { return testutil.ToFloat64(p.options.Metrics.TrainFailed.WithLabelValues("a")) }
	until(t, "another failure", func() bool { return failures() == 2 })
	if !is("", "") {
		t.Errorf("a failed refit of a model that has a version: %v", a.NotReady())
	}
	a.versions.StandsUntil(time.Now().Add(-time.Second))
	if !is(part.CauseExpired, "publish.expires_after") {
		t.Errorf("an expired version: %v", a.NotReady())
	}
}

// TestNotReadyWhileBehind: that a model is far behind its log is no reason, unless web.ready_when says so, also where
// it learns from all events.
func TestNotReadyWhileBehind(t *testing.T) {
	t.Parallel()
	p := newPair(t, new(locked.Buffer)) // which does not run
	behind := func() (texts []string) {
		for _, reason := range p.a.NotReady() {
			if reason.Cause == part.CauseBehind {
				texts = append(texts, reason.Text)
			}
		}
		return texts
	}
	for _, when := range []string{"", config.ReadyCaughtUp} {
		p.options.Config.Web.ReadyWhen = when
		for _, learnsAll := range []bool{false, true} {
			p.a.reader.CatchUp = func() *ingest.CatchUp {
				return &ingest.CatchUp{Read: 1, Left: 1_000_000, ETA: time.Minute, All: learnsAll}
			}
			texts := behind()
			if when == "" && len(texts) == 0 {
				continue
			}
			if when == "" || len(texts) != 1 || !strings.Contains(texts[0], "1 of 1000001 records read, 1m0s left") ||
				strings.Contains(texts[0], "one of 64") == learnsAll {
				t.Errorf("ready_when %q, learns all %t: not ready for %q", when, learnsAll, texts)
			}
		}
		p.a.reader.CatchUp = func() *ingest.CatchUp { return nil }
		if texts := behind(); len(texts) != 0 {
			t.Errorf("ready_when %q, caught up: not ready for %q", when, texts)
		}
	}
}
