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

// TestTrainingIsEnabledAgain (G4): a model that died in refits does not train on schedule, the other one does; a
// reload, or a start with other settings, tries again, and a start with the same ones does not.
func TestTrainingIsEnabledAgain(t *testing.T) {
	t.Parallel()
	var log locked.Buffer
	p := newPair(t, &log)
	file := filepath.Join(p.a.state.Dir, "deaths.json")
	dies := func() {
		t.Helper()
		if err := errors.Join(p.a.Close(), p.b.Close()); err != nil {
			t.Fatal(err)
		}
		text := fmt.Appendf(nil, `{"training":{"deaths":2,"last":%q}}`, report.Time(time.Now()))
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dies()
	p.open(t)
	a, b := p.a, p.b
	stop := p.start(t)
	until(t, "all events", func() bool { return a.reader.Applied.Load() == 2000 && b.reader.Applied.Load() == 2000 })
	for range 3 {
		before := b.trainer.Refitted()
		b.trainer.Refit()
		until(t, "a refit of the other model", func() bool { return b.trainer.Refitted() != before })
	}
	if a.trainer.Refitted() != nil || !strings.Contains(a.Status().Waiting, "training disabled until") ||
		len(a.NotReady())+len(b.NotReady()) > 0 {
		t.Errorf("refit at %v, waiting: %q, not ready: %v", a.trainer.Refitted(), a.Status().Waiting, a.NotReady())
	}
	same := *a.state.Settings
	a.trainer.Configure(&same) // as a reload does
	until(t, "a refit after the reload", func() bool { return a.trainer.Refitted() != nil })
	if a.trainer.Disabled() != "" || !strings.Contains(log.String(), "training enabled") {
		t.Errorf("still disabled: %q\n%s", a.trainer.Disabled(), &log)
	}
	stop()
	dies()
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
