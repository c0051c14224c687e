package fit

import (
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
)

// TestFitComparesProducts: of few rows the path runs over all of them, and products are chosen if they have fewer
// errors on the validation part by a standard error. A fit with a given path, strength or without a feature map
func TestFitComparesProducts(t *testing.T) {
	tier.NotUnderRace(t)
	path := offlinetest.WriteFile(t, "toy", offlinetest.RatingLines(600, 1, offlinetest.Quadrant))
	for _, most := range []int{1, 6} {
		o := fitOptions(t, dataset.LIBSVM, "", path)
		o.Model.Train.MaxBasis = most
		summary := offlinetest.Last(fitLines(t, o))
		forms, _ := offlinetest.Get(summary, "forms").([]any)
		if len(forms) != 2 {
			t.Fatalf("forms %v", forms)
		}
		whole, vectors := forms[0].(offlinetest.Line), forms[1].(offlinetest.Line)
		if whole["form"] != "products" || vectors["form"] != "basis_vectors" ||
			offlinetest.Number(t, whole, "rows") != 300 ||
			offlinetest.Number(t, vectors, "rows") != 300 {
			t.Errorf("forms %v and %v", whole, vectors)
		}
		if whole["chosen"] == vectors["chosen"] ||
			whole["chosen"] == true &&
				offlinetest.Number(t, whole, "accuracy") <= offlinetest.Number(t, vectors, "accuracy") {
			t.Errorf("forms %v and %v: want products where they are more accurate", whole, vectors)
		}
		if most == 1 && whole["chosen"] != true {
			t.Errorf("one basis vector was chosen: %v and %v", whole, vectors)
		}
	}
	for name, change := range map[string]func(*Options){
		"many":     func(o *Options) { o.Split = dataset.Fractions{Train: 0.05, Valid: 0.5, Test: 0.45} },
		"no map":   func(o *Options) { o.Model.Train.FeatureMap = "" },
		"strength": func(o *Options) { o.Lambdas = []float64{5} },
		"thorough": func(o *Options) { o.Thorough = true },
		"steps":    func(o *Options) { o.MaxSteps = 1 },
		"anova":    func(o *Options) { o.Model.Train.Kernel, o.Model.Train.Augment = "anova", "false" },
		"numbers":  func(o *Options) { o.Model.Schema.Task = "regression" },
	} {
		o := fitOptions(t, dataset.LIBSVM, "", path)
		o.Model.Train.MaxBasis = 2
		change(&o)
		if lines := fitLines(t, o); offlinetest.Get(offlinetest.Last(lines), "forms") != nil || len(lines) < 3 {
			t.Errorf("%s: %d lines, forms %v", name, len(lines), offlinetest.Get(offlinetest.Last(lines), "forms"))
		}
	}
}
