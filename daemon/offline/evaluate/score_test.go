package evaluate

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/fit/fittest"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

func scored(t *testing.T, ref offline.SnapshotRef, in io.Reader) ([]offlinetest.Line, error) {
	t.Helper()
	return offlinetest.Collect(t,
		func(out *report.Emitter) error { return Score(t.Context(), ref, ScoreOptions{}, in, out) })
}

// TestEvalAgreesWithScore recomputes METRICS from the lines that score prints for the same events.
func TestEvalAgreesWithScore(t *testing.T) {
	ref, _, text := fittest.Published(t)
	text = append(
		text[:200:200],
		"stranger\ti1\t5\t1",
		"u1\tnovelty\t1\t2",
		"u1\ti1\t9\t3",
	) // two unseen names, one level that does not exist
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
		if offlinetest.Number(t, l, "line") != float64(i+1) || l["model"] != "toy" ||
			offlinetest.Number(t, l, "version") != 1 {
			t.Fatalf("line %v", l)
		}
		v := offlinetest.Number(t, l, "prediction")
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
	lines, err = offlinetest.Collect(t, func(out *report.Emitter) error {
		return Run(
			Options{
				Snapshot: ref,
				Data:     offlinetest.WriteFile(t, "u.data", strings.Join(text, "\n")),
				Format:   dataset.MovieLens,
				Now:      offlinetest.Clock,
			},
			out,
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	s := offlinetest.Last(lines)
	for name, want := range map[string]float64{"metrics.n": 202, "metrics.rmse": math.Sqrt(squares / 202),
		"metrics.mae": deviations / 202,
		"unseen.n":    float64(unseen), "seen.n": float64(202 - unseen), "rejected": 1} {
		if got := offlinetest.Number(t, s, name); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %g, from the scores %g", name, got, want)
		}
	}
	if unseen < 2 {
		t.Errorf("%d events with unseen names", unseen)
	}
}

func TestRequirements(t *testing.T) {
	ref, _, text := fittest.Published(t)
	data := offlinetest.WriteFile(t, "u.data", strings.Join(text[:300], "\n"))
	eval := func(group string, required ...string) ([]offlinetest.Line, error) {
		o := Options{
			Snapshot: ref,
			Data:     data,
			Format:   dataset.MovieLens,
			Group:    group,
			Now:      offlinetest.Clock,
			Require:  make([]Requirement, len(required)),
		}
		for i, text := range required {
			if err := o.Require[i].UnmarshalText([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		return offlinetest.Collect(t, func(out *report.Emitter) error { return Run(o, out) })
	}
	if _, err := eval("", "rmse<=1", "n>=300", "n<301", "mae > 0.1", "ndcg_5>0.5", "ndcg_10>0.5",
		"recall_10>0.1"); err != nil {
		t.Error(err)
	}
	for _, required := range []string{"rmse<=0.01", "rmse<0.01", "n>300", "n>=301", "n<300"} {
		lines, err := eval("", "n>=1", required)
		offlinetest.WantExit(t, err, report.ExitNo, "required "+required)
		if len(lines) != 1 || lines[0]["type"] != "summary" {
			t.Errorf("%s: lines %v", required, lines)
		}
	}
	_, err := eval("", "accuracy>=0.5")
	offlinetest.WantExit(t, err, report.ExitUsage, "no accuracy", "n, loss, rmse, mae, ndcg_1, ndcg_5")
	_, err = eval("shop")
	offlinetest.WantExit(t, err, report.ExitUsage, "--group shop", "user")
	byUser, _ := eval("user")
	byItem, err := eval("item")
	if err != nil ||
		offlinetest.Number(t, byItem[0], "metrics.ndcg_5") == offlinetest.Number(t, byUser[0], "metrics.ndcg_5") {
		t.Errorf("ranking by item is that by user: %v, %v", byItem, err)
	}
	for text, word := range map[string]string{"rmse": "no <=", "rmsd<=1": "n, loss, rmse", "rmse<=x": "number",
		"rmse<=NaN": "number", "": "no <="} {
		if err := new(Requirement).UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %v, want %q", text, err, word)
		}
	}
}

// TestRequirementsOfClasses: metrics of classes have bounds by their names, each recall by its class.
func TestRequirementsOfClasses(t *testing.T) {
	m := &report.Metrics{
		N:                 10,
		AUC:               report.Some(0.8),
		ECE:               report.Some(0.02),
		EntropyNormalised: report.Some(0.7),
		KappaLast:         report.Some(0.4),
		MacroF1:           report.Some(0.6),
		RecallPerClass:    map[string]report.Number{"spam": 0.5, "a.b": 1},
	}
	for text, met := range map[string]bool{"auc>=0.8": true, "auc>0.8": false, "ece<=0.02": true,
		"entropy_normalised<1": true, "kappa_last>0.5": false,
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
	offlinetest.WantExit(t, err, report.ExitUsage, "no recall_per_class.ham",
		"macro_f1, recall_per_class.a.b, recall_per_class.spam")
}

func TestScoreInvalidLines(t *testing.T) {
	ref, _, _ := fittest.Published(t)
	good := `{"user":"u1","item":"i1","rating":null,"more":[1]}`
	long := `{"user":"u1","item":"i1","more":"` + strings.Repeat("x", 200_000) + `"}`
	in := strings.Join(
		[]string{
			good + "\r",
			"",
			"rubbish",
			long,
			`{"user":"u1"}`,
			`{"user":"u1","item":""}`,
			`{"user":"u1","item":"i1","rating":7}`,
			good + strings.Repeat(" ", 100_000) + "rubbish",
			"  " + good,
		},
		"\n",
	) // no line end after the last
	lines, err := scored(t, ref, strings.NewReader(in))
	offlinetest.WantExit(t, err, report.ExitNo)
	var got []string
	for _, l := range lines {
		got = append(got, strings.TrimSpace(fmt.Sprint(l["type"], " ", l["line"], " ", l["reason"], " ", l["field"])))
	}
	want := []string{
		"score 1 <nil> <nil>",
		"invalid 3 not_json",
		"invalid 4 too_large",
		"invalid 5 missing_field item",
		"invalid 6 id_empty item",
		"invalid 7 label_range rating",
		"invalid 8 too_large",
		"score 9 <nil> <nil>",
		"summary <nil> <nil> <nil>",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("lines\n%q, want\n%q", got, want)
	}
	if l := lines[3]; l["expected"] != "a string or a whole number" || l["got"] != "nothing" {
		t.Errorf("line %v", l)
	}
	if s := offlinetest.Last(lines); offlinetest.Number(t, s, "scored") != 2 ||
		offlinetest.Number(t, s, "invalid") != 6 {
		t.Errorf("summary %v", s)
	}
	if len(lines[0]["unseen"].([]any)) != 0 {
		t.Errorf("line %v", lines[0])
	}
}

// TestScoreTellsFormat: the format of the events is detected by their first line; one that is no header of CSV is a
// line of JSON, good or bad. Score waits for no more than that line.
func TestScoreTellsFormat(t *testing.T) {
	ref, _, _ := fittest.Published(t)
	for text, want := range map[string]struct{ scored, invalid int64 }{
		"user,item\nu1,i2\nu2,i1\n":                    {2, 0},
		"\nitem;user\ni2;u1\n":                         {1, 0},
		"{\"user\":\"u1\",\"item\":\"i2\"}\nrubbish\n": {1, 1},
		"rubbish\n{\"user\":\"u1\",\"item\":\"i2\"}\n": {1, 1},
		"[1]\n{\"user\":\"u1\",\"item\":\"i2\"}\n":     {1, 1},
		"":   {0, 0},
		"17": {0, 1},
	} {
		lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
			return Score(t.Context(), ref, ScoreOptions{}, strings.NewReader(text), out)
		})
		if len(lines) == 0 {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if s := offlinetest.Last(lines); offlinetest.Number(t, s, "scored") != float64(want.scored) ||
			offlinetest.Number(t, s, "invalid") != float64(want.invalid) {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
	_, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return Score(t.Context(), ref, ScoreOptions{Path: dataset.Stdin}, strings.NewReader("userId,movieId\n1,2\n"),
			out)
	})
	offlinetest.WantExit(t, err, report.ExitUsage,
		`no column "user" for the field "user": there are userId, movieId. --map user=COLUMN`)
	_, err = offlinetest.Collect(t, func(out *report.Emitter) error {
		return Score(t.Context(), ref, ScoreOptions{Table: offline.TableOptions{Map: map[string]string{"user": "u"}}},
			strings.NewReader("{}\n"), out)
	})
	offlinetest.WantExit(t, err, report.ExitUsage, "--map is for --format csv and parquet")

	_, err = offlinetest.Collect(t, func(out *report.Emitter) error {
		return Score(t.Context(), ref, ScoreOptions{History: strings.NewReader("user,item\n"), HistoryPath: "h.csv"},
			strings.NewReader(""), out)
	})
	offlinetest.WantExit(t, err, report.ExitUsage, "h.csv: history: line 1: not_json")

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
	ref, _, _ := fittest.Published(t)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	fmt.Fprintln(z, `{"user":"u1","item":"i1"}`)
	z.Close()
	if lines, err := scored(t, ref, &b); err != nil || len(lines) != 2 {
		t.Errorf("%v, %v", lines, err)
	}
	_, err := scored(t, ref, strings.NewReader("\x1f\x8bnot gzip"))
	offlinetest.WantExit(t, err, report.ExitUsage, "gzip")
}

// TestScoreClassNames checks the form of predictions of classes.
func TestScoreClassNames(t *testing.T) {
	for task, want := range map[string]string{"multiclass": "10 2 2", "multilabel": "[9] 2 2", "binary": "1 1 2"} {
		label := offlinetest.Quadrant
		switch task {
		case "binary":
			label = func(a, b float64) string { return map[bool]string{true: "1", false: "0"}[a*b > 0] }
		case "multilabel":
			label = func(a, b float64) string { return map[bool]string{true: "9", false: "10"}[a*b > 0] }
		}
		o := fittest.Options(t, dataset.LIBSVM, task,
			offlinetest.WriteFile(t, "toy", offlinetest.RatingLines(200, 6, label)))
		o.Model.Train.MaxBasis, o.Lambdas, o.Store = 3, []float64{1}, t.TempDir()
		fittest.Lines(t, o)
		lines, err := scored(t, offline.SnapshotRef{Versions: offline.Versions{Store: o.Store, Model: "toy"}},
			strings.NewReader(`{"1":0.9,"2":0.9,"3":0,"4":0.5}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%v %d %d", lines[0]["prediction"], len(lines[0]["outputs"].([]any)), len(
			lines[0]["probabilities"].([]any))); got != want {
			t.Errorf("%s: %s, want %s: %v", task, got, want, lines[0])
		}
		if ranked := fmt.Sprint(lines[0]["ranked"]); ranked != map[string]string{"multiclass": "[10 9]",
			"multilabel": "<nil>", "binary": "<nil>"}[task] {
			t.Errorf("%s: ranked %s", task, ranked)
		}
		lines, err = scored(t, offline.SnapshotRef{Versions: offline.Versions{Store: o.Store, Model: "toy"}},
			strings.NewReader(`{"1":1e15,"2":-1e15,"3":1e15,"4":1e15}`))
		if err != nil && report.CodeOf(err) != report.ExitNo || len(lines) != 2 {
			t.Errorf("huge numbers: %v, %v", lines, err)
		}
	}
}

// TestScoreInterrupted ends while its input is open and silent.
func TestScoreInterrupted(t *testing.T) {
	ref, _, _ := fittest.Published(t)
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

func TestLikely(t *testing.T) {
	for _, c := range []struct {
		task    string
		classes []string
		p       snapshot.Prediction
		want    string
	}{
		{format.Binary, nil, snapshot.Prediction{Value: 0, Probabilities: []float64{0.8, 0.2}}, "[{1 0.2}]"},
		{"binary UP", nil, snapshot.Prediction{Value: 0, Probabilities: []float64{0.8, 0.2}}, "[{UP 0.2}]"},
		{format.Ordinal, nil, snapshot.Prediction{Value: 2.1, Probabilities: []float64{0.1, 0.6, 0.3}}, "[{2 0.6}]"},
		{format.Multiclass, []string{"a", "b"}, snapshot.Prediction{Classes: []string{"b"}, Probabilities: []float64{0.1,
			0.9}}, "[{b 0.9}]"},
		{format.Multilabel, []string{"a", "b", "c"}, snapshot.Prediction{Classes: []string{"a", "c"},
			Probabilities: []float64{0.7, 0.1, 0.6}},
			"[{a 0.7} {c 0.6}]"},
		{format.Multilabel, []string{"a", "b"}, snapshot.Prediction{Probabilities: []float64{0.4, 0.1}}, "[]"},
		{format.Regression, nil, snapshot.Prediction{Value: 3}, "[]"},
	} {
		schema := snapshot.Schema{Classes: c.classes}
		schema.Task, schema.Positive, _ = strings.Cut(c.task, " ")
		if got := fmt.Sprint(likely(&c.p, &schema)); got != c.want {
			t.Errorf("%s: %s, want %s", c.task, got, c.want)
		}
	}
}
