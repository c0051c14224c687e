package model

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/model/metrics"
	"github.com/refitd/refitd/daemon/model/modeltest"
	"github.com/refitd/refitd/daemon/model/part"
)

// TestSumsOfAnotherBuildAreCounted: a predictor in the state that this build does not know is counted and named in the
// log; sums without one are not.
func TestSumsOfAnotherBuildAreCounted(t *testing.T) {
	var log bytes.Buffer
	o := &part.Options{Settings: modeltest.Ratings(), Metrics: metrics.New(prometheus.NewRegistry()),
		Log: slog.New(slog.NewTextHandler(&log, nil))}
	for stored, want := range map[string]float64{
		`{"format":2,"n":3,"no_model":3,"predictors":[{"name":"live","n":3}]}`:                         0,
		`{"format":2,"n":3,"no_model":3,"predictors":[{"name":"forest","n":3},{"name":"live","n":3}]}`: 1,
	} {
		log.Reset()
		o.Metrics.Unknown.Reset()
		c, err := cycle.New(o.Settings, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Restore([]byte(stored)); err != nil {
			t.Fatal(err)
		}
		noteUnknown(o, c.Unknown())
		if got := testutil.ToFloat64(o.Metrics.Unknown.WithLabelValues("ratings")); got != want {
			t.Errorf("%s: counted %g, want %g", stored, got, want)
		}
		if lines := strings.Count(log.String(), "\n"); lines != int(want) || want > 0 &&
			!strings.Contains(log.String(), "forest") {
			t.Errorf("%s: the log has %q", stored, log.String())
		}
	}
}
