package backtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline/guess"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// TestInit: a file of every kind of column gets the schema that a person would write, and the command that init names
// then learns from it.
func TestInit(t *testing.T) {
	tier.NotUnderRace(t)
	var csv, jsonl strings.Builder
	csv.WriteString("event,userId,hour,stars,price,genres,comment,shop,when,mostly\n")
	for i, l := range offlinetest.Ratings(1200, 1) {
		c := strings.Split(l, "\t")
		fmt.Fprintf(&csv,
			"e%d,%s,%d,%s,%.2f,Drama|Comedy,this is the comment of row %d,one,2024-01-%02d 10:00:%02d,%s\n", i,
			c[0][1:], i%24, c[2], float64(i%977)/7, i, 1+i/60%28, i%60,
			map[bool]string{true: "x" + c[1], false: ""}[i%3 > 0])
		fmt.Fprintf(&jsonl, `{"user":%q,"item":%q,"clicked":%t,"ts":%s000,"tags":["a"],"more":{"x":1}}`+"\n", c[0],
			c[1], c[2] > "3", c[3])
	}
	summary, m := guessesOf(t, "some.events.csv", csv.String(), guess.Options{Label: "stars"})
	s := m.Schema
	if m.Name != "some" || s.Task != "ordinal" || s.Levels != 5 || s.Label != "stars" || s.Time != "when" ||
		s.TimeUnit != "ms" ||
		!slices.Equal(s.Categorical, []string{"userId", "hour", "mostly"}) || !slices.Equal(s.Numeric, []string{"price"}) ||
		!slices.Equal(s.Multi, []string{"genres"}) ||
		s.ListWeights["genres"] != "sqrt" ||
		!slices.Equal(s.Optional, []string{"mostly"}) {
		t.Errorf("schema %+v", s)
	}
	if text, err := os.ReadFile(summary["config"].(string)); err != nil ||
		!strings.Contains(string(text), "mean is better, which counts 1/n") {
		t.Errorf("%v, no word of the other weight in %s", err, text)
	}
	uses := map[string]string{}
	for _, f := range summary["fields"].([]any) {
		uses[f.(offlinetest.Line)["name"].(string)] = f.(offlinetest.Line)["use"].(string)
	}
	for _, name := range []string{"event", "comment", "shop"} {
		if uses[name] != "left out" {
			t.Errorf("%s is %s", name, uses[name])
		}
	}

	data := offlinetest.WriteFile(t, "clicks.jsonl", jsonl.String())
	summary, m = guessesOf(t, "clicks.jsonl", jsonl.String(), guess.Options{})
	if s := m.Schema; s.Task != "binary" || s.Label != "clicked" || s.Time != "ts" ||
		s.TimeUnit != "s" && s.TimeUnit != "ms" ||
		!slices.Equal(s.Categorical, []string{"user", "item"}) ||
		!slices.Equal(s.Multi, []string{"tags"}) {
		t.Errorf("schema %+v", s)
	}
	if next, ok := summary["next"].([]any); !ok ||
		!slices.Equal(next[len(next)-4:], []any{"--data", summary["data"], "--plot", "clicks.svg"}) {
		t.Errorf("next %v", next)
	}
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return Run(t.Context(), Options{Model: m, Data: data, Order: dataset.FileOrder,
			Clock: clockOf(t, "events:100"), Now: offlinetest.Clock}, out)
	})
	if err != nil || offlinetest.Number(t, offlinetest.Last(lines), "events") != 1200 ||
		offlinetest.Number(t, offlinetest.Last(lines), "versions_promoted") < 1 {
		t.Errorf("backtest: %v, %v", err, offlinetest.Last(lines))
	}
}

// TestInitOfText: of JSON whose numbers are text, with NaN and "" for missing numbers, whose names are true and false
// and whose label is a list, init makes a configuration under which backtest reads every row.
func TestInitOfText(t *testing.T) {
	var jsonl strings.Builder
	for i := range 1200 {
		amount := []string{fmt.Sprintf("%d.5", i%700), "NaN", ""}[max(0, i%40-37)]
		fmt.Fprintf(&jsonl, `{"user":"%d","amount":%q,"was seen":%t,"size":"%d.25","tags":["a"%s]}`+"\n", i%300, amount,
			i%3 == 0, i%500, []string{"", `,"b"`, `,"c|d"`}[i%3])
	}
	data := offlinetest.WriteFile(t, "text.jsonl", jsonl.String())
	_, m := guessesOf(t, "text.jsonl", jsonl.String(), guess.Options{Label: "tags"})
	if s := m.Schema; s.Task != "multilabel" || !slices.Equal(s.Classes, []string{"a", "b", "c|d"}) ||
		!slices.Equal(s.Categorical, []string{"user", "was seen"}) ||
		!slices.Equal(s.Numeric, []string{"amount", "size"}) || !slices.Equal(s.Optional, []string{"amount"}) {
		t.Errorf("schema %+v", s)
	}
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return Run(
			t.Context(),
			Options{
				Model: m,
				Data:  data,
				Order: dataset.FileOrder,
				Clock: clockOf(t, "events:100"),
				Now:   offlinetest.Clock,
			},
			out,
		)
	})
	if err != nil || offlinetest.Number(t, offlinetest.Last(lines), "events") != 1200 ||
		len(offlinetest.OfType(lines, "invalid")) > 0 {
		t.Errorf("backtest: %v, %v", err, offlinetest.Last(lines))
	}
	_, m = guessesOf(t, "label.jsonl", strings.ReplaceAll(jsonl.String(), `"amount":"",`, ""),
		guess.Options{Label: "size"})
	size := config.MappedField{Name: "size", Path: "size", As: "number"}
	if m.Schema.Task != "regression" || !slices.Contains(m.Input.Mapping.Fields, size) {
		t.Errorf("schema %+v with %+v", m.Schema, m.Input.Mapping.Fields)
	}
}

// TestInitNested: members of objects in events are fields, read by their paths, and backtest reads every row; of an
// object with many names, as a map has them, none is.
func TestInitNested(t *testing.T) {
	var jsonl strings.Builder
	for i := range 600 {
		fmt.Fprintf(
			&jsonl,
			`{"meta":{"at":"2024-01-02T10:%02d:%02dZ"},"user":{"id":%d,"geo":{"km":%d.5,"a.b":"z%d"}},"map":{"k%d":%d},`+
				`"video":{"tags":["a","t%d"],"new":%t},"out":{"liked":%t}}`+"\n",
			i/60,
			i%60,
			i%70,
			i%90,
			i%5,
			i%200,
			i,
			i%3,
			i%2 == 0,
			i%70%2 == 0,
		)
	}
	_, m := guessesOf(t, "nested.jsonl", jsonl.String(), guess.Options{Label: "out.liked"})
	if s := m.Schema; s.Task != "binary" || s.Time != "meta.at" ||
		!slices.Equal(s.Categorical, []string{"user.id", "user.geo.a.b", "video.new"}) ||
		!slices.Equal(s.Numeric, []string{"user.geo.km"}) ||
		!slices.Equal(s.Multi, []string{"video.tags"}) {
		t.Errorf("schema %+v", s)
	}
	if f := (config.MappedField{Name: "user.geo.a.b", Path: `user.geo."a.b"`}); !slices.Contains(m.Input.Mapping.Fields,
		f) {
		t.Errorf("mapping %+v", m.Input.Mapping.Fields)
	}
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return Run(
			t.Context(),
			Options{Model: m, Data: offlinetest.WriteFile(t, "nested.jsonl", jsonl.String()), Order: dataset.FileOrder,
				Clock: clockOf(t, "events:100"), Now: offlinetest.Clock},
			out,
		)
	})
	if err != nil || offlinetest.Number(t, offlinetest.Last(lines), "events") != 600 ||
		len(offlinetest.OfType(lines, "invalid")) > 0 {
		t.Errorf("backtest: %v, %v", err, offlinetest.Last(lines))
	}
}

// TestInitOfFewRows: however few rows a file has, backtest runs with the configuration that init makes of it.
func TestInitOfFewRows(t *testing.T) {
	for _, rows := range []int{2, 3, 5, 10, 40, 99, 150, 199, 200, 201, 399, 401} {
		text := "user,item,rating,clicked\n"
		for i := range rows {
			text += fmt.Sprintf("u%d,i%d,%d,%t\n", i%7, i%5, 1+i%3, i%2 == 0)
		}
		for _, label := range []string{"rating", "clicked"} {
			data := offlinetest.WriteFile(t, "few.csv", text)
			_, m := guessesOf(t, "few.csv", text, guess.Options{Label: label})
			lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
				return Run(t.Context(), Options{Model: m, Data: data, Order: dataset.FileOrder,
					Clock: clockOf(t, "events:100"), Now: offlinetest.Clock}, out)
			})
			if err != nil || offlinetest.Number(t, offlinetest.Last(lines), "events") != float64(rows) {
				t.Errorf("%d rows, %s: %v", rows, label, err)
			}
		}
	}
}

// guessesOf runs init over a file and returns its summary and the model of the configuration.
func guessesOf(t *testing.T, name, text string, o guess.Options) (offlinetest.Line, *config.Model) {
	t.Helper()
	o.Data, o.Output = offlinetest.WriteFile(t, name, text), filepath.Join(t.TempDir(), "out.yaml")
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error { return guess.Init(o, out) })
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(o.Output)
	if err != nil {
		t.Fatal(err)
	}
	return offlinetest.Last(lines), &c.Models[0]
}
