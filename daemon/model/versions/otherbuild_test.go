package versions

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/model/metrics"
	"github.com/refitd/refitd/daemon/model/modeltest"
)

// TestRefitOfAnotherBuildIsCounted: what another build has kept of the last refit is counted and logged; what does not
// fit for other reasons is only logged.
func TestRefitOfAnotherBuildIsCounted(t *testing.T) {
	var log bytes.Buffer
	v := &Versions{settings: modeltest.Ratings(), metrics: metrics.New(prometheus.NewRegistry()),
		log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, err := range []error{fitted.ErrOtherSettings, fmt.Errorf("state/posterior: %w", fitted.ErrOtherBuild)} {
		log.Reset()
		if v.notRestored(err); !strings.Contains(log.String(), err.Error()) {
			t.Errorf("the log has %q", log.String())
		}
	}
	if n := testutil.ToFloat64(v.metrics.Unknown.WithLabelValues("ratings")); n != 1 {
		t.Errorf("counted %g, want 1", n)
	}
}
