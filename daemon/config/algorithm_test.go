package config

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/refitd/refitd/solver/margin"
)

// TestAlgorithms: each algorithm takes the tasks it has a loss for, and what it has no use for is refused with what to
// write.
func TestAlgorithms(t *testing.T) {
	rating := "schema: {task: ordinal, label: rating, levels: 5, time: ts, time_unit: ms, categorical: [user, item]}"
	train := "train: {every: 5s, every_events: 5000, max_basis: 20, penalty: l1linf, lambda: auto, solver: hybrid, " +
		"fold_in: {by: [user]}}"
	classes := "schema: {task: multiclass, label: l, classes: [a, b, c], categorical: [u, v]}"
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "costs.csv")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, c := range []struct{ schema, train, key, says string }{
		{"", "algorithm: convex_fm", "", ""},
		{"", "algorithm: coordinate_descent", "", ""},
		{"", "algorithm: coordinate_descent, penalty: l1l2", "", ""},
		{"", "algorithm: coordinate_descent, degree: 3, kernel: homogeneous", "", ""},
		{"", "algorithm: convexfm", "algorithm", "convex_fm"},
		{"", "algorithm: convex_fm, penalty: l1", "penalty", "train.lambda"},
		{"", "algorithm: convex_fm, solver: newton", "solver", "train.refit"},
		{"", "variational_basis: 20", "", ""},
		{"", "variational_basis: 21", "variational_basis", "max_basis, which is 20"},
		{"", "variational_basis: 20, refit: output", "variational_basis", "variational"},
		{"", "algorithm: coordinate_descent, new_basis: 7", "new_basis", "train.max_basis"},
		{"", "algorithm: coordinate_descent, refit: full", "refit", "auto"},
		{"", "refit: line_search", "", ""},
		{"", "refit: line_search, degree: 3, kernel: homogeneous", "", ""},
		{"", "refit: linesearch", "refit", "line_search"},
		{"", "algorithm: convex_fm, refit: line_search", "refit", "auto"},
		{"", "algorithm: convex_fm, degree: 3", "degree", "convex_fm"},
		{"", "algorithm: convex_fm, loss: binary_logistic", "loss", "squared"},
		{"", "algorithm: coordinate_descent, degree: 3", "degree", "2 fields"},
		{"", "top_k: 3", "top_k", "frank_wolfe_svm"},
		{"", "degree: 3, kernel: homogeneous, refit: full", "", ""},
		{"", "degree: 3", "degree", "2 fields"},
		{"schema: {task: regression, label: l, categorical: [u, v, w]}", "degree: 3", "", ""},
		{"", "degree: 4", "degree", "from 2 to 3"},
		{"schema: {task: multiclass, label: l, classes: [a, b, c], categorical: [u, v]}", "algorithm: convex_fm", "algorithm",
			"coordinate_descent"},
		{"schema: {task: binary, label: l, categorical: [u, v]}", "algorithm: convex_fm, loss: squared_hinge", "", ""},
		{"schema: {task: binary, label: l, categorical: [u, v]}", "loss: squared_hinge", "loss", "squared_hinge"},
		{"", "algorithm: frank_wolfe_svm", "algorithm", "coordinate_descent"},
		{classes, "algorithm: frank_wolfe_svm", "", ""},
		{classes, "algorithm: frank_wolfe_svm, loss: usunier, top_k: 2, moreau: 0.01", "", ""},
		{classes, "algorithm: frank_wolfe_svm, loss: usunier, top_k: 0", "top_k", "from 1"},
		{classes, "algorithm: frank_wolfe_svm, top_k: 2", "top_k", "one margin"},
		{classes, "algorithm: frank_wolfe_svm, moreau: -1", "moreau", "Moreau is -1"},
		{classes, "algorithm: frank_wolfe_svm, loss: mlogistic", "loss", "max_hinge"},
		{classes, "algorithm: frank_wolfe_svm, max_basis: 30", "max_basis", "features: basis"},
		{classes, "algorithm: frank_wolfe_svm, features: basis, max_basis: 30, new_basis: 2", "", ""},
		{classes, "algorithm: frank_wolfe_svm, features: products", "features", "basis"},
		{classes, "algorithm: frank_wolfe_svm, kernel: homogeneous", "kernel", "features: basis"},
		{classes, "algorithm: frank_wolfe_svm, kernel: anova", "", ""},
		{classes, "algorithm: frank_wolfe_svm, features: basis, kernel: homogeneous", "", ""},
		{classes, "algorithm: frank_wolfe_svm, linear: none", "linear", "is \"none\""},
		{classes, "algorithm: frank_wolfe_svm, loss: usunier, top_k: 3", "top_k", "from 1 to 2"},
		{classes, "algorithm: frank_wolfe_svm, loss: weighted_top_k, top_k: 4", "top_k", "from 1 to 2"},
		// which auto is for more classes
		{classes, "algorithm: frank_wolfe_svm, loss: top_k, top_k: 5", "top_k", "from 1 to 2"},
		{classes, "algorithm: frank_wolfe_svm, loss: top_k, top_k: auto", "", ""},
		{classes, "algorithm: frank_wolfe_svm, loss: top_k", "", ""},
		{classes, "algorithm: frank_wolfe_svm, loss: top_k, top_k: best", "top_k", "auto"},
		{classes, "algorithm: frank_wolfe_svm, loss: top_k, top_k: 10001", "top_k", "from 1"},
		{classes, "algorithm: frank_wolfe_svm, top_k: 5", "", ""},
		{"", "top_k: 5", "", ""}, // as the defaults were printed
		{classes, "features: basis", "features", "frank_wolfe_svm"},
		{classes, "loss: max_hinge", "loss", "smoothed_hinge"},
		{classes, "algorithm: frank_wolfe_svm, loss: structured", "cost", "of the costs"},
		{classes, "algorithm: frank_wolfe_svm, cost: " + file("0,1,2\n1,0,1\n2,1,0\n"), "cost", "structured"},
		{classes, "algorithm: frank_wolfe_svm, loss: structured, cost: " + file("0,1,2\n1,0,1\n2,1,0\n"), "", ""},
		{classes, "algorithm: frank_wolfe_svm, loss: structured, cost: " + file("a,b,c\n0,1,2\n1,0,1\n2,1,0\n"), "", ""},
		{classes, "algorithm: frank_wolfe_svm, loss: structured, cost: " + file("a,c,b\n0,1,2\n1,0,1\n2,1,0\n"), "cost",
			"in their order"},
		{classes, "algorithm: frank_wolfe_svm, loss: structured, cost: " + file("0,1\n1,0\n"), "cost", "3 classes"},
		{classes, "algorithm: frank_wolfe_svm, loss: structured, cost: " + file("0,1,2\n1,0,-1\n2,1,0\n"), "cost",
			"line 2, column 3"},
		{classes, "algorithm: frank_wolfe_svm, loss: structured, cost: " + file("0,1,2\n1,0,1\n2,1,5\n"), "cost",
			"line 3, column 3"},
		{classes, "algorithm: frank_wolfe_svm, loss: structured, cost: /nowhere/costs.csv", "cost", "exists"},
	} {
		text := strings.Replace(strings.ReplaceAll(smallest, ", baseline_by: item", ""), train, "train: {"+c.train+"}",
			1)
		if c.schema != "" {
			text = strings.Replace(text, rating, c.schema, 1)
		}
		_, problems := parse(t, text)
		switch {
		case c.key == "" && problems != nil:
			t.Errorf("%s %s: %+v", c.schema, c.train, problems)
		case c.key != "" && (len(problems) != 1 || problems[0].Key != "models[0].train."+c.key ||
			!strings.Contains(problems[0].Message+problems[0].Suggestion, c.says)):
			t.Errorf("%s %s: %+v, want one of %s that says %q", c.schema, c.train, problems, c.key, c.says)
		}
	}
}

// TestTopKIsWhatIsSaid: without a number weighted losses look at five margins, or at all there are of fewer classes,
// with weights that fall evenly.
func TestTopKIsWhatIsSaid(t *testing.T) {
	for _, c := range []struct {
		classes int
		k       TopK
		want    []float64
	}{{0, 0, []float64{5, 4, 3, 2, 1}}, {3, 0, []float64{2, 1}}, {6, 0, []float64{5, 4, 3, 2, 1}}, {26, 3, []float64{3, 2,
		1}}} {
		m := DefaultModel()
		m.Schema.Task, m.Train.Loss, m.Train.TopK = "multiclass", string(margin.WeightedUsunier), c.k
		for i := range c.classes {
			m.Schema.Classes = append(m.Schema.Classes, strconv.Itoa(i))
		}
		loss, total := m.marginLoss(), 0.0
		for _, w := range c.want {
			total += w
		}
		for j, w := range loss.Weights {
			if len(loss.Weights) != len(c.want) || math.Abs(w-c.want[j]/total) > 1e-15 {
				t.Fatalf("%d of %d classes: weights %v, want %v of %g", c.k, c.classes, loss.Weights, c.want, total)
			}
		}
		if loss.K != len(c.want) {
			t.Errorf("%d of %d classes: K is %d, want %d", c.k, c.classes, loss.K, len(c.want))
		}
	}
}

// TestChosenAlgorithmIsHashed: another algorithm, degree or cost matrix makes other versions; the default is as before
// there was a choice.
func TestChosenAlgorithmIsHashed(t *testing.T) {
	m := DefaultModel()
	m.Schema.Task, m.Schema.Label, m.Schema.Categorical = "regression", "y", []string{"u", "v", "w"}
	m.Resolve()
	before := m
	before.Train.Algorithm, before.Train.Degree, before.Train.TopK, before.Train.Features = "", 0, 0, ""
	if m.Hash() != before.Hash() {
		t.Error("a model of an earlier build has another hash")
	}
	hashes := map[string]bool{m.Hash(): true}
	for _, change := range []func(*Train){func(t *Train) { t.Algorithm = "convex_fm" }, func(t *Train) { t.Degree = 3 },
		func(t *Train) { t.Costs = [][]float64{{0, 1}, {2, 0}} }, func(t *Train) { t.TopK = 3 }, func(
			t *Train) {
			t.Features = BasisFeatures
		}} {
		other := m
		change(&other.Train)
		hashes[other.Hash()] = true
	}
	before.Train.TopK = 5
	if stored, err := DecodeStored(before.Stored()); err != nil || stored.Train.TopK != 5 || m.Hash() != before.Hash() {
		t.Errorf("k of an earlier build: %v, %v, another hash: %t", stored, err, m.Hash() != before.Hash())
	}
	if len(hashes) != 6 {
		t.Errorf("%d hashes of six settings", len(hashes))
	}
}
