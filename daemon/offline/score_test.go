package offline

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

func scored(t *testing.T, ref SnapshotRef, in io.Reader) ([]line, error) {
	t.Helper()
	return collect(t, func(out *report.Emitter) error { return Score(t.Context(), ref, ScoreOptions{}, in, out) })
}

// TestEvalAgreesWithScore recomputes METRICS from the lines that score prints for the same events.
func TestEvalAgreesWithScore(t *testing.T) {
	ref, _, text := published(t)
	text = append(text[:200:200], "stranger\ti1\t5\t1", "u1\tnovelty\t1\t2", "u1\ti1\t9\t3") // two unseen names, one level that does not exist
	var events strings.Builder
	var labels []float64
	for _, rating := range text[:202] {
		c := strings.Split(rating, "\t")
		fmt.Fprintf(&events, `{"user":%q,"item":%q}`+"\n", c[0], c[1])
		labels = append(labels, float64(c[2][0]-'0'))
	}
	lines, err := scored(t, ref, strings.NewReader(events.String()))
	if err != nil || len(lines) != 203 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	squares, deviations, unseen := 0.0, 0.0, 0
	for i, label := range labels {
		l := lines[i]
		if number(t, l, "line") != float64(i+1) || l["model"] != "toy" || number(t, l, "version") != 1 {
			t.Fatalf("line %v", l)
		}
		v := number(t, l, "prediction")
		squares, deviations = squares+(v-label)*(v-label), deviations+math.Abs(v-label)
		if len(l["unseen"].([]any)) > 0 {
			unseen++
		}
		if len(l["outputs"].([]any)) != 4 || len(l["probabilities"].([]any)) != 5 {
			t.Fatalf("line %v", l)
		}
	}
	if got := fmt.Sprint(lines[200]["unseen"], lines[201]["unseen"]); got != "[user=stranger] [item=novelty]" {
		t.Errorf("unseen %s", got)
	}
	lines, err = collect(t, func(out *report.Emitter) error {
		return Eval(EvalOptions{Snapshot: ref, Data: writeFile(t, "u.data", strings.Join(text, "\n")), Format: dataset.MovieLens, Now: clock}, out)
	})
	if err != nil {
		t.Fatal(err)
	}
	s := last(lines)
	for name, want := range map[string]float64{"metrics.n": 202, "metrics.rmse": math.Sqrt(squares / 202), "metrics.mae": deviations / 202,
		"unseen.n": float64(unseen), "seen.n": float64(202 - unseen), "rejected": 1} {
		if got := number(t, s, name); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %g, from the scores %g", name, got, want)
		}
	}
	if unseen < 2 {
		t.Errorf("%d events with unseen names", unseen)
	}
}

func TestRequirements(t *testing.T) {
	ref, _, text := published(t)
	data := writeFile(t, "u.data", strings.Join(text[:300], "\n"))
	eval := func(group string, required ...string) ([]line, error) {
		o := EvalOptions{Snapshot: ref, Data: data, Format: dataset.MovieLens, Group: group, Now: clock, Require: make([]Requirement, len(required))}
		for i, text := range required {
			if err := o.Require[i].UnmarshalText([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		return collect(t, func(out *report.Emitter) error { return Eval(o, out) })
	}
	if _, err := eval("", "rmse<=1", "n>=300", "n<301", "mae > 0.1", "ndcg_5>0.5", "ndcg_10>0.5", "recall_10>0.1"); err != nil {
		t.Error(err)
	}
	for _, required := range []string{"rmse<=0.01", "rmse<0.01", "n>300", "n>=301", "n<300"} {
		lines, err := eval("", "n>=1", required)
		wantExit(t, err, report.ExitNo, "required "+required)
		if len(lines) != 1 || lines[0]["type"] != "summary" {
			t.Errorf("%s: lines %v", required, lines)
		}
	}
	_, err := eval("", "accuracy>=0.5")
	wantExit(t, err, report.ExitUsage, "no accuracy", "n, loss, rmse, mae, ndcg_1, ndcg_5")
	_, err = eval("shop")
	wantExit(t, err, report.ExitUsage, "--group shop", "user")
	byUser, _ := eval("user")
	byItem, err := eval("item")
	if err != nil || number(t, byItem[0], "metrics.ndcg_5") == number(t, byUser[0], "metrics.ndcg_5") {
		t.Errorf("ranking by item is that by user: %v, %v", byItem, err)
	}
	for text, word := range map[string]string{"rmse": "no <=", "rmsd<=1": "n, loss, rmse", "rmse<=x": "number", "rmse<=NaN": "number", "": "no <="} {
		if err := new(Requirement).UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %v, want %q", text, err, word)
		}
	}
}

// TestRequirementsOfClasses: metrics of classes have bounds by their names, each recall by its class.
func TestRequirementsOfClasses(t *testing.T) {
	m := &report.Metrics{N: 10, AUC: report.Some(0.8), ECE: report.Some(0.02), EntropyNormalised: report.Some(0.7), KappaLast: report.Some(0.4),
		MacroF1:        report.Some(0.6),
		RecallPerClass: map[string]report.Number{"spam": 0.5, "a.b": 1}}
	for text, met := range map[string]bool{"auc>=0.8": true, "auc>0.8": false, "ece<=0.02": true, "entropy_normalised<1": true, "kappa_last>0.5": false,
		"macro_f1>=0.6":              true,
		"recall_per_class.spam>=0.5": true, "recall_per_class.spam>0.5": false, "recall_per_class.a.b>=1": true} {
		var r Requirement
		if err := r.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if missed, err := unmet([]Requirement{r}, m); err != nil || (missed == nil) != met {
			t.Errorf("%s: missed %v, error %v", text, missed, err)
		}
	}
	var r Requirement
	if err := r.UnmarshalText([]byte("recall_per_class.ham>=1")); err != nil {
		t.Fatal(err)
	}
	_, err := unmet([]Requirement{r}, m)
	wantExit(t, err, report.ExitUsage, "no recall_per_class.ham", "macro_f1, recall_per_class.a.b, recall_per_class.spam")
}

func TestSnapshotNotThere(t *testing.T) {
	ref, _, _ := published(t)
	for _, c := range []struct {
		ref  SnapshotRef
		code int
	}{
		{SnapshotRef{Versions: Versions{Store: t.TempDir(), Model: "toy"}}, report.ExitModel},
		{SnapshotRef{Versions: Versions{Store: ref.Store, Model: "other"}}, report.ExitModel},
		{SnapshotRef{Versions: Versions{Store: ref.Store, Model: "toy"}, Alias: "canary"}, report.ExitModel},
		{SnapshotRef{Versions: Versions{Store: ref.Store, Model: "toy"}, Version: 9}, report.ExitModel},
		{SnapshotRef{Versions: Versions{Store: ref.Store, Model: "../toy"}}, report.ExitUsage},
	} {
		_, err := scored(t, c.ref, strings.NewReader(""))
		wantExit(t, err, c.code)
		_, err = collect(t, func(out *report.Emitter) error { return InspectSnapshot(c.ref, out) })
		wantExit(t, err, c.code)
	}
}

func TestScoreInvalidLines(t *testing.T) {
	ref, _, _ := published(t)
	good := `{"user":"u1","item":"i1","rating":null,"more":[1]}`
	long := `{"user":"u1","item":"i1","more":"` + strings.Repeat("x", 200_000) + `"}`
	in := strings.Join([]string{good + "\r", "", "rubbish", long, `{"user":"u1"}`, `{"user":"u1","item":""}`, `{"user":"u1","item":"i1","rating":7}`,
		good + strings.Repeat(" ", 100_000) + "rubbish", "  " + good}, "\n") // no line end after the last
	lines, err := scored(t, ref, strings.NewReader(in))
	wantExit(t, err, report.ExitNo)
	var got []string
	for _, l := range lines {
		got = append(got, strings.TrimSpace(fmt.Sprint(l["type"], " ", l["line"], " ", l["reason"], " ", l["field"])))
	}
	want := []string{"score 1 <nil> <nil>", "invalid 3 not_json", "invalid 4 too_large", "invalid 5 missing_field item", "invalid 6 id_empty item",
		"invalid 7 label_range rating", "invalid 8 too_large", "score 9 <nil> <nil>", "summary <nil> <nil> <nil>"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("lines\n%q, want\n%q", got, want)
	}
	if l := lines[3]; l["expected"] != "a string or a whole number" || l["got"] != "nothing" {
		t.Errorf("line %v", l)
	}
	if s := last(lines); number(t, s, "scored") != 2 || number(t, s, "invalid") != 6 {
		t.Errorf("summary %v", s)
	}
	if len(lines[0]["unseen"].([]any)) != 0 {
		t.Errorf("line %v", lines[0])
	}
}

// TestScoreTellsFormat: the format of the events is detected by their first line; one that is no header of CSV is a
// line of JSON, good or bad. Score waits for no more than that line.
func TestScoreTellsFormat(t *testing.T) {
	ref, _, _ := published(t)
	for text, want := range map[string]struct{ scored, invalid int64 }{
		"user,item\nu1,i2\nu2,i1\n":                    {2, 0},
		"\nitem;user\ni2;u1\n":                         {1, 0},
		"{\"user\":\"u1\",\"item\":\"i2\"}\nrubbish\n": {1, 1},
		"rubbish\n{\"user\":\"u1\",\"item\":\"i2\"}\n": {1, 1},
		"[1]\n{\"user\":\"u1\",\"item\":\"i2\"}\n":     {1, 1},
		"":   {0, 0},
		"17": {0, 1},
	} {
		lines, err := collect(t, func(out *report.Emitter) error {
			return Score(t.Context(), ref, ScoreOptions{}, strings.NewReader(text), out)
		})
		if len(lines) == 0 {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if s := last(lines); number(t, s, "scored") != float64(want.scored) || number(t, s, "invalid") != float64(want.invalid) {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
	_, err := collect(t, func(out *report.Emitter) error {
		return Score(t.Context(), ref, ScoreOptions{Path: dataset.Stdin}, strings.NewReader("userId,movieId\n1,2\n"), out)
	})
	wantExit(t, err, report.ExitUsage, `no column "user" for the field "user": there are userId, movieId. --map user=COLUMN`)
	_, err = collect(t, func(out *report.Emitter) error {
		return Score(t.Context(), ref, ScoreOptions{Table: TableOptions{Map: map[string]string{"user": "u"}}}, strings.NewReader("{}\n"), out)
	})
	wantExit(t, err, report.ExitUsage, "--map is for --format csv and parquet")

	_, err = collect(t, func(out *report.Emitter) error {
		return Score(t.Context(), ref, ScoreOptions{History: strings.NewReader("user,item\n"), HistoryPath: "h.csv"}, strings.NewReader(""), out)
	})
	wantExit(t, err, report.ExitUsage, "h.csv: history: line 1: not_json")

	for first, row := range map[string]string{"": "{\"user\":\"u1\",\"item\":\"i2\"}\n", "user;item\n": "u1;i2\n"} {
		in, more := io.Pipe()
		out, scores := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- Score(t.Context(), ref, ScoreOptions{}, in, report.NewEmitter(scores, true))
			scores.Close()
		}()
		io.WriteString(more, first+row)
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, `"type":"score"`) {
			t.Errorf("%q, %v while there may be more to come", line, err)
		}
		more.Close()
		go io.Copy(io.Discard, out)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestScoreGzip(t *testing.T) {
	ref, _, _ := published(t)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	fmt.Fprintln(z, `{"user":"u1","item":"i1"}`)
	z.Close()
	if lines, err := scored(t, ref, &b); err != nil || len(lines) != 2 {
		t.Errorf("%v, %v", lines, err)
	}
	_, err := scored(t, ref, strings.NewReader("\x1f\x8bnot gzip"))
	wantExit(t, err, report.ExitUsage, "gzip")
}

// TestScoreWithHistory: a history changes what is said of its user as the library's overlay says, and is refused with its line.
func TestScoreWithHistory(t *testing.T) {
	m := configured(t)
	m.Train.Refit, m.Train.FoldIn.By = "variational", []string{"user"}
	store := t.TempDir()
	var moved []string
	for _, line := range ratings(3000, 1) { // many users of few events, so that the variational stage wins
		f := strings.Split(line, "\t")
		f[0] += "-" + f[3][len(f[3])-1:]
		moved = append(moved, strings.Join(f, "\t"))
	}
	if _, err := collect(t, func(out *report.Emitter) error {
		return Backtest(t.Context(), BacktestOptions{Model: m, Data: writeFile(t, "u.data", strings.Join(moved, "\n")), Format: dataset.MovieLens,
			Order: dataset.TimeOrder, Store: store, Now: clock}, out)
	}); err != nil {
		t.Fatal(err)
	}
	version, err := snapshot.Open(store, "toy", snapshot.Selector{Alias: snapshot.Latest})
	if err != nil {
		t.Fatal(err)
	}
	v := version.Manifest().Version
	held := 0
	run := func(history string) ([]line, error) {
		return collect(t, func(out *report.Emitter) error {
			var from io.Reader
			if history != "" {
				from = strings.NewReader(history)
			}
			ref := SnapshotRef{Versions: Versions{Store: store, Model: "toy"}, Version: v}
			return Score(t.Context(), ref, ScoreOptions{History: from, HistoryHeld: held}, strings.NewReader(`{"user":"nobody","item":"i1"}`), out)
		})
	}
	var history strings.Builder
	var events []snapshot.LabelledEvent
	for i := range 10 {
		item := fmt.Sprint("i", i)
		fmt.Fprintf(&history, `{"user":"nobody","item":%q,"rating":5}`+"\n", item)
		events = append(events, snapshot.LabelledEvent{Input: snapshot.Input{Categorical: []string{"nobody", item}}, Label: 5})
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
	got := number(t, lines[0], "prediction")
	if got != want.Value || !(got > number(t, plain[0], "prediction")) || number(t, lines[1], "folded") != 10 || len(lines[0]["unseen"].([]any)) != 0 {
		t.Errorf("%v, %v without a history, the library says %g", lines, plain, want.Value)
	}
	for text, bad := range map[string]string{"line 11: missing_field": `{"user":"nobody","item":"i1"}`, "line 11: not_json": `{`,
		"line 1001: a history has at most 1000": strings.Repeat(`{"user":"nobody","item":"i1","rating":4}`+"\n", 991)} {
		_, err := run(history.String() + bad)
		if report.CodeOf(err) != report.ExitUsage || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %s", err, text)
		}
	}
	held = 11
	_, err = run(history.String())
	if report.CodeOf(err) != report.ExitUsage || !strings.Contains(err.Error(), "--history-held is 11: a whole number from 0 to 10") {
		t.Errorf("more events held than there are: %v", err)
	}
	label := func(a, b float64) string { return map[bool]string{true: "1", false: "0"}[a*b > 0] }
	o := fitOptions(t, dataset.LIBSVM, "binary", writeFile(t, "numbers", ratingLines(200, 6, label)))
	o.Model.Train.MaxBasis, o.Lambdas, o.Store = 3, []float64{1}, t.TempDir()
	fitLines(t, o)
	_, err = collect(t, func(out *report.Emitter) error {
		history := strings.NewReader(`{"1":0.9,"2":0.9,"3":0,"4":0.5,"label":1}`)
		return Score(t.Context(), SnapshotRef{Versions: Versions{Store: o.Store, Model: "toy"}}, ScoreOptions{History: history}, strings.NewReader(""), out)
	})
	if report.CodeOf(err) != report.ExitUsage || !errors.Is(err, snapshot.ErrNoFoldIn) {
		t.Errorf("a version of numbers: %v, want %v", err, snapshot.ErrNoFoldIn)
	}
}

// TestScoreClassNames checks the form of predictions of classes.
func TestScoreClassNames(t *testing.T) {
	for task, want := range map[string]string{"multiclass": "10 2 2", "multilabel": "[9] 2 2", "binary": "1 1 2"} {
		label := quadrant
		switch task {
		case "binary":
			label = func(a, b float64) string { return map[bool]string{true: "1", false: "0"}[a*b > 0] }
		case "multilabel":
			label = func(a, b float64) string { return map[bool]string{true: "9", false: "10"}[a*b > 0] }
		}
		o := fitOptions(t, dataset.LIBSVM, task, writeFile(t, "toy", ratingLines(200, 6, label)))
		o.Model.Train.MaxBasis, o.Lambdas, o.Store = 3, []float64{1}, t.TempDir()
		fitLines(t, o)
		lines, err := scored(t, SnapshotRef{Versions: Versions{Store: o.Store, Model: "toy"}}, strings.NewReader(`{"1":0.9,"2":0.9,"3":0,"4":0.5}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%v %d %d", lines[0]["prediction"], len(lines[0]["outputs"].([]any)), len(lines[0]["probabilities"].([]any))); got != want {
			t.Errorf("%s: %s, want %s: %v", task, got, want, lines[0])
		}
		if ranked := fmt.Sprint(lines[0]["ranked"]); ranked != map[string]string{"multiclass": "[10 9]", "multilabel": "<nil>", "binary": "<nil>"}[task] {
			t.Errorf("%s: ranked %s", task, ranked)
		}
		lines, err = scored(t, SnapshotRef{Versions: Versions{Store: o.Store, Model: "toy"}}, strings.NewReader(`{"1":1e15,"2":-1e15,"3":1e15,"4":1e15}`))
		if err != nil && report.CodeOf(err) != report.ExitNo || len(lines) != 2 {
			t.Errorf("huge numbers: %v, %v", lines, err)
		}
	}
}

// TestScoreInterrupted ends while its input is open and silent.
func TestScoreInterrupted(t *testing.T) {
	ref, _, _ := published(t)
	ctx, cancel := context.WithCancel(t.Context())
	in, feed := io.Pipe()
	defer feed.Close()
	first := make(chan struct{})
	done := make(chan error, 1)
	var b bytes.Buffer
	go func() {
		done <- Score(ctx, ref, ScoreOptions{}, in, report.NewEmitter(&notify{w: &b, first: first}, true))
	}()
	if _, err := io.WriteString(feed, `{"user":"u1","item":"i1"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	<-first
	cancel()
	select {
	case err := <-done:
		if err != nil || !strings.HasSuffix(b.String(), `{"type":"summary","scored":1,"invalid":0,"absent":0}`+"\n") {
			t.Errorf("%v, %s", err, b.String())
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("still reading")
	}
}

// notify closes first after the first write.
type notify struct {
	w     io.Writer
	first chan struct{}
}

func (n *notify) Write(p []byte) (int, error) {
	if n.first != nil {
		close(n.first)
		n.first = nil
	}
	return n.w.Write(p)
}

// TestScoreText: people see how probable a prediction is: of the positive class, the likeliest level, or the classes that were predicted.
func TestScoreText(t *testing.T) {
	for text, s := range map[string]report.Score{
		"4.2  p(5) 0.489  (unseen user=9)\n": {Prediction: report.Number(4.2), Likely: []report.Likely{{Name: "5", Probability: 0.489}}, Unseen: []string{"user=9"}},
		"DOWN  p(DOWN) 0.700\n":              {Prediction: "DOWN", Likely: []report.Likely{{Name: "DOWN", Probability: 0.7}}},
		"3.25\n":                             {Prediction: report.Number(3.25)},
	} {
		var out strings.Builder
		if err := s.WriteText(&out); err != nil || out.String() != text {
			t.Errorf("%+v: %q, want %q", s, out.String(), text)
		}
	}
}

func TestLikely(t *testing.T) {
	for _, c := range []struct {
		task    string
		classes []string
		p       snapshot.Prediction
		want    string
	}{
		{snapshot.Binary, nil, snapshot.Prediction{Value: 0, Probabilities: []float64{0.8, 0.2}}, "[{1 0.2}]"},
		{"binary UP", nil, snapshot.Prediction{Value: 0, Probabilities: []float64{0.8, 0.2}}, "[{UP 0.2}]"},
		{snapshot.Ordinal, nil, snapshot.Prediction{Value: 2.1, Probabilities: []float64{0.1, 0.6, 0.3}}, "[{2 0.6}]"},
		{snapshot.Multiclass, []string{"a", "b"}, snapshot.Prediction{Classes: []string{"b"}, Probabilities: []float64{0.1, 0.9}}, "[{b 0.9}]"},
		{snapshot.Multilabel, []string{"a", "b", "c"}, snapshot.Prediction{Classes: []string{"a", "c"}, Probabilities: []float64{0.7, 0.1, 0.6}},
			"[{a 0.7} {c 0.6}]"},
		{snapshot.Multilabel, []string{"a", "b"}, snapshot.Prediction{Probabilities: []float64{0.4, 0.1}}, "[]"},
		{snapshot.Regression, nil, snapshot.Prediction{Value: 3}, "[]"},
	} {
		schema := snapshot.Schema{Classes: c.classes}
		schema.Task, schema.Positive, _ = strings.Cut(c.task, " ")
		if got := fmt.Sprint(likely(&c.p, &schema)); got != c.want {
			t.Errorf("%s: %s, want %s", c.task, got, c.want)
		}
	}
}
