package evaluate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/fit/fittest"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// TestFitTakesProducts: where more basis vectors are needed than there may be, all products of the numbers win on a
// share of the rows, and the path over all of them is left out. What is published is an ordinary model that says the
// same of the test rows, whatever the threads.
func TestFitTakesProducts(t *testing.T) {
	tier.NotUnderRace(t)
	text := strings.Split(strings.TrimSpace(offlinetest.RatingLines(4200, 1, offlinetest.Quadrant)), "\n")
	path := offlinetest.WriteFile(t, "toy", strings.Join(text, "\n"))
	run := func(linear float64, threads int) []offlinetest.Line {
		o := fittest.Options(t, dataset.LIBSVM, "", path)
		o.Model.Train.MaxBasis, o.Model.Train.Linear, o.Model.Train.Threads, o.Store = 1, config.Linear(
			linear), threads, t.TempDir()
		return fittest.Lines(t, o)
	}
	split := dataset.SplitRandom(len(text), dataset.Fractions{Train: 0.5, Valid: 0.25, Test: 0.25}, 1)
	slices.Sort(split.Test)
	var test strings.Builder
	for _, i := range split.Test {
		fmt.Fprintln(&test, text[i])
	}
	testPath := offlinetest.WriteFile(t, "test", test.String())
	for _, linear := range []float64{0.5, 0} {
		lines := run(linear, 1)
		summary := offlinetest.Last(lines)
		if steps := offlinetest.OfType(lines, "step"); len(steps) != 1 || offlinetest.Number(t, steps[0], "k") != 0 {
			t.Errorf("steps %v, want the linear model's alone", steps)
		}
		forms, _ := offlinetest.Get(summary, "forms").([]any)
		if len(forms) != 3 {
			t.Fatalf("forms %v", forms)
		}
		vectors, share, whole := forms[0].(offlinetest.Line), forms[1].(offlinetest.Line), forms[2].(offlinetest.Line)
		if whole["form"] != "products" || whole["chosen"] != true || offlinetest.Number(t, whole, "rows") != 2100 ||
			offlinetest.Number(t, whole, "ridge") <= 0 {
			t.Errorf("form %v, want products of all rows, chosen", whole)
		}
		if vectors["form"] != "basis_vectors" || offlinetest.Number(t, vectors, "rows") != 2000 ||
			offlinetest.Number(t, share, "rows") != 2000 ||
			offlinetest.Number(t, share, "accuracy") < offlinetest.Number(t, vectors, "accuracy") {
			t.Errorf("forms %v and %v on a share, want products to be better", vectors, share)
		}
		if offlinetest.Number(t, summary, "k") != offlinetest.Number(t, whole, "k") ||
			offlinetest.Get(summary, "gap") != nil ||
			offlinetest.Number(t, summary, "test.accuracy") < 0.95 ||
			offlinetest.Number(t, summary, "baselines.linear.accuracy") > 0.7 {
			t.Errorf("summary %v", summary)
		}
		ref := offline.SnapshotRef{
			Versions: offline.Versions{Store: offlinetest.Get(summary, "snapshot.store").(string), Model: "toy"},
		}
		evaluated, err := offlinetest.Collect(t, func(out *report.Emitter) error {
			return Run(Options{Snapshot: ref, Data: testPath, Format: dataset.LIBSVM, Now: offlinetest.Clock}, out)
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"n", "loss", "accuracy"} {
			if got, want := offlinetest.Number(t, offlinetest.Last(evaluated), "metrics."+name), offlinetest.Number(t, summary,
				"test."+name); math.Abs(got-want) > 1e-9 {
				t.Errorf("the published version has %s %g on the test rows, the summary says %g", name, got, want)
			}
		}
		if again := offlinetest.Last(run(linear, 2)); offlinetest.Get(again,
			"snapshot.payload_digest") != offlinetest.Get(summary, "snapshot.payload_digest") {
			t.Errorf("with two threads digest %v, with one %v", offlinetest.Get(again, "snapshot.payload_digest"),
				offlinetest.Get(summary, "snapshot.payload_digest"))
		}
	}
}
