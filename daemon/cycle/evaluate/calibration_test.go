package evaluate

import (
	"testing"

	"github.com/refitd/refitd/daemon/report"
)

// Bins have as many events each, but for predictions that are equal; ones of two kinds give two bins.
func TestCalibrationBins(t *testing.T) {
	var pairs []Pair
	for i := range 1500 {
		pairs = append(pairs, Pair{float64(i%2) / 2, float64(i%3) / 2})
	}
	bins := Calibrated(pairs)
	if want := (report.CalibrationBin{N: 750, Predicted: 0.5, Observed: 0.5}); len(bins) != 2 || bins[1] != want {
		t.Errorf("%v", bins)
	}
	if bins := Calibrated(nil); bins == nil || len(bins) != 0 {
		t.Errorf("without events: %v", bins)
	}
}
