package fit

import (
	"errors"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/report"
)

// TestProblemsNameWhatTheCommandHas: backtest has the flags of the algorithm alone, so what it refuses of a
// configuration's other keys is called as there, and so is what it proposes to write.
func TestProblemsNameWhatTheCommandHas(t *testing.T) {
	for _, c := range []struct {
		change  func(*config.Train)
		flags   map[string]string
		refused string
		says    string
	}{
		{func(t *config.Train) { t.Penalty = "l1" }, nil, "train.penalty", "write train.lambda, the"},
		{func(t *config.Train) { t.Penalty = "l1" }, fitFlags, "--penalty", "write --lambda, the"},
		{func(t *config.Train) { t.Degree = 3 }, nil, "--degree", "write 2: convex_fm"},
		{func(t *config.Train) { t.Degree = 3 }, fitFlags, "--degree", "write 2: convex_fm"},
		{func(t *config.Train) { t.Moreau = 1 }, nil, "--moreau", "write --algorithm frank_wolfe_svm, whose"},
	} {
		m, err := ModelOf("", dataset.LIBSVM, "regression", "")
		if err != nil {
			t.Fatal(err)
		}
		m.Schema.Numeric = []string{"x", "y", "z"}
		m.Choose("convex_fm", 0)
		c.change(&m.Train)
		exit := new(report.ExitError)
		if err := Check(m, c.flags); !errors.As(err, &exit) || exit.Key != c.refused ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want one of %s that says %q", err, c.refused, c.says)
		}
	}
}
