package offline

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/report"
)

// TestCSV: events in CSV, whose columns are called otherwise, are the events of the JSON Lines file to every verb; a
// row that is too short is reported with its line, and the option is refused with a format that has no columns.
func TestCSV(t *testing.T) {
	tier.NotUnderRace(t)
	events := jsonRatings(1200)
	rows := []string{"when;userId;movieId;stars;comment"}
	for i, l := range ratings(len(events), 1) {
		c := strings.Split(l, "\t")
		rows = append(rows, fmt.Sprintf("%s;%s;%s;%s;\"no; %d\"", c[3], c[0], c[1], c[2], i))
	}
	jsonl := writeFile(t, "e.jsonl", strings.Join(events, "\n"))
	csv := writeFile(t, "e.csv", strings.Join(rows, "\n"))
	table := TableOptions{Map: map[string]string{"user": "userId", "item": "movieId", "label": "stars", "ts": "when"}}

	m := configured(t)
	m.Train.EveryEvents = 600
	store := t.TempDir()
	back := func(path string, format dataset.Format, table TableOptions) line {
		lines, err := collect(t, func(out *report.Emitter) error {
			return Backtest(t.Context(), BacktestOptions{Model: m, Data: path, Format: format, Table: table, Order: dataset.FileOrder, Clock: clockOf(t, "events:100"),
				Store: store, Now: clock}, out)
		})
		if err != nil {
			t.Fatal(err)
		}
		return last(lines)
	}
	a, b := back(jsonl, dataset.JSONL, TableOptions{}), back(csv, dataset.CSV, table)
	for _, at := range []string{"events", "progressive.all.live.rmse", "progressive.all.published.rmse", "last_tenth.live.rmse"} {
		if x, y := number(t, a, at), number(t, b, at); x != y {
			t.Errorf("backtest: %s is %v of JSON Lines, %v of CSV", at, x, y)
		}
	}

	ref := SnapshotRef{Versions: Versions{Store: store, Model: "toy"}}
	evaluate := func(path string, format dataset.Format, table TableOptions) []line {
		lines, err := collect(t, func(out *report.Emitter) error {
			return Eval(EvalOptions{Snapshot: ref, Data: path, Format: format, Table: table, Now: clock}, out)
		})
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	if a, b := evaluate(jsonl, dataset.JSONL, TableOptions{}), evaluate(csv, dataset.CSV, table); !reflect.DeepEqual(last(a), last(b)) {
		t.Errorf("eval: %v and %v", last(a), last(b))
	}

	score := func(text string, o ScoreOptions) []line {
		lines, err := collect(t, func(out *report.Emitter) error { return Score(t.Context(), ref, o, strings.NewReader(text), out) })
		if err != nil {
			wantExit(t, err, report.ExitNo)
		}
		return lines
	}
	want := ofType(score(strings.Join(events[:3], "\n"), ScoreOptions{Format: dataset.JSONL}), "score")
	got := score(strings.Join(append(rows[:4:4], "1;u1"), "\n"), ScoreOptions{Format: dataset.CSV, Table: table, Path: "short.csv"})
	for i, s := range ofType(got, "score") {
		if number(t, s, "line") != float64(i+2) || number(t, s, "prediction") != number(t, want[i], "prediction") {
			t.Errorf("score of CSV %v, of JSON %v", s, want[i])
		}
	}
	bad := ofType(got, "invalid")
	if len(ofType(got, "score")) != 3 || len(bad) != 1 || bad[0]["reason"] != "too_few_columns" || bad[0]["got"] != "2 columns" ||
		bad[0]["path"] != "short.csv" || number(t, bad[0], "line") != 5 {
		t.Errorf("a short row: %v", got)
	}

	_, err := collect(t, func(out *report.Emitter) error {
		return Eval(EvalOptions{Snapshot: ref, Data: jsonl, Format: dataset.JSONL, Table: table, Now: clock}, out)
	})
	wantExit(t, err, report.ExitUsage, "--map is for --format csv and parquet")
	_, err = collect(t, func(out *report.Emitter) error {
		return Eval(EvalOptions{Snapshot: ref, Data: csv, Format: dataset.CSV, Now: clock}, out)
	})
	wantExit(t, err, report.ExitUsage, `no column "user" for the field "user"`, "--map user=COLUMN")
	table.Map["ts"] = "wen"
	_, err = collect(t, func(out *report.Emitter) error {
		return Score(t.Context(), ref, ScoreOptions{Format: dataset.CSV, Table: table, Path: "short.csv"}, strings.NewReader(rows[0]+"\n"), out)
	})
	wantExit(t, err, report.ExitUsage, `short.csv: no column "wen" for the field "ts"`)
}

// TestPartsOfOtherFormats: where formats are detected by the first lines of files, those of a fit may differ.
func TestPartsOfOtherFormats(t *testing.T) {
	events := jsonRatings(300)
	rows := []string{"user,item,rating,ts"}
	for _, l := range ratings(100, 2) {
		c := strings.Split(l, "\t")
		rows = append(rows, strings.Join(c, ","))
	}
	o := FitOptions{Model: configured(t), Data: writeFile(t, "e.jsonl", strings.Join(events, "\n")), Test: writeFile(t, "t.csv", strings.Join(rows, "\n")),
		Format: dataset.JSONL, Split: dataset.Fractions{Train: 0.5, Valid: 0.5}, Lambdas: []float64{3}, MaxSteps: 1, Now: clock}
	if _, err := collect(t, func(out *report.Emitter) error { return Fit(t.Context(), o, out) }); err == nil {
		t.Error("a format that was said is not that of all files")
	}
	o.Detected = true
	lines, err := collect(t, func(out *report.Emitter) error { return Fit(t.Context(), o, out) })
	if err != nil || number(t, last(lines), "test.n") != 100 {
		t.Errorf("%v, %v", lines, err)
	}
}

// TestFormatIsTold: the format of a file, or of standard input, is detected by its first line where no flag gives it.
func TestFormatIsTold(t *testing.T) {
	for text, want := range map[string]dataset.Format{
		"user,item,rating\na,b,1\n": dataset.CSV, "user\tstars\na\t1\n": dataset.CSV, `{"user":"a"}`: dataset.JSONL,
		"1\t2\t3\t881250949\n": dataset.MovieLens, "1::2::3\n": dataset.MovieLens, "1 1:2 3:4\n": dataset.LIBSVM, "PAR1....": dataset.Parquet,
	} {
		if got, err := (TableOptions{}).FormatOf("", writeFile(t, "x", text)); err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
		standardInput(t, text)
		if got, err := (TableOptions{}).FormatOf("", dataset.Stdin); err != nil || got != want {
			t.Errorf("%q on standard input: %s, %v, want %s", text, got, err, want)
		}
		if got, err := (TableOptions{}).FormatOf(dataset.LIBSVM, writeFile(t, "x", text)); err != nil || got != dataset.LIBSVM {
			t.Errorf("%q: %s, %v, with a format that is said", text, got, err)
		}
	}
	if got, err := (TableOptions{Columns: []string{"a", "b", "c"}}).FormatOf("", writeFile(t, "x", "1\t2\t3\n")); err != nil || got != dataset.CSV {
		t.Errorf("%s, %v, with names of columns", got, err)
	}
	_, err := TableOptions{}.FormatOf("", "none.csv")
	wantExit(t, err, report.ExitUsage, "none.csv")
}

// standardInput makes standard input a file of this text until the test ends.
func standardInput(t *testing.T, text string) {
	t.Helper()
	f, err := os.Open(writeFile(t, "stdin", text))
	if err != nil {
		t.Fatal(err)
	}
	was := os.Stdin
	t.Cleanup(func() { os.Stdin = was; f.Close() })
	os.Stdin = f
}

// TestStandardInput: what was looked at for the format is read, too, whatever the format and the size.
func TestStandardInput(t *testing.T) {
	var csv, jsonl strings.Builder
	csv.WriteString("user,item,rating,ts\n")
	const n = 20_000 // more than the buffer
	for i, l := range ratings(n, 2) {
		c := strings.Split(l, "\t")
		csv.WriteString(strings.Join(c, ",") + "\n")
		fmt.Fprintf(&jsonl, `{"user":%q,"item":%q,"rating":%s,"ts":%s}`+"\n", c[0], c[1], c[2], c[3])
		if i == 1 {
			jsonl.WriteString("\n")
		}
	}
	packed := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		w.Write([]byte(text))
		w.Close()
		return b.String()
	}
	for name, text := range map[string]string{"csv": csv.String(),
		"csv.gz": packed(csv.String()), "jsonl": "\n" + jsonl.String(), "jsonl.gz": packed(jsonl.String())} {
		standardInput(t, text)
		format, err := TableOptions{}.FormatOf("", dataset.Stdin)
		if err != nil || string(format) != strings.TrimSuffix(name, ".gz") {
			t.Fatalf("%s: %s, %v", name, format, err)
		}
		if set, err := ReadEvents(configured(t), dataset.Stdin, format, TableOptions{}, nil); err != nil || len(set.Examples) != n || set.Skipped.Lines > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
