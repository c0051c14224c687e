package offline

import (
	"errors"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/report"
)

// TestProblemsNameWhatTheCommandHas: backtest has the flags of the algorithm alone, so what it refuses of a configuration's other keys is called as there.
func TestProblemsNameWhatTheCommandHas(t *testing.T) {
	for _, c := range []struct {
		change  func(*config.Train)
		flags   map[string]string
		refused string
	}{
		{func(t *config.Train) { t.Penalty = "l1" }, nil, "train.penalty"},
		{func(t *config.Train) { t.Penalty = "l1" }, fitFlags, "--penalty"},
		{func(t *config.Train) { t.Degree = 3 }, nil, "--degree"},
		{func(t *config.Train) { t.Degree = 3 }, fitFlags, "--degree"},
	} {
		m, err := FitModel("", dataset.LIBSVM, "regression", "")
		if err != nil {
			t.Fatal(err)
		}
		m.Schema.Numeric = []string{"x", "y", "z"}
		m.Choose("convex_fm", 0)
		c.change(&m.Train)
		exit := new(report.ExitError)
		if err := check(m, c.flags); !errors.As(err, &exit) || exit.Key != c.refused {
			t.Errorf("%v, want one of %s", err, c.refused)
		}
	}
}
