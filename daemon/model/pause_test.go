package model

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/locked"
	"github.com/refitd/refitd/daemon/report"
)

// TestDisabledUntil (G4): the wait before training is tried again is ten minutes after two deaths, doubles with each,
// and ends at a day; a clock that was set back makes it no longer.
func TestDisabledUntil(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		deaths int
		last   time.Duration // against now
		want   time.Duration
	}{
		{2, 0, 10 * time.Minute},
		{3, 0, 20 * time.Minute},
		{4, -time.Hour, -20 * time.Minute},
		{9, 0, 1280 * time.Minute},
		{10, 0, 24 * time.Hour},
		{1000, 0, 24 * time.Hour},
		{2, 100 * time.Hour, 10 * time.Minute},
	} {
		if got := disabledUntil(c.deaths, now.Add(c.last), now).Sub(now); got != c.want {
			t.Errorf("%d deaths, the last %v from now: wait of %v, want %v", c.deaths, c.last, got, c.want)
		}
	}
}

// TestTrainingIsEnabledAgain (G4): a model that died in refits does not train on schedule, the other one does; a
// reload, or a start with other settings, tries again, and a start with the same ones does not.
func TestTrainingIsEnabledAgain(t *testing.T) {
	t.Parallel()
	var log locked.Buffer
	p := newPair(t, &log)
	a, b := p.a, p.b
	a.trainer.pause.hold(time.Now().Add(time.Hour))
	stop := p.start(t)
	until(t, "all events", func() bool { return a.reader.applied.Load() == 2000 && b.reader.applied.Load() == 2000 })
	for range 3 {
		before := b.trainer.Refitted()
		b.trainer.Refit()
		until(t, "a refit of the other model", func() bool { return b.trainer.Refitted() != before })
	}
	if a.trainer.Refitted() != nil || !strings.Contains(a.Status().Waiting, "training disabled until") ||
		len(a.NotReady())+len(b.NotReady()) > 0 {
		t.Errorf("refit at %v, waiting: %q, not ready: %v", a.trainer.Refitted(), a.Status().Waiting, a.NotReady())
	}
	same := *a.state.settings
	a.trainer.Configure(&same) // as a reload does
	until(t, "a refit after the reload", func() bool { return a.trainer.Refitted() != nil })
	if a.trainer.Disabled() != "" || !strings.Contains(log.String(), "training enabled") {
		t.Errorf("still disabled: %q\n%s", a.trainer.Disabled(), &log)
	}
	stop()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}

	file := filepath.Join(a.state.dir, "deaths.json")
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"training":{"deaths":2,"last":%q}}`, report.Time(time.Now())),
		0o600); err != nil {
		t.Fatal(err)
	}
	start := func(disabled bool) {
		t.Helper()
		if err := errors.Join(p.a.Close(), p.b.Close()); err != nil {
			t.Error(err)
		}
		p.open(t)
		if got := p.a.trainer.Disabled() != ""; got != disabled {
			t.Errorf("training disabled: %t, want %t", got, disabled)
		}
	}
	start(true)
	start(true)
	other := *p.options.Config
	other.Models = slices.Clone(other.Models)
	other.Models[0].Train.MaxBasis++
	p.options.Config = &other
	start(false)
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", file, err)
	}
}
