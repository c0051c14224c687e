package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/refitd/refitd/daemon/offline/fit"
	"github.com/refitd/refitd/daemon/report"
)

// TestFitRefitOfAlgorithm: --refit and --augment are used together with --algorithm, which alone makes both automatic.
func TestFitRefitOfAlgorithm(t *testing.T) {
	data := filepath.Join(t.TempDir(), "u.data")
	if err := os.WriteFile(data, []byte("1\t2\t3\t874965758\n2\t1\t4\t874965759\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for refit, want := range map[string]string{"": "auto", "output": "output"} {
		c := fitCmd{AlgorithmFlags: fit.AlgorithmFlags{Algorithm: "convex_fm"}, Refit: refit, Augment: true}
		c.Format, c.Data = "movielens", data
		m, err := c.model()
		if err != nil {
			t.Fatal(err)
		}
		if m.Train.Algorithm != "convex_fm" || m.Train.Refit != want || m.Train.Augment != "true" {
			t.Errorf("--refit %q: algorithm %s, refit %s, augment %s", refit, m.Train.Algorithm, m.Train.Refit,
				m.Train.Augment)
		}
	}
}

// TestFitKernelOfLinearModel: a support vector machine of the features themselves has no kernel to choose; one over
// basis vectors has.
func TestFitKernelOfLinearModel(t *testing.T) {
	for _, c := range []struct {
		algorithm, features, kernel string
		refused                     bool
	}{
		{"frank_wolfe_svm", "", "anova", true}, {"frank_wolfe_svm", "raw", "homogeneous", true}, {"frank_wolfe_svm", "",
			"auto", false},
		{"frank_wolfe_svm", "basis", "anova", false}, {"coordinate_descent", "", "anova", false},
	} {
		cmd := fitCmd{
			AlgorithmFlags: fit.AlgorithmFlags{Algorithm: c.algorithm, Features: c.features},
			Kernel:         c.kernel,
		}
		cmd.Format = "libsvm"
		_, err := cmd.model()
		exit := new(report.ExitError)
		if refused := errors.As(err, &exit) && exit.Key == "--kernel" &&
			exit.Code == report.ExitUsage; refused != c.refused ||
			!refused && err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
