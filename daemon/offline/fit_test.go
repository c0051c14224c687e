package offline

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/report"
)

// TestFitTestIsEvalOfTestRows publishes a fit and evaluates the version, through the snapshot library, on the rows that the split put
// aside: METRICS must be those of the summary.
func TestFitTestIsEvalOfTestRows(t *testing.T) {
	ref, summary, text := published(t)
	split := dataset.SplitRandom(len(text), dataset.Fractions{Train: 0.5, Valid: 0.25, Test: 0.25}, 1)
	slices.Sort(split.Test)
	var test strings.Builder
	for _, i := range split.Test {
		fmt.Fprintln(&test, text[i])
	}
	lines, err := collect(t, func(out *report.Emitter) error {
		return Eval(EvalOptions{Snapshot: ref, Data: writeFile(t, "test.data", test.String()), Format: dataset.MovieLens, Now: clock}, out)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"n", "loss", "rmse", "mae", "ndcg_1", "ndcg_5"} {
		if got, want := number(t, summary, "test."+name), number(t, last(lines), "metrics."+name); math.Abs(got-want) > 1e-9 {
			t.Errorf("test %s is %g, eval of the same rows says %g", name, got, want)
		}
	}
	if got, want := get(last(lines), "payload_digest"), get(summary, "snapshot.payload_digest"); got != want {
		t.Errorf("payload digest %v, fit published %v", got, want)
	}
	wantGlobal, wantItem := meansTwin(text, split)
	if got := number(t, summary, "baselines.global_mean.rmse"); math.Abs(got-wantGlobal) > 1e-9 || get(summary, "baselines.global_mean.loss") != nil {
		t.Errorf("global mean rmse %g, by hand %g", got, wantGlobal)
	}
	if got := number(t, summary, "baselines.item_mean.rmse"); math.Abs(got-wantItem) > 1e-9 {
		t.Errorf("item mean rmse %g, by hand %g", got, wantItem)
	}
	test4, linear := number(t, summary, "test.rmse"), number(t, summary, "baselines.linear.rmse")
	mean, item := number(t, summary, "baselines.global_mean.rmse"), number(t, summary, "baselines.item_mean.rmse")
	if !(test4 < linear && linear < item && item < mean) {
		t.Errorf("rmse %g, linear %g, item mean %g, global mean %g: want this order", test4, linear, item, mean)
	}
	if n := number(t, summary, "n_train") + number(t, summary, "n_valid") + number(t, summary, "n_test"); n != float64(len(text)) {
		t.Errorf("the parts have %g rows of %d", n, len(text))
	}
}

// meansTwin computes the test rmse of the mean rating and of the mean rating of each item of the training rows.
func meansTwin(text []string, split dataset.Parts) (global, item float64) {
	columns := func(i int) (name string, rating float64) {
		c := strings.Split(text[i], "\t")
		return c[1], float64(c[2][0] - '0')
	}
	sum, count := make(map[string]float64), make(map[string]float64)
	for _, i := range split.Train {
		item, rating := columns(i)
		for _, name := range []string{"", item} {
			sum[name] += rating
			count[name]++
		}
	}
	for _, i := range split.Test {
		name, rating := columns(i)
		mean := sum[""] / count[""]
		global += (mean - rating) * (mean - rating)
		if count[name] > 0 {
			mean = sum[name] / count[name]
		}
		item += (mean - rating) * (mean - rating)
	}
	n := float64(len(split.Test))
	return math.Sqrt(global / n), math.Sqrt(item / n)
}

// TestFitChoosesOnValidation checks the choice against the step lines and that equal options give equal models.
func TestFitChoosesOnValidation(t *testing.T) {
	path := writeFile(t, "u.data", strings.Join(ratings(1200, 2), "\n"))
	run := func(threads int) []line {
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
		lambdas[number(t, l, "lambda")] = true
		if rmse := number(t, l, "valid.rmse"); rmse < best {
			best, lambda = rmse, number(t, l, "lambda")
		}
	}
	summary := last(lines)
	if len(lambdas) != 2 || !lambdas[8] {
		t.Errorf("tried lambdas %v, want 2 and 8", lambdas)
	}
	// The summary's model is the best step refitted to the optimum of its basis, which the validation rows need not like better.
	if got := number(t, summary, "valid.rmse"); got > 1.005*best || number(t, summary, "lambda") != lambda {
		t.Errorf("chose validation rmse %g with lambda %v, a step had %g with lambda %g", got, summary["lambda"], best, lambda)
	}
	if again := last(run(2)); get(again, "snapshot.payload_digest") != get(summary, "snapshot.payload_digest") {
		t.Errorf("another run with 2 threads: digest %v, first %v", get(again, "snapshot.payload_digest"), get(summary, "snapshot.payload_digest"))
	}
}

// TestFitPolishesTheChosen: strengths are compared roughly, and the chosen model is what a thorough fit has, certified.
func TestFitPolishesTheChosen(t *testing.T) {
	path := writeFile(t, "toy", ratingLines(400, 1, quadrant))
	run := func(thorough bool) line {
		o := fitOptions(t, dataset.LIBSVM, "", path)
		o.Model.Train.MaxBasis, o.Lambdas, o.Thorough = 3, []float64{1, 20}, thorough
		return last(fitLines(t, o))
	}
	rough, thorough := run(false), run(true)
	if get(rough, "lambda") != get(thorough, "lambda") || get(rough, "gap_kind") != "certified" {
		t.Errorf("lambda %v with a %v gap, thorough %v", rough["lambda"], rough["gap_kind"], thorough["lambda"])
	}
	if got, want := number(t, rough, "objective"), number(t, thorough, "objective"); math.Abs(got-want) > 0.02*want {
		t.Errorf("objective %g, thorough %g", got, want)
	}
}

func quadrant(a, b float64) string { return map[bool]string{true: "10", false: "9"}[a*b > 0] }

func TestFitLIBSVM(t *testing.T) {
	for _, c := range []struct {
		name, task, text string
		good             func(t *testing.T, summary line) bool
	}{
		{"multiclass", "", ratingLines(300, 1, quadrant), func(t *testing.T, s line) bool {
			return number(t, s, "outputs") == 2 && number(t, s, "test.accuracy") > 0.85 && number(t, s, "baselines.linear.accuracy") < 0.7
		}},
		{"binary", "binary", ratingLines(300, 2, func(a, b float64) string { return map[bool]string{true: "+1", false: "-1"}[a*b > 0] }),
			func(t *testing.T, s line) bool { return number(t, s, "test.accuracy") > 0.85 }},
		{"regression", "regression", ratingLines(300, 3, func(a, b float64) string { return fmt.Sprintf("%.4f", 50+100*a*b) }),
			func(t *testing.T, s line) bool {
				return number(t, s, "test.rmse") < 10 && number(t, s, "baselines.linear.rmse") > 20 && number(t, s, "baselines.global_mean.rmse") > 20
			}},
		{"ordinal", "ordinal", ratingLines(300, 4, func(a, b float64) string { return fmt.Sprint(2 + int(math.Round(1.4*a))) }),
			func(t *testing.T, s line) bool {
				return number(t, s, "outputs") == 2 && number(t, s, "test.rmse") < 0.5
			}},
		{"multilabel", "multilabel", ratingLines(300, 5, func(a, b float64) string {
			return map[bool]string{true: "a", false: "b"}[a > 0] + map[bool]string{true: ",c", false: ""}[b > 0]
		}), func(t *testing.T, s line) bool {
			return number(t, s, "outputs") == 3 && number(t, s, "test.accuracy") > 0.7
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := fitOptions(t, dataset.LIBSVM, c.task, writeFile(t, "toy", c.text))
			o.Model.Train.MaxBasis, o.Lambdas, o.Store = 4, []float64{1, 5}, t.TempDir()
			s := last(fitLines(t, o))
			if !c.good(t, s) {
				t.Errorf("summary %v", s)
			}
			if number(t, s, "features") != 5 { // four columns and the constant
				t.Errorf("%v features", s["features"])
			}
			if get(s, "baselines.item_mean") != nil {
				t.Error("item_mean without items")
			}
			lines, err := collect(t, func(out *report.Emitter) error {
				return Eval(EvalOptions{Snapshot: SnapshotRef{Versions: Versions{Store: o.Store, Model: "toy"}}, Data: o.Data, Format: o.Format, Now: clock}, out)
			})
			if err != nil || number(t, last(lines), "metrics.n") != 300 || number(t, last(lines), "seen.n") != 300 {
				t.Errorf("eval %v, %v", lines, err)
			}
		})
	}
}

func TestClassesInOrder(t *testing.T) {
	o := fitOptions(t, dataset.LIBSVM, "", writeFile(t, "toy", "10 1:1\n9 1:0\n9 1:2\n"))
	if _, err := readParts(&o, report.NewEmitter(io.Discard, true)); err != nil {
		t.Fatal(err)
	}
	if got := o.Model.Schema.Classes; !slices.Equal(got, []string{"9", "10"}) {
		t.Errorf("classes %q, want them in the order of their numbers", got)
	}
	o = fitOptions(t, dataset.LIBSVM, "", writeFile(t, "toy", "10 1:1\n9 1:0\n9a 1:2\n"))
	if _, err := readParts(&o, report.NewEmitter(io.Discard, true)); err != nil {
		t.Fatal(err)
	}
	if got := o.Model.Schema.Classes; !slices.Equal(got, []string{"10", "9", "9a"}) {
		t.Errorf("classes %q, want them in the order of their text", got)
	}
}

func TestParts(t *testing.T) {
	path := writeFile(t, "u.data", strings.Join(ratings(400, 3), "\n"))
	other := writeFile(t, "other.data", strings.Join(ratings(100, 4), "\n"))
	o := fitOptions(t, dataset.MovieLens, "", path)
	o.SplitByTime = true
	p, err := readParts(&o, report.NewEmitter(io.Discard, true))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.train) != 200 || len(p.valid) != 100 || len(p.test) != 100 {
		t.Fatalf("%d, %d and %d rows", len(p.train), len(p.valid), len(p.test))
	}
	for _, pair := range []struct{ newest, oldest int64 }{{p.train[0].Time, p.valid[0].Time}, {p.valid[0].Time, p.test[0].Time}} {
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
		p, err := readParts(&o, report.NewEmitter(io.Discard, true))
		if err != nil {
			t.Fatal(err)
		}
		if got := [3]int{len(p.train), len(p.valid), len(p.test)}; got != c.want {
			t.Errorf("valid %q, test %q: parts of %v rows, want %v", c.valid, c.test, got, c.want)
		}
	}
}

func TestFitWithoutValidationOrTest(t *testing.T) {
	o := fitOptions(t, dataset.MovieLens, "", writeFile(t, "u.data", strings.Join(ratings(300, 5), "\n")))
	o.Split, o.Lambdas, o.MaxSteps = dataset.Fractions{Train: 1}, []float64{5}, 2
	lines := fitLines(t, o)
	if s := last(lines); s["valid"] != nil || s["test"] != nil || s["snapshot"] != nil || number(t, s, "n_train") != 300 {
		t.Errorf("summary %v", s)
	}
	if lines[0]["valid"] != nil || len(lines) > 4 {
		t.Errorf("steps %v", lines[:len(lines)-1])
	}
}

func TestFitInterrupted(t *testing.T) {
	o := fitOptions(t, dataset.MovieLens, "", writeFile(t, "u.data", strings.Join(ratings(300, 5), "\n")))
	o.Store = filepath.Join(t.TempDir(), "store")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lines, err := collect(t, func(out *report.Emitter) error { return Fit(ctx, o, out) })
	if err != nil || last(lines)["status"] != "interrupted" {
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
		path := writeFile(t, "ratings.csv", text)
		m, err := FitModel("toy", dataset.MovieLens, "", path)
		if err != nil || m.Schema.Levels != levels || m.Schema.Time != "ts" {
			t.Fatalf("%+v, %v, want %d levels", m.Schema, err, levels)
		}
		if set, err := ReadEvents(m, path, dataset.MovieLens, TableOptions{}, nil); err != nil || len(set.Examples) != 400 {
			t.Errorf("%d levels: %v, %v", levels, set.Skipped.String(), err)
		}
	}
}

func TestFitRefuses(t *testing.T) {
	ratingFile := writeFile(t, "u.data", "u1\ti1\t5\nu2\ti1\t4\nu1\ti2\t3\n")
	var numbers strings.Builder
	for i := range maxFoundClasses + 1 {
		fmt.Fprintf(&numbers, "%d.5 1:1\n", i)
	}
	for _, c := range []struct {
		name   string
		format dataset.Format
		path   string
		change func(*FitOptions)
		words  []string
	}{
		{"too many numbers", dataset.LIBSVM, writeFile(t, "wide", "1 1:1\n2 50000000:1\n"), nil, []string{"2 rows of 50000000 numeric columns", "jsonl"}},
		{"too many classes", dataset.LIBSVM, writeFile(t, "numbers", numbers.String()), nil, []string{"1001 different values", "--task regression"}},
		{"one class", dataset.LIBSVM, writeFile(t, "one", "1 1:1\n1 1:2\n1 1:3\n1 1:4\n"), nil, []string{"schema.classes"}},
		{"no times", dataset.MovieLens, ratingFile, func(o *FitOptions) { o.SplitByTime = true }, []string{"--split-by time"}},
		{"variational squares", dataset.MovieLens, ratingFile, func(o *FitOptions) { o.Model.Train.Kernel, o.Model.Train.Refit = "homogeneous", "variational" },
			[]string{"--refit"}},
		{"no file", dataset.MovieLens, ratingFile, func(o *FitOptions) { o.Test = "none" }, []string{"none"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := fitOptions(t, c.format, "", c.path)
			if c.change != nil {
				c.change(&o)
			}
			_, err := collect(t, func(out *report.Emitter) error { return Fit(t.Context(), o, out) })
			wantExit(t, err, report.ExitUsage, c.words...)
		})
	}
	_, err := FitModel("", dataset.JSONL, "", ratingFile)
	wantExit(t, err, report.ExitUsage, "--config.file")
}

// TestFitVowel fits the vowels of one set of speakers and tests on other speakers (Deterding 1989).
func TestFitVowel(t *testing.T) {
	dir := shared(t, "data/vowel")
	o := fitOptions(t, dataset.LIBSVM, "", filepath.Join(dir, "vowel.scale"))
	o.Test, o.Model.Train.Penalty, o.Lambdas = filepath.Join(dir, "vowel.scale.t"), "l1l2", []float64{17}
	s := last(fitLines(t, o))
	if number(t, s, "n_test") != 462 || number(t, s, "outputs") != 11 || number(t, s, "features") != 11 {
		t.Errorf("summary %v", s)
	}
	if got, linear := number(t, s, "test.accuracy"), number(t, s, "baselines.linear.accuracy"); got < 0.5 || got < linear {
		t.Errorf("accuracy %g, linear %g", got, linear)
	}
}

// shared returns a directory of the shared material next to the project, or skips the test.
func shared(t *testing.T, name string) string {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		root = filepath.Dir(root)
	}
	dir := filepath.Join(root, "..", "shared", name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no shared data: %v", err)
	}
	return dir
}

// TestLearnedRows: a fit says from how many rows the tested model has learned, and eval from how many the version may have: those whose names it knows,
// unless they are later than all that it has learned from.
func TestLearnedRows(t *testing.T) {
	text := ratings(1600, 1)
	data := writeFile(t, "u.data", strings.Join(text, "\n"))
	o := fitOptions(t, dataset.MovieLens, "", data)
	o.Store, o.Lambdas, o.Model.Train.MaxBasis, o.SplitByTime = t.TempDir(), []float64{10}, 4, true
	summary := last(fitLines(t, o))
	train, valid := number(t, summary, "n_train"), number(t, summary, "n_valid")
	want := train
	if n, ok := summary["held_out_sweeps"].(float64); ok && n > 0 {
		want += valid
	}
	if got := number(t, summary, "n_learned"); got != want || valid == 0 {
		t.Errorf("fit: learned from %g rows, want %g of %g and %g", got, want, train, valid)
	}
	parts, err := readParts(&o, report.NewEmitter(io.Discard, true))
	if err != nil {
		t.Fatal(err)
	}
	watermark := parts.watermark()
	eval := func(name, field string, format dataset.Format, lines []string) line {
		t.Helper()
		out, err := collect(t, func(out *report.Emitter) error {
			ref := SnapshotRef{Versions: Versions{Store: o.Store, Model: "toy"}}
			return Eval(EvalOptions{Snapshot: ref, Data: writeFile(t, name, strings.Join(lines, "\n")), Format: format, Time: field, TimeUnit: "s",
				Now: clock}, out)
		})
		if err != nil {
			t.Fatal(err)
		}
		return last(out)
	}
	var past, later, untimed []string
	for _, row := range text {
		c := strings.Split(row, "\t")
		if seconds, err := strconv.ParseInt(c[3], 10, 64); err != nil {
			t.Fatal(err)
		} else if seconds*1000 > watermark {
			later = append(later, row)
		} else {
			past = append(past, row)
		}
		untimed = append(untimed, fmt.Sprintf(`{"user":%q,"item":%q,"rating":%s,"at":%s}`, c[0], c[1], c[2], c[3]))
	}
	if s := eval("past.data", "", dataset.MovieLens, past); number(t, s, "maybe_learned") != number(t, s, "seen.n") || number(t, s, "seen.n") < train {
		t.Errorf("learned rows: %v of %v", s["maybe_learned"], s["seen"])
	}
	if s := eval("later.data", "", dataset.MovieLens, later); number(t, s, "maybe_learned") != 0 || number(t, s, "seen.n") == 0 {
		t.Errorf("later rows: %v of %v", s["maybe_learned"], s["seen"])
	}
	if s := eval("untimed.jsonl", "", dataset.JSONL, untimed); number(t, s, "maybe_learned") != number(t, s, "seen.n") {
		t.Errorf("rows whose time is not read: %v of %v", s["maybe_learned"], s["seen"])
	}
	if s := eval("timed.jsonl", "at", dataset.JSONL, untimed); number(t, s, "maybe_learned") != float64(len(past)) {
		t.Errorf("rows whose time is read: %v of %v, want %d", s["maybe_learned"], s["seen"], len(past))
	}
}
