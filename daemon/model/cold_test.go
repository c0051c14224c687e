package model

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/daemontest/locked"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// TestFailedRefitIsMadeAgain: a refit that fails because of what it continues from is made again from nothing at
// once, so that the last one before the log ends counts, too. No refit is counted as failed.
func TestFailedRefitIsMadeAgain(t *testing.T) {
	t.Parallel()
	var log locked.Buffer
	p := newPair(t, &log)
	a := p.a
	p.onlyWhenAsked()
	versions := make(chan report.Version, 100)
	p.onVersion(func(v report.Version) {
		if v.Model == "a" && v.Kind == "refit" {
			versions <- v
		}
	})
	defer p.start(t)()
	until(t, "all events", func() bool { return a.reader.Applied.Load() == 2000 })
	a.trainer.Refit()
	version, err := snapshot.Open(a.state.Settings.Publish.Store, "a", snapshot.Selector{Version: (<-versions).Version})
	if err != nil {
		t.Fatal(err)
	}
	adopted, err := fitted.FromSnapshot(a.state.Settings, version)
	if err != nil {
		t.Fatal(err)
	}
	adopted.Model.Bias[0] = 2e12 // more than the solver starts from
	a.cycle.Adopt(adopted)
	a.trainer.Refit()
	until(t, "a version from nothing", func() bool { return len(versions) > 0 })
	v := <-versions
	if v.Warm || !strings.Contains(v.Reason, "trained from nothing because a refit that continued from version") {
		t.Errorf("warm %t: %s", v.Warm, v.Reason)
	}
	if n := testutil.ToFloat64(p.options.Metrics.TrainFailed.WithLabelValues("a")); n != 0 {
		t.Errorf("%g refits counted as failed", n)
	}
	if text := log.String(); strings.Count(text,
		`msg="refit failed that continued from the champion"`) != 1 {
		t.Errorf("the log does not say so once:\n%.3000s", text)
	}
}
