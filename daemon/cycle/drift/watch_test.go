package drift

import (
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
)

// TestRowsOfDetectors: each detector has a name and a text, a model has alarms of different groups, and what a detector
// raises is of one of them.
func TestRowsOfDetectors(t *testing.T) {
	names := map[string]bool{"": true}
	for _, k := range Detectors {
		if names[k.Name] || k.Doc == "" {
			t.Errorf("%q has no text, or the name of another: %q", k.Name, k.Doc)
		}
		names[k.Name] = true
	}
	numbers := cycletest.NumericModel(2, 2)
	numbers.Train.Refit = "output"
	for want, m := range map[string]*config.Model{
		"gradients": cycletest.RatingsModel(nil), "losses": numbers,
	} {
		w := NewWatch(m, m.Schema.Categorical)
		if !slices.ContainsFunc(w.Detectors, func(d Detector) bool {
			switch d.(type) {
			case *Gradients:
				return want == "gradients"
			case *Losses:
				return want == "losses"
			}
			return false
		}) {
			t.Errorf("detectors %v, want %s", w.Detectors, want)
		}
		groups := slices.Sorted(slices.Values(DriftGroups(m)))
		if len(groups) == 0 || len(slices.Compact(groups)) != len(groups) {
			t.Errorf("%s: groups %q", want, groups)
		}
	}
}
