package refit

import (
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestMarginsOverBasis: classes that depend on a product of two numbers cannot be learned by a support vector machine
// over the numbers. One over basis vectors learns them.
func TestMarginsOverBasis(t *testing.T) {
	tier.NotUnderRace(t)
	events := cycletest.Numbers(9, 900)
	for i := range events {
		ev := &events[i]
		ev.Classes = []string{[]string{"off", "on"}[int(ev.Label)]}
		ev.Numeric[1] -= 10
		ev.Label = 0
	}
	right := make(map[string]float64)
	for _, features := range []string{config.RawFeatures, config.BasisFeatures} {
		m := config.DefaultModel()
		m.Schema = config.Schema{
			Task:     string(event.Multiclass),
			Label:    "is",
			Classes:  []string{"off", "on"},
			TimeUnit: "ms",
			Numeric:  []string{"a", "b"},
		}
		m.Train.MaxBasis, m.Train.Features = 6, features
		out, err := Fit(
			t.Context(),
			task.FitInput{
				Model:   cycletest.By(&m, config.FrankWolfeSVM, 2),
				Train:   events[:600],
				Valid:   events[600:],
				Workers: 1,
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		right[features] = float64(*out.Valid.Accuracy)
		if ch := out.Champion; (ch.Model.NumBasis > 0) != (features == config.BasisFeatures) ||
			ch.Version.Solver != config.FrankWolfeSVM ||
			ch.Version.GapKind != "certified" {
			t.Errorf("%s: %d vectors by %s, gap %s", features, ch.Model.NumBasis, ch.Version.Solver, ch.Version.GapKind)
		}
	}
	if right[config.RawFeatures] > 0.75 || right[config.BasisFeatures] < 0.9 {
		t.Errorf("right: %v", right)
	}
}
