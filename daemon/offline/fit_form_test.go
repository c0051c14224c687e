package offline

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/report"
)

// TestFitTakesProducts: where more basis vectors are needed than there may be, all products of the numbers win on a share of the rows, and the path over all
// of them is left out. What is published is an ordinary model that says the same of the test rows, whatever the threads.
func TestFitTakesProducts(t *testing.T) {
	tier.NotUnderRace(t)
	text := strings.Split(strings.TrimSpace(ratingLines(4200, 1, quadrant)), "\n")
	path := writeFile(t, "toy", strings.Join(text, "\n"))
	run := func(linear float64, threads int) []line {
		o := fitOptions(t, dataset.LIBSVM, "", path)
		o.Model.Train.MaxBasis, o.Model.Train.Linear, o.Model.Train.Threads, o.Store = 1, config.Linear(linear), threads, t.TempDir()
		return fitLines(t, o)
	}
	split := dataset.SplitRandom(len(text), dataset.Fractions{Train: 0.5, Valid: 0.25, Test: 0.25}, 1)
	slices.Sort(split.Test)
	var test strings.Builder
	for _, i := range split.Test {
		fmt.Fprintln(&test, text[i])
	}
	testPath := writeFile(t, "test", test.String())
	for _, linear := range []float64{0.5, 0} {
		lines := run(linear, 1)
		summary := last(lines)
		if steps := ofType(lines, "step"); len(steps) != 1 || number(t, steps[0], "k") != 0 {
			t.Errorf("steps %v, want the linear model's alone", steps)
		}
		forms, _ := get(summary, "forms").([]any)
		if len(forms) != 3 {
			t.Fatalf("forms %v", forms)
		}
		vectors, share, whole := forms[0].(line), forms[1].(line), forms[2].(line)
		if whole["form"] != "products" || whole["chosen"] != true || number(t, whole, "rows") != 2100 || number(t, whole, "ridge") <= 0 {
			t.Errorf("form %v, want products of all rows, chosen", whole)
		}
		if vectors["form"] != "basis_vectors" || number(t, vectors, "rows") != 2000 || number(t, share, "rows") != 2000 ||
			number(t, share, "accuracy") < number(t, vectors, "accuracy") {
			t.Errorf("forms %v and %v on a share, want products to be better", vectors, share)
		}
		if number(t, summary, "k") != number(t, whole, "k") || get(summary, "gap") != nil || number(t, summary, "test.accuracy") < 0.95 ||
			number(t, summary, "baselines.linear.accuracy") > 0.7 {
			t.Errorf("summary %v", summary)
		}
		ref := SnapshotRef{Versions: Versions{Store: get(summary, "snapshot.store").(string), Model: "toy"}}
		evaluated, err := collect(t, func(out *report.Emitter) error {
			return Eval(EvalOptions{Snapshot: ref, Data: testPath, Format: dataset.LIBSVM, Now: clock}, out)
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"n", "loss", "accuracy"} {
			if got, want := number(t, last(evaluated), "metrics."+name), number(t, summary, "test."+name); math.Abs(got-want) > 1e-9 {
				t.Errorf("the published version has %s %g on the test rows, the summary says %g", name, got, want)
			}
		}
		if again := last(run(linear, 2)); get(again, "snapshot.payload_digest") != get(summary, "snapshot.payload_digest") {
			t.Errorf("with two threads digest %v, with one %v", get(again, "snapshot.payload_digest"), get(summary, "snapshot.payload_digest"))
		}
	}
}

// TestFitComparesProducts: of few rows the path runs over all of them, and products are chosen if they have fewer
// errors on the validation part by a standard error. A fit with a given path, strength or without a feature map
func TestFitComparesProducts(t *testing.T) {
	tier.NotUnderRace(t)
	path := writeFile(t, "toy", ratingLines(600, 1, quadrant))
	for _, most := range []int{1, 6} {
		o := fitOptions(t, dataset.LIBSVM, "", path)
		o.Model.Train.MaxBasis = most
		summary := last(fitLines(t, o))
		forms, _ := get(summary, "forms").([]any)
		if len(forms) != 2 {
			t.Fatalf("forms %v", forms)
		}
		whole, vectors := forms[0].(line), forms[1].(line)
		if whole["form"] != "products" || vectors["form"] != "basis_vectors" || number(t, whole, "rows") != 300 || number(t, vectors, "rows") != 300 {
			t.Errorf("forms %v and %v", whole, vectors)
		}
		if whole["chosen"] == vectors["chosen"] || whole["chosen"] == true && number(t, whole, "accuracy") <= number(t, vectors, "accuracy") {
			t.Errorf("forms %v and %v: want products where they are more accurate", whole, vectors)
		}
		if most == 1 && whole["chosen"] != true {
			t.Errorf("one basis vector was chosen: %v and %v", whole, vectors)
		}
	}
	for name, change := range map[string]func(*FitOptions){
		"many":     func(o *FitOptions) { o.Split = dataset.Fractions{Train: 0.05, Valid: 0.5, Test: 0.45} },
		"no map":   func(o *FitOptions) { o.Model.Train.FeatureMap = "" },
		"strength": func(o *FitOptions) { o.Lambdas = []float64{5} },
		"thorough": func(o *FitOptions) { o.Thorough = true },
		"steps":    func(o *FitOptions) { o.MaxSteps = 1 },
		"anova":    func(o *FitOptions) { o.Model.Train.Kernel, o.Model.Train.Augment = "anova", "false" },
		"numbers":  func(o *FitOptions) { o.Model.Schema.Task = "regression" },
	} {
		o := fitOptions(t, dataset.LIBSVM, "", path)
		o.Model.Train.MaxBasis = 2
		change(&o)
		if lines := fitLines(t, o); get(last(lines), "forms") != nil || len(lines) < 3 {
			t.Errorf("%s: %d lines, forms %v", name, len(lines), get(last(lines), "forms"))
		}
	}
}
