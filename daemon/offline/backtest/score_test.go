package backtest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/evaluate"
	"github.com/refitd/refitd/daemon/offline/fit/fittest"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// TestScoreWithHistory: a history changes what is said of its user as the library's overlay says, and is refused with
// its line.
func TestScoreWithHistory(t *testing.T) {
	m := offlinetest.Configured(t)
	m.Train.Refit, m.Train.FoldIn.By = "variational", []string{"user"}
	store := t.TempDir()
	var moved []string
	for _, line := range offlinetest.Ratings(3000, 1) { // many users of few events, so that the variational stage wins
		f := strings.Split(line, "\t")
		f[0] += "-" + f[3][len(f[3])-1:]
		moved = append(moved, strings.Join(f, "\t"))
	}
	if _, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return Run(t.Context(), Options{Model: m, Data: offlinetest.WriteFile(t, "u.data", strings.Join(moved, "\n")),
			Format: dataset.MovieLens,
			Order:  dataset.TimeOrder, Store: store, Now: offlinetest.Clock}, out)
	}); err != nil {
		t.Fatal(err)
	}
	version, err := snapshot.Open(store, "toy", snapshot.Selector{Alias: snapshot.Latest})
	if err != nil {
		t.Fatal(err)
	}
	v := version.Manifest().Version
	held := 0
	run := func(history string) ([]offlinetest.Line, error) {
		return offlinetest.Collect(t, func(out *report.Emitter) error {
			var from io.Reader
			if history != "" {
				from = strings.NewReader(history)
			}
			ref := offline.SnapshotRef{Versions: offline.Versions{Store: store, Model: "toy"}, Version: v}
			return evaluate.Score(t.Context(), ref, evaluate.ScoreOptions{History: from, HistoryHeld: held},
				strings.NewReader(`{"user":"nobody","item":"i1"}`), out)
		})
	}
	var history strings.Builder
	var events []snapshot.LabelledEvent
	for i := range 10 {
		item := fmt.Sprint("i", i)
		fmt.Fprintf(&history, `{"user":"nobody","item":%q,"rating":5}`+"\n", item)
		events = append(events,
			snapshot.LabelledEvent{Input: snapshot.Input{Categorical: []string{"nobody", item}}, Label: 5})
	}
	over, err := version.Fold(events)
	if err != nil {
		t.Fatal(err)
	}
	want, err := over.Predict(&snapshot.Input{Categorical: []string{"nobody", "i1"}})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := run("")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := run(history.String())
	if err != nil || len(lines) != 2 {
		t.Fatalf("%v, %v", lines, err)
	}
	got := offlinetest.Number(t, lines[0], "prediction")
	if got != want.Value || !(got > offlinetest.Number(t, plain[0], "prediction")) ||
		offlinetest.Number(t, lines[1], "folded") != 10 ||
		len(lines[0]["unseen"].([]any)) != 0 {
		t.Errorf("%v, %v without a history, the library says %g", lines, plain, want.Value)
	}
	for text, bad := range map[string]string{"line 11: missing_field": `{"user":"nobody","item":"i1"}`,
		"line 11: not_json":                     `{`,
		"line 1001: a history has at most 1000": strings.Repeat(`{"user":"nobody","item":"i1","rating":4}`+"\n", 991)} {
		_, err := run(history.String() + bad)
		if report.CodeOf(err) != report.ExitUsage || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %s", err, text)
		}
	}
	held = 11
	_, err = run(history.String())
	if report.CodeOf(err) != report.ExitUsage ||
		!strings.Contains(err.Error(), "--history-held is 11: a whole number from 0 to 10") {
		t.Errorf("more events held than there are: %v", err)
	}
	label := func(a, b float64) string { return map[bool]string{true: "1", false: "0"}[a*b > 0] }
	o := fittest.Options(t, dataset.LIBSVM, "binary",
		offlinetest.WriteFile(t, "numbers", offlinetest.RatingLines(200, 6, label)))
	o.Model.Train.MaxBasis, o.Lambdas, o.Store = 3, []float64{1}, t.TempDir()
	fittest.Lines(t, o)
	_, err = offlinetest.Collect(t, func(out *report.Emitter) error {
		history := strings.NewReader(`{"1":0.9,"2":0.9,"3":0,"4":0.5,"label":1}`)
		return evaluate.Score(t.Context(),
			offline.SnapshotRef{Versions: offline.Versions{Store: o.Store, Model: "toy"}},
			evaluate.ScoreOptions{History: history}, strings.NewReader(""), out)
	})
	if report.CodeOf(err) != report.ExitUsage || !errors.Is(err, snapshot.ErrNoFoldIn) {
		t.Errorf("a version of numbers: %v, want %v", err, snapshot.ErrNoFoldIn)
	}
}
