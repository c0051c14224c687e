package backtest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/evaluate"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// TestCSV: events in CSV, whose columns are called otherwise, are the events of the JSON Lines file to every verb; a
// row that is too short is reported with its line, and the option is refused with a format that has no columns.
func TestCSV(t *testing.T) {
	tier.NotUnderRace(t)
	events := offlinetest.JsonRatings(1200)
	rows := []string{"when;userId;movieId;stars;comment"}
	for i, l := range offlinetest.Ratings(len(events), 1) {
		c := strings.Split(l, "\t")
		rows = append(rows, fmt.Sprintf("%s;%s;%s;%s;\"no; %d\"", c[3], c[0], c[1], c[2], i))
	}
	jsonl := offlinetest.WriteFile(t, "e.jsonl", strings.Join(events, "\n"))
	csv := offlinetest.WriteFile(t, "e.csv", strings.Join(rows, "\n"))
	table := offline.TableOptions{
		Map: map[string]string{"user": "userId", "item": "movieId", "label": "stars", "ts": "when"},
	}

	m := offlinetest.Configured(t)
	m.Train.EveryEvents = 600
	store := t.TempDir()
	back := func(path string, format dataset.Format, table offline.TableOptions) offlinetest.Line {
		lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
			return Run(
				t.Context(),
				Options{
					Model:  m,
					Data:   path,
					Format: format,
					Table:  table,
					Order:  dataset.FileOrder,
					Clock:  clockOf(t, "events:100"),
					Store:  store,
					Now:    offlinetest.Clock,
				},
				out,
			)
		})
		if err != nil {
			t.Fatal(err)
		}
		return offlinetest.Last(lines)
	}
	a, b := back(jsonl, dataset.JSONL, offline.TableOptions{}), back(csv, dataset.CSV, table)
	for _, at := range []string{"events", "progressive.all.live.rmse", "progressive.all.published.rmse",
		"last_tenth.live.rmse"} {
		if x, y := offlinetest.Number(t, a, at), offlinetest.Number(t, b, at); x != y {
			t.Errorf("backtest: %s is %v of JSON Lines, %v of CSV", at, x, y)
		}
	}

	ref := offline.SnapshotRef{Versions: offline.Versions{Store: store, Model: "toy"}}
	measure := func(path string, format dataset.Format, table offline.TableOptions) []offlinetest.Line {
		lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
			return evaluate.Run(
				evaluate.Options{Snapshot: ref, Data: path, Format: format, Table: table, Now: offlinetest.Clock}, out)
		})
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	if a, b := measure(jsonl, dataset.JSONL, offline.TableOptions{}), measure(csv, dataset.CSV, table); !reflect.DeepEqual(
		offlinetest.Last(a), offlinetest.Last(b)) {
		t.Errorf("eval: %v and %v", offlinetest.Last(a), offlinetest.Last(b))
	}

	score := func(text string, o evaluate.ScoreOptions) []offlinetest.Line {
		lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
			return evaluate.Score(t.Context(), ref, o, strings.NewReader(text), out)
		})
		if err != nil {
			offlinetest.WantExit(t, err, report.ExitNo)
		}
		return lines
	}
	want := offlinetest.OfType(score(strings.Join(events[:3], "\n"), evaluate.ScoreOptions{Format: dataset.JSONL}),
		"score")
	got := score(strings.Join(append(rows[:4:4], "1;u1"), "\n"),
		evaluate.ScoreOptions{Format: dataset.CSV, Table: table, Path: "short.csv"})
	for i, s := range offlinetest.OfType(got, "score") {
		if offlinetest.Number(t, s, "line") != float64(i+2) ||
			offlinetest.Number(t, s, "prediction") != offlinetest.Number(t, want[i], "prediction") {
			t.Errorf("score of CSV %v, of JSON %v", s, want[i])
		}
	}
	bad := offlinetest.OfType(got, "invalid")
	if len(offlinetest.OfType(got, "score")) != 3 || len(bad) != 1 || bad[0]["reason"] != "too_few_columns" ||
		bad[0]["got"] != "2 columns" ||
		bad[0]["path"] != "short.csv" ||
		offlinetest.Number(t, bad[0], "line") != 5 {
		t.Errorf("a short row: %v", got)
	}

	_, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return evaluate.Run(
			evaluate.Options{Snapshot: ref, Data: jsonl, Format: dataset.JSONL, Table: table, Now: offlinetest.Clock},
			out)
	})
	offlinetest.WantExit(t, err, report.ExitUsage, "--map is for --format csv and parquet")
	_, err = offlinetest.Collect(t, func(out *report.Emitter) error {
		return evaluate.Run(evaluate.Options{Snapshot: ref, Data: csv, Format: dataset.CSV, Now: offlinetest.Clock},
			out)
	})
	offlinetest.WantExit(t, err, report.ExitUsage, `no column "user" for the field "user"`, "--map user=COLUMN")
	table.Map["ts"] = "wen"
	_, err = offlinetest.Collect(t, func(out *report.Emitter) error {
		return evaluate.Score(t.Context(), ref,
			evaluate.ScoreOptions{Format: dataset.CSV, Table: table, Path: "short.csv"},
			strings.NewReader(rows[0]+"\n"), out)
	})
	offlinetest.WantExit(t, err, report.ExitUsage, `short.csv: no column "wen" for the field "ts"`)
}
