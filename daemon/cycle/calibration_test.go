package cycle

import (
	"math"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// What a live model predicts of events is in the bins with what came of them: of numbers, of a binary label and of
// classes. The means over all bins are those of the window, which the metrics know.
func TestCalibrationIsOfTheWindow(t *testing.T) {
	models := map[string]struct {
		model  *config.Model
		events []event.Event
	}{"numbers": {cycletest.RatingsModel(nil), cycletest.Stream(3, 3000)}, "binary": {switchModel(), cycletest.Numbers(4,
		3000)}}
	for name, x := range models {
		c := newCycle(t, x.model)
		labels := 0.0
		for i := range x.events {
			c.Observe(&x.events[i], true, rows.Position{}, nil, nil)
		}
		window := x.events[max(0, len(x.events)-x.model.Evaluate.Window):]
		for i := range window {
			labels += window[i].Label / float64(len(window))
		}
		all, n, observed := c.progress.Calibration(), int64(0), 0.0
		last := math.Inf(-1)
		for _, b := range all.Live {
			n += b.N
			observed += float64(b.N) * float64(b.Observed)
			if float64(b.Predicted) <= last {
				t.Errorf("%s: bins out of order: %v", name, all.Live)
			}
			last = float64(b.Predicted)
		}
		if n != int64(len(window)) || len(all.Live) < 10 || len(all.Live) > evaluate.CalibrationBins ||
			math.Abs(observed/float64(n)-labels) > 1e-9 {
			t.Errorf("%s: %d events in %d bins, mean label %g; want %d and %g", name, n, len(all.Live),
				observed/float64(n), len(window), labels)
		}
		if len(all.Published) != 0 {
			t.Errorf("%s: a version that there is not has bins %v", name, all.Published)
		}
	}
}
