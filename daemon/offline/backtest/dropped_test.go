package backtest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/evaluate"
	"github.com/refitd/refitd/daemon/offline/fit"
	"github.com/refitd/refitd/daemon/offline/fit/fittest"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/format/pointer"
)

// spoiled returns JSON Lines of good events with, from line 3 on, two classes that the schema does not list, a rating
// that is text, a secret in the place of a list, and rubbish.
func spoiled(good []string) string {
	bad := []string{`{"user":"u1","item":"i1","rating":9,"ts":1}`, `{"user":"u1","item":"i1","rating":7,"ts":1}`,
		`{"user":"u1","item":["hunter2"],"rating":3,"ts":1}`, `{"user":"u1","rating":3,"ts":1}`, `rubbish`}
	return strings.Join(append(append(append([]string{}, good[:2]...), bad...), good[2:]...), "\n")
}

// TestDroppedLines: a verb over a file names the first line of each cause, counts them all, in text and in JSON, and
// with --strict ends with exit code 1 after its summary.
func TestDroppedLines(t *testing.T) {
	path := offlinetest.WriteFile(t, "e.jsonl", spoiled(offlinetest.JsonRatings(700)))
	model := func() *config.Model {
		m := offlinetest.Configured(t)
		m.Train.EveryEvents = 500
		return m
	}
	ref, _, _ := fittest.Published(t)
	store := t.TempDir()
	verbs := map[string]func(strict bool, out *report.Emitter) error{
		"backtest": func(strict bool, out *report.Emitter) error {
			return Run(
				t.Context(),
				Options{
					Model:  model(),
					Data:   path,
					Format: dataset.JSONL,
					Order:  dataset.FileOrder,
					Strict: strict,
					Now:    offlinetest.Clock,
				},
				out,
			)
		},
		"fit": func(strict bool, out *report.Emitter) error {
			m := model()
			m.Train.Lambda = 3
			o := fit.Options{
				Model:  m,
				Data:   path,
				Format: dataset.JSONL,
				Split:  dataset.Fractions{Train: 0.5, Valid: 0.25, Test: 0.25},
				Seed:   1,
				Strict: strict,
				Now:    offlinetest.Clock,
			}
			if strict {
				o.Store = store
			}
			return fit.Run(t.Context(), o, out)
		},
		"eval": func(strict bool, out *report.Emitter) error {
			return evaluate.Run(
				evaluate.Options{
					Snapshot: ref,
					Data:     path,
					Format:   dataset.JSONL,
					Strict:   strict,
					Now:      offlinetest.Clock,
				},
				out,
			)
		},
	}
	want := []string{
		fmt.Sprint("label_range rating 2 3 ",
			path), fmt.Sprint("wrong_type item 1 5 ", path), fmt.Sprint("missing_field item 1 6 ", path),
		fmt.Sprint("not_json  1 7 ", path),
	}
	for name, verb := range verbs {
		t.Run(name, func(t *testing.T) {
			for _, strict := range []bool{false, true} {
				lines, err := offlinetest.Collect(t, func(out *report.Emitter) error { return verb(strict, out) })
				if strict {
					offlinetest.WantExit(t, err, report.ExitNo, "5 lines", "e.jsonl:3", "label_range")
				} else if err != nil {
					t.Fatal(err)
				}
				var invalid, dropped []string
				for _, l := range lines {
					if l["type"] == "invalid" {
						invalid = append(
							invalid,
							fmt.Sprint(l["line"], " ", l["reason"], " ", l["field"], ": ", l["expected"], ", ",
								l["got"]),
						)
					}
				}
				for _, d := range offlinetest.Last(lines)["dropped"].([]any) {
					d := d.(map[string]any)
					dropped = append(dropped,
						fmt.Sprint(d["reason"], " ", d["field"], " ", d["count"], " ", d["first_line"], " ", d["path"]))
				}
				if offlinetest.Last(lines)["type"] != "summary" ||
					fmt.Sprintf("%q", dropped) != fmt.Sprintf("%q", want) {
					t.Errorf("dropped %q, want %q", dropped, want)
				}
				if len(invalid) != 4 || invalid[1] != "5 wrong_type item: a string or a whole number, a list" {
					t.Errorf("invalid %q", invalid)
				}
			}
			var b bytes.Buffer
			if err := verb(false, report.NewEmitter(&b, false)); err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{path +
				` line 5: wrong_type: field "item": expected a string or a whole number, got a list` + "\n",
				"dropped from " + path + ": label_range rating, 2 lines, the first is line 3\n", "not_json, 1 line,"} {
				if !strings.Contains(b.String(), text) {
					t.Errorf("the text does not say %q:\n%s", text, b.String())
				}
			}
			if strings.Contains(b.String(), "hunter2") {
				t.Error("the text has a value of an event")
			}
		})
	}
	if entries, err := os.ReadDir(filepath.Join(store, offlinetest.Configured(t).Name)); len(entries) > 0 ||
		err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a strict fit that dropped lines has published %v, %v", entries, err)
	}
}

// TestStrictWithoutDrops: nothing dropped is an empty list, and no reason to fail.
func TestStrictWithoutDrops(t *testing.T) {
	path := offlinetest.WriteFile(t, "e.jsonl", strings.Join(offlinetest.JsonRatings(300), "\n"))
	m := offlinetest.Configured(t)
	m.Train.EveryEvents = 200
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return Run(
			t.Context(),
			Options{
				Model:  m,
				Data:   path,
				Format: dataset.JSONL,
				Order:  dataset.FileOrder,
				Strict: true,
				Now:    offlinetest.Clock,
			},
			out,
		)
	})
	if err != nil || fmt.Sprint(offlinetest.Last(lines)["dropped"]) != "[]" {
		t.Errorf("%v, %v", offlinetest.Last(lines)["dropped"], err)
	}
}

// TestAbsentInFiles: fit, eval and backtest learn and score events that lack an optional field, and count them; the
// version says which field it is.
func TestAbsentInFiles(t *testing.T) {
	events := offlinetest.JsonRatings(900)
	for i := range events {
		if i%3 == 0 {
			events[i] = regexp.MustCompile(`"item":"[^"]*",`).
				ReplaceAllString(events[i], []string{"", `"item":null,`}[i%2])
		}
	}
	path := offlinetest.WriteFile(t, "e.jsonl", strings.Join(events, "\n"))
	model := func() *config.Model {
		m := offlinetest.Configured(t)
		m.Schema.Optional, m.Train.Lambda = []string{"item"}, 3
		return m
	}
	ref := offline.SnapshotRef{Versions: offline.Versions{Store: t.TempDir(), Model: "toy"}, Alias: pointer.Champion}
	for _, verb := range []func(out *report.Emitter) error{
		func(out *report.Emitter) error {
			return fit.Run(t.Context(), fit.Options{Model: model(), Data: path, Format: dataset.JSONL,
				Split: dataset.Fractions{Train: 0.5, Valid: 0.25, Test: 0.25},
				Seed:  1, Store: ref.Store, Now: offlinetest.Clock}, out)
		},
		func(out *report.Emitter) error {
			return Run(t.Context(), Options{Model: model(), Data: path, Format: dataset.JSONL, Order: dataset.FileOrder,
				Strict: true, Now: offlinetest.Clock}, out)
		},
		func(out *report.Emitter) error {
			return evaluate.Run(evaluate.Options{Snapshot: ref, Data: path, Format: dataset.JSONL, Strict: true,
				Now: offlinetest.Clock}, out)
		},
	} {
		lines, err := offlinetest.Collect(t, verb)
		if err != nil || fmt.Sprint(offlinetest.Last(lines)["absent"]) != "map[item:300]" ||
			fmt.Sprint(offlinetest.Last(lines)["dropped"]) != "[]" {
			t.Errorf("%v, absent %v", err, offlinetest.Last(lines)["absent"])
		}
	}
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return evaluate.Score(t.Context(), ref, evaluate.ScoreOptions{},
			strings.NewReader(`{"user":"u1"}`+"\n"+`{"user":"u1","item":"i1"}`+"\n"+`{"item":"i1"}`), out)
	})
	offlinetest.WantExit(t, err, report.ExitNo)
	if fmt.Sprintf("%v %v %v %v", lines[0]["absent"], lines[1]["absent"], lines[2]["reason"],
		lines[2]["field"]) != "[item] [] missing_field user" ||
		offlinetest.Number(t, offlinetest.Last(lines), "absent") != 1 {
		t.Errorf("lines %v", lines)
	}
	if fmt.Sprint(lines[0]["outputs"]) == fmt.Sprint(lines[1]["outputs"]) {
		t.Error("the item makes no difference")
	}
}
