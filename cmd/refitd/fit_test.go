package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
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

// TestLambdasOfMax: a strength that ends in max is a fraction of λ_max, which a support vector machine has not.
func TestLambdasOfMax(t *testing.T) {
	m := func(algorithm string) *config.Model {
		return &config.Model{Train: config.Train{Algorithm: algorithm}}
	}
	c := fitCmd{Lambda: "0.1max, 3,1max"}
	list, ofMax, err := c.lambdas(m(config.ConditionalGradient))
	if err != nil || !slices.Equal(list, []float64{0.1, 3, 1}) || !slices.Equal(ofMax, []bool{true, false, true}) {
		t.Errorf("%s is %v, %v, %v", c.Lambda, list, ofMax, err)
	}
	for text, algorithm := range map[string]string{
		"0max": config.ConditionalGradient, "max": config.ConditionalGradient, "0.1min": config.ConditionalGradient,
		"0.1max": config.FrankWolfeSVM, "%dmax": config.ConditionalGradient,
	} {
		c := fitCmd{Lambda: text}
		exit := new(report.ExitError)
		if _, _, err := c.lambdas(m(algorithm)); !errors.As(err, &exit) || exit.Key != "--lambda" ||
			!strings.Contains(err.Error(), "--lambda "+text) {
			t.Errorf("%s of %s: %v", text, algorithm, err)
		}
	}
}
