package evaluate

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/fit"
	"github.com/refitd/refitd/daemon/offline/fit/fittest"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// TestFitTestIsEvalOfTestRows publishes a fit and evaluates the version, through the snapshot library, on the rows that
// the split put aside: METRICS must be those of the summary.
func TestFitTestIsEvalOfTestRows(t *testing.T) {
	ref, summary, text := fittest.Published(t)
	split := dataset.SplitRandom(len(text), dataset.Fractions{Train: 0.5, Valid: 0.25, Test: 0.25}, 1)
	slices.Sort(split.Test)
	var test strings.Builder
	for _, i := range split.Test {
		fmt.Fprintln(&test, text[i])
	}
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return Run(
			Options{
				Snapshot: ref,
				Data:     offlinetest.WriteFile(t, "test.data", test.String()),
				Format:   dataset.MovieLens,
				Now:      offlinetest.Clock,
			},
			out,
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"n", "loss", "rmse", "mae", "ndcg_1", "ndcg_5"} {
		if got, want := offlinetest.Number(t, summary, "test."+name), offlinetest.Number(t, offlinetest.Last(lines),
			"metrics."+name); math.Abs(got-want) > 1e-9 {
			t.Errorf("test %s is %g, eval of the same rows says %g", name, got, want)
		}
	}
	if got, want := offlinetest.Get(offlinetest.Last(lines), "payload_digest"), offlinetest.Get(summary,
		"snapshot.payload_digest"); got != want {
		t.Errorf("payload digest %v, fit published %v", got, want)
	}
	wantGlobal, wantItem := meansTwin(text, split)
	if got := offlinetest.Number(t, summary, "baselines.global_mean.rmse"); math.Abs(got-wantGlobal) > 1e-9 ||
		offlinetest.Get(summary, "baselines.global_mean.loss") != nil {
		t.Errorf("global mean rmse %g, by hand %g", got, wantGlobal)
	}
	if got := offlinetest.Number(t, summary, "baselines.item_mean.rmse"); math.Abs(got-wantItem) > 1e-9 {
		t.Errorf("item mean rmse %g, by hand %g", got, wantItem)
	}
	test4, linear := offlinetest.Number(t, summary, "test.rmse"), offlinetest.Number(t, summary,
		"baselines.linear.rmse")
	mean, item := offlinetest.Number(t, summary, "baselines.global_mean.rmse"), offlinetest.Number(t, summary,
		"baselines.item_mean.rmse")
	if !(test4 < linear && linear < item && item < mean) {
		t.Errorf("rmse %g, linear %g, item mean %g, global mean %g: want this order", test4, linear, item, mean)
	}
	if n := offlinetest.Number(t, summary, "n_train") + offlinetest.Number(t, summary, "n_valid") + offlinetest.Number(t,
		summary, "n_test"); n != float64(len(text)) {
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

func TestFitLIBSVM(t *testing.T) {
	for _, c := range []struct {
		name, task, text string
		good             func(t *testing.T, summary offlinetest.Line) bool
	}{
		{"multiclass", "", offlinetest.RatingLines(300, 1, offlinetest.Quadrant), func(t *testing.T,
			s offlinetest.Line) bool {
			return offlinetest.Number(t, s, "outputs") == 2 && offlinetest.Number(t, s, "test.accuracy") > 0.85 &&
				offlinetest.Number(t, s, "baselines.linear.accuracy") < 0.7
		}},
		{"binary", "binary", offlinetest.RatingLines(300, 2, func(a, b float64) string {
			return map[bool]string{true: "+1",
				false: "-1"}[a*b > 0]
		}),
			func(t *testing.T, s offlinetest.Line) bool { return offlinetest.Number(t, s, "test.accuracy") > 0.85 }},
		{"regression", "regression", offlinetest.RatingLines(300, 3, func(a, b float64) string {
			return fmt.Sprintf("%.4f",
				50+100*a*b)
		}),
			func(t *testing.T, s offlinetest.Line) bool {
				return offlinetest.Number(t, s, "test.rmse") < 10 && offlinetest.Number(t, s, "baselines.linear.rmse") > 20 &&
					offlinetest.Number(t, s, "baselines.global_mean.rmse") > 20
			}},
		{"ordinal", "ordinal", offlinetest.RatingLines(300, 4, func(a, b float64) string {
			return fmt.Sprint(2 + int(
				math.Round(1.4*a)))
		}),
			func(t *testing.T, s offlinetest.Line) bool {
				return offlinetest.Number(t, s, "outputs") == 2 && offlinetest.Number(t, s, "test.rmse") < 0.5
			}},
		{"multilabel", "multilabel", offlinetest.RatingLines(300, 5, func(a, b float64) string {
			return map[bool]string{true: "a", false: "b"}[a > 0] + map[bool]string{true: ",c", false: ""}[b > 0]
		}), func(t *testing.T, s offlinetest.Line) bool {
			return offlinetest.Number(t, s, "outputs") == 3 && offlinetest.Number(t, s, "test.accuracy") > 0.7
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := fittest.Options(t, dataset.LIBSVM, c.task, offlinetest.WriteFile(t, "toy", c.text))
			o.Model.Train.MaxBasis, o.Lambdas, o.Store = 4, []float64{1, 5}, t.TempDir()
			s := offlinetest.Last(fittest.Lines(t, o))
			if !c.good(t, s) {
				t.Errorf("summary %v", s)
			}
			if offlinetest.Number(t, s, "features") != 5 { // four columns and the constant
				t.Errorf("%v features", s["features"])
			}
			if offlinetest.Get(s, "baselines.item_mean") != nil {
				t.Error("item_mean without items")
			}
			lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
				return Run(
					Options{
						Snapshot: offline.SnapshotRef{Versions: offline.Versions{Store: o.Store, Model: "toy"}},
						Data:     o.Data,
						Format:   o.Format,
						Now:      offlinetest.Clock,
					},
					out,
				)
			})
			if err != nil || offlinetest.Number(t, offlinetest.Last(lines), "metrics.n") != 300 ||
				offlinetest.Number(t, offlinetest.Last(lines), "seen.n") != 300 {
				t.Errorf("eval %v, %v", lines, err)
			}
		})
	}
}

// TestLearnedRows: a fit says from how many rows the tested model has learned, and eval from how many the version may
// have: those whose names it knows, unless they are later than all that it has learned from.
func TestLearnedRows(t *testing.T) {
	text := offlinetest.Ratings(1600, 1)
	data := offlinetest.WriteFile(t, "u.data", strings.Join(text, "\n"))
	o := fittest.Options(t, dataset.MovieLens, "", data)
	o.Store, o.Lambdas, o.Model.Train.MaxBasis, o.SplitByTime = t.TempDir(), []float64{10}, 4, true
	summary := offlinetest.Last(fittest.Lines(t, o))
	train, valid := offlinetest.Number(t, summary, "n_train"), offlinetest.Number(t, summary, "n_valid")
	want := train
	if n, ok := summary["held_out_sweeps"].(float64); ok && n > 0 {
		want += valid
	}
	if got := offlinetest.Number(t, summary, "n_learned"); got != want || valid == 0 {
		t.Errorf("fit: learned from %g rows, want %g of %g and %g", got, want, train, valid)
	}
	parts, err := fit.ReadParts(&o, report.NewEmitter(io.Discard, true))
	if err != nil {
		t.Fatal(err)
	}
	watermark := parts.Watermark()
	eval := func(name, field string, format dataset.Format, lines []string) offlinetest.Line {
		t.Helper()
		out, err := offlinetest.Collect(t, func(out *report.Emitter) error {
			ref := offline.SnapshotRef{Versions: offline.Versions{Store: o.Store, Model: "toy"}}
			return Run(
				Options{
					Snapshot: ref,
					Data:     offlinetest.WriteFile(t, name, strings.Join(lines, "\n")),
					Format:   format,
					Time:     field,
					TimeUnit: "s",
					Now:      offlinetest.Clock,
				},
				out,
			)
		})
		if err != nil {
			t.Fatal(err)
		}
		return offlinetest.Last(out)
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
	if s := eval("past.data", "", dataset.MovieLens, past); offlinetest.Number(t, s,
		"maybe_learned") != offlinetest.Number(t, s, "seen.n") ||
		offlinetest.Number(t, s, "seen.n") < train {
		t.Errorf("learned rows: %v of %v", s["maybe_learned"], s["seen"])
	}
	if s := eval("later.data", "", dataset.MovieLens, later); offlinetest.Number(t, s, "maybe_learned") != 0 ||
		offlinetest.Number(t, s, "seen.n") == 0 {
		t.Errorf("later rows: %v of %v", s["maybe_learned"], s["seen"])
	}
	if s := eval("untimed.jsonl", "", dataset.JSONL, untimed); offlinetest.Number(t, s,
		"maybe_learned") != offlinetest.Number(t, s, "seen.n") {
		t.Errorf("rows whose time is not read: %v of %v", s["maybe_learned"], s["seen"])
	}
	if s := eval("timed.jsonl", "at", dataset.JSONL, untimed); offlinetest.Number(t, s, "maybe_learned") != float64(
		len(past)) {
		t.Errorf("rows whose time is read: %v of %v, want %d", s["maybe_learned"], s["seen"], len(past))
	}
}
