package fit

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// TestFitChoosesOnValidation checks the choice against the step lines and that equal options give equal models.
func TestFitChoosesOnValidation(t *testing.T) {
	path := offlinetest.WriteFile(t, "u.data", strings.Join(offlinetest.Ratings(1200, 2), "\n"))
	run := func(threads int) []offlinetest.Line {
		o := fitOptions(t, dataset.MovieLens, "", path)
		o.Model.Train.Refit, o.Model.Train.MaxBasis, o.Lambdas, o.Store = "output", 4, []float64{2, 8}, t.TempDir()
		o.Model.Train.Threads = threads
		return fitLines(t, o)
	}
	lines := run(1)
	best, lambda := math.Inf(1), 0.0
	lambdas := make(map[float64]bool)
	for _, l := range lines[:len(lines)-1] {
		if l["type"] != "step" {
			t.Fatalf("line %v", l)
		}
		lambdas[offlinetest.Number(t, l, "lambda")] = true
		if rmse := offlinetest.Number(t, l, "valid.rmse"); rmse < best {
			best, lambda = rmse, offlinetest.Number(t, l, "lambda")
		}
	}
	summary := offlinetest.Last(lines)
	if len(lambdas) != 2 || !lambdas[8] {
		t.Errorf("tried lambdas %v, want 2 and 8", lambdas)
	}
	// The summary's model is the best step refitted to the optimum of its basis, which the validation rows need not
	// like better.
	if got := offlinetest.Number(t, summary, "valid.rmse"); got > 1.005*best ||
		offlinetest.Number(t, summary, "lambda") != lambda {
		t.Errorf("chose validation rmse %g with lambda %v, a step had %g with lambda %g", got, summary["lambda"], best,
			lambda)
	}
	if again := offlinetest.Last(run(2)); offlinetest.Get(again, "snapshot.payload_digest") != offlinetest.Get(summary,
		"snapshot.payload_digest") {
		t.Errorf("another run with 2 threads: digest %v, first %v", offlinetest.Get(again, "snapshot.payload_digest"),
			offlinetest.Get(summary, "snapshot.payload_digest"))
	}
}

// TestFitFractionsOfMax: a strength that is a fraction of λ_max says so by what enters: nothing above all of it, basis
// vectors below.
func TestFitFractionsOfMax(t *testing.T) {
	path := offlinetest.WriteFile(t, "toy", offlinetest.RatingLines(400, 1, offlinetest.Quadrant))
	o := fitOptions(t, dataset.LIBSVM, "", path)
	o.Model.Train.MaxBasis, o.Thorough = 2, true
	o.Lambdas, o.OfMax = []float64{1.01, 0.1, 3}, []bool{true, true, false}
	largest := make(map[float64]float64) // k by λ
	for _, l := range fitLines(t, o) {
		if l["type"] == "step" {
			lambda := offlinetest.Number(t, l, "lambda")
			largest[lambda] = max(largest[lambda], offlinetest.Number(t, l, "k"))
		}
	}
	if len(largest) != 3 {
		t.Fatalf("tried %v", largest)
	}
	if _, given := largest[3]; !given {
		t.Errorf("3 is none of %v", largest)
	}
	top := slices.Max(slices.Collect(maps.Keys(largest)))
	tenth := slices.MinFunc(slices.Collect(maps.Keys(largest)), func(a, b float64) int {
		return cmp.Compare(math.Abs(a-top/10.1), math.Abs(b-top/10.1))
	})
	if largest[top] != 0 || largest[tenth] == 0 || math.Abs(tenth*10.1/top-1) > 1e-9 {
		t.Errorf("basis vectors by λ: %v, want none at 1.01 of λ_max and some at 0.1", largest)
	}
}

// TestFitPolishesTheChosen: strengths are compared roughly, and the chosen model is what a thorough fit has, certified.
func TestFitPolishesTheChosen(t *testing.T) {
	path := offlinetest.WriteFile(t, "toy", offlinetest.RatingLines(400, 1, offlinetest.Quadrant))
	run := func(thorough bool) offlinetest.Line {
		o := fitOptions(t, dataset.LIBSVM, "", path)
		o.Model.Train.MaxBasis, o.Lambdas, o.Thorough = 3, []float64{1, 20}, thorough
		return offlinetest.Last(fitLines(t, o))
	}
	rough, thorough := run(false), run(true)
	if offlinetest.Get(rough, "lambda") != offlinetest.Get(thorough, "lambda") ||
		offlinetest.Get(rough, "gap_kind") != "certified" {
		t.Errorf("lambda %v with a %v gap, thorough %v", rough["lambda"], rough["gap_kind"], thorough["lambda"])
	}
	if got, want := offlinetest.Number(t, rough, "objective"), offlinetest.Number(t, thorough, "objective"); math.Abs(
		got-want) > 0.02*want {
		t.Errorf("objective %g, thorough %g", got, want)
	}
}

func TestClassesInOrder(t *testing.T) {
	o := fitOptions(t, dataset.LIBSVM, "", offlinetest.WriteFile(t, "toy", "10 1:1\n9 1:0\n9 1:2\n"))
	if _, err := ReadParts(&o, report.NewEmitter(io.Discard, true)); err != nil {
		t.Fatal(err)
	}
	if got := o.Model.Schema.Classes; !slices.Equal(got, []string{"9", "10"}) {
		t.Errorf("classes %q, want them in the order of their numbers", got)
	}
	o = fitOptions(t, dataset.LIBSVM, "", offlinetest.WriteFile(t, "toy", "10 1:1\n9 1:0\n9a 1:2\n"))
	if _, err := ReadParts(&o, report.NewEmitter(io.Discard, true)); err != nil {
		t.Fatal(err)
	}
	if got := o.Model.Schema.Classes; !slices.Equal(got, []string{"10", "9", "9a"}) {
		t.Errorf("classes %q, want them in the order of their text", got)
	}
}

func TestParts(t *testing.T) {
	path := offlinetest.WriteFile(t, "u.data", strings.Join(offlinetest.Ratings(400, 3), "\n"))
	other := offlinetest.WriteFile(t, "other.data", strings.Join(offlinetest.Ratings(100, 4), "\n"))
	o := fitOptions(t, dataset.MovieLens, "", path)
	o.SplitByTime = true
	p, err := ReadParts(&o, report.NewEmitter(io.Discard, true))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.train) != 200 || len(p.valid) != 100 || len(p.test) != 100 {
		t.Fatalf("%d, %d and %d rows", len(p.train), len(p.valid), len(p.test))
	}
	for _, pair := range []struct{ newest, oldest int64 }{{p.train[0].Time, p.valid[0].Time}, {p.valid[0].Time,
		p.test[0].Time}} {
		if pair.newest >= pair.oldest || pair.newest < 1e9 {
			t.Errorf("times %d and %d: want later parts to be later", pair.newest, pair.oldest)
		}
	}
	for _, c := range []struct {
		valid, test string
		want        [3]int
	}{{other, "", [3]int{267, 100, 133}}, {"", other, [3]int{267, 133, 100}}, {other, other, [3]int{400, 100, 100}}} {
		o := fitOptions(t, dataset.MovieLens, "", path)
		o.Valid, o.Test = c.valid, c.test
		p, err := ReadParts(&o, report.NewEmitter(io.Discard, true))
		if err != nil {
			t.Fatal(err)
		}
		if got := [3]int{len(p.train), len(p.valid), len(p.test)}; got != c.want {
			t.Errorf("valid %q, test %q: parts of %v rows, want %v", c.valid, c.test, got, c.want)
		}
	}
}

func TestFitWithoutValidationOrTest(t *testing.T) {
	o := fitOptions(t, dataset.MovieLens, "",
		offlinetest.WriteFile(t, "u.data", strings.Join(offlinetest.Ratings(300, 5), "\n")))
	o.Split, o.Lambdas, o.MaxSteps = dataset.Fractions{Train: 1}, []float64{5}, 2
	lines := fitLines(t, o)
	if s := offlinetest.Last(lines); s["valid"] != nil || s["test"] != nil || s["snapshot"] != nil ||
		offlinetest.Number(t, s, "n_train") != 300 {
		t.Errorf("summary %v", s)
	}
	if lines[0]["valid"] != nil || len(lines) > 4 {
		t.Errorf("steps %v", lines[:len(lines)-1])
	}
}

func TestFitInterrupted(t *testing.T) {
	o := fitOptions(t, dataset.MovieLens, "",
		offlinetest.WriteFile(t, "u.data", strings.Join(offlinetest.Ratings(300, 5), "\n")))
	o.Store = filepath.Join(t.TempDir(), "store")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error { return Run(ctx, o, out) })
	if err != nil || offlinetest.Last(lines)["status"] != "interrupted" {
		t.Errorf("%v, %v", lines, err)
	}
	if _, err := os.Stat(o.Store); err == nil {
		t.Error("an interrupted fit was published")
	}
}

// TestFitHalfStars: ratings with half stars are ten levels without a configuration, too, and none is passed over.
func TestFitHalfStars(t *testing.T) {
	var whole, halves strings.Builder
	halves.WriteString("userId,movieId,rating,timestamp\n")
	for i := range 400 {
		fmt.Fprintf(&whole, "%d\t%d\t%d\t%d\n", i%20, i%13, 1+i%5, i)
		fmt.Fprintf(&halves, "%d,%d,%.1f,%d\n", i%20, i%13, 1+float64(i%9)/2, i)
	}
	for levels, text := range map[int]string{5: whole.String(), 10: halves.String()} {
		path := offlinetest.WriteFile(t, "ratings.csv", text)
		m, err := ModelOf("toy", dataset.MovieLens, "", path)
		if err != nil || m.Schema.Levels != levels || m.Schema.Time != "ts" {
			t.Fatalf("%+v, %v, want %d levels", m.Schema, err, levels)
		}
		if set, err := offline.ReadEvents(m, path, dataset.MovieLens, offline.TableOptions{}, nil); err != nil ||
			len(set.Examples) != 400 {
			t.Errorf("%d levels: %v, %v", levels, set.Skipped.String(), err)
		}
	}
}

func TestFitRefuses(t *testing.T) {
	ratingFile := offlinetest.WriteFile(t, "u.data", "u1\ti1\t5\nu2\ti1\t4\nu1\ti2\t3\n")
	var numbers strings.Builder
	for i := range maxFoundClasses + 1 {
		fmt.Fprintf(&numbers, "%d.5 1:1\n", i)
	}
	for _, c := range []struct {
		name   string
		format dataset.Format
		path   string
		change func(*Options)
		words  []string
	}{
		{"too many numbers", dataset.LIBSVM, offlinetest.WriteFile(t, "wide", "1 1:1\n2 50000000:1\n"), nil,
			[]string{"2 rows of 50000000 numeric columns", "jsonl"}},
		{"too many classes", dataset.LIBSVM, offlinetest.WriteFile(t, "numbers", numbers.String()), nil,
			[]string{"1001 different values", "--task regression"}},
		{"one class", dataset.LIBSVM, offlinetest.WriteFile(t, "one", "1 1:1\n1 1:2\n1 1:3\n1 1:4\n"), nil,
			[]string{"schema.classes"}},
		{"no times", dataset.MovieLens, ratingFile, func(o *Options) { o.SplitByTime = true }, []string{"--split-by time"}},
		{"variational squares", dataset.MovieLens, ratingFile, func(o *Options) {
			o.Model.Train.Kernel,
				o.Model.Train.Refit = "homogeneous", "variational"
		},
			[]string{"--refit"}},
		{"no file", dataset.MovieLens, ratingFile, func(o *Options) { o.Test = "none" }, []string{"none"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := fitOptions(t, c.format, "", c.path)
			if c.change != nil {
				c.change(&o)
			}
			_, err := offlinetest.Collect(t, func(out *report.Emitter) error { return Run(t.Context(), o, out) })
			offlinetest.WantExit(t, err, report.ExitUsage, c.words...)
		})
	}
	_, err := ModelOf("", dataset.JSONL, "", ratingFile)
	offlinetest.WantExit(t, err, report.ExitUsage, "--config.file")
}

// TestFitVowel fits the vowels of one set of speakers and tests on other speakers (Deterding 1989).
func TestFitVowel(t *testing.T) {
	dir := tier.Shared(t, "data", "vowel")
	o := fitOptions(t, dataset.LIBSVM, "", filepath.Join(dir, "vowel.scale"))
	o.Test, o.Model.Train.Penalty, o.Lambdas = filepath.Join(dir, "vowel.scale.t"), "l1l2", []float64{17}
	s := offlinetest.Last(fitLines(t, o))
	if offlinetest.Number(t, s, "n_test") != 462 || offlinetest.Number(t, s, "outputs") != 11 ||
		offlinetest.Number(t, s, "features") != 11 {
		t.Errorf("summary %v", s)
	}
	if got, linear := offlinetest.Number(t, s, "test.accuracy"), offlinetest.Number(t, s,
		"baselines.linear.accuracy"); got < 0.5 ||
		got < linear {
		t.Errorf("accuracy %g, linear %g", got, linear)
	}
}
