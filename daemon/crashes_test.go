package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

// TestDisabledUntil (G4): the wait before training is tried again is ten minutes after two deaths, doubles with each, and ends at a day; a clock
// that was set back makes it no longer.
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

// TestTrainingIsEnabledAgain (G4): a model that died in refits does not train on schedule, the other one does; a reload, or a start with other
// settings, tries again, and a start with the same ones does not.
func TestTrainingIsEnabledAgain(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	d := pair(t, &log)
	a, b := d.units[0], d.units[1]
	hour := time.Now().Add(time.Hour)
	a.disabled.Store(&hour)
	stop := running(t, d)
	until(t, "all events", func() bool { return a.applied.Load() == 2000 && b.applied.Load() == 2000 })
	for range 3 {
		before := b.refitted.Load()
		if err := d.Refit("b"); err != nil {
			t.Fatal(err)
		}
		until(t, "a refit of the other model", func() bool { return b.refitted.Load() != before })
	}
	if a.refitted.Load() != nil || !strings.Contains(a.status().Waiting, "training disabled until") || len(d.NotReady()) > 0 {
		t.Errorf("refit at %v, waiting: %q, not ready: %v", a.refitted.Load(), a.status().Waiting, d.NotReady())
	}
	same := *a.config
	a.tuned.Store(&same) // as Reload does
	a.nudge()
	until(t, "a refit after the reload", func() bool { return a.refitted.Load() != nil })
	if a.trainingDisabled() != "" || !strings.Contains(log.String(), "training enabled") {
		t.Errorf("still disabled: %q\n%s", a.trainingDisabled(), &log)
	}
	stop()

	file := filepath.Join(a.dir, "deaths.json")
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"training":{"deaths":2,"last":%q}}`, report.Time(time.Now())), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(disabled bool) {
		t.Helper()
		again, err := New(t.Context(), d.Options)
		if err != nil {
			t.Fatal(err)
		}
		if got := again.units[0].trainingDisabled() != ""; got != disabled {
			t.Errorf("training disabled: %t, want %t", got, disabled)
		}
		if err := again.close(); err != nil {
			t.Error(err)
		}
	}
	start(true)
	start(true)
	other := *d.Config
	other.Models = append([]config.Model(nil), d.Config.Models...)
	other.Models[0].Train.MaxBasis++
	d.Options.Config = &other
	start(false)
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", file, err)
	}
}
