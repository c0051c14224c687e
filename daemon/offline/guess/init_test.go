package guess

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/schedule"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/export"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// guesses runs init over a file and returns its summary and the model of the configuration.
func guesses(t *testing.T, name, text string, o Options) (offlinetest.Line, *config.Model) {
	t.Helper()
	o.Data, o.Output = offlinetest.WriteFile(t, name, text), filepath.Join(t.TempDir(), "out.yaml")
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error { return Init(o, out) })
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(o.Output)
	if err != nil {
		t.Fatal(err)
	}
	return offlinetest.Last(lines), &c.Models[0]
}

// TestInitOddRows: lines of JSON that are no objects are reported with their place, what was expected and what was
// there. A cell that contains the separator of the file is a name, as it had to be quoted.
func TestInitOddRows(t *testing.T) {
	var jsonl, csv strings.Builder
	csv.WriteString("user|stars\n")
	for i := range 300 {
		fmt.Fprintf(&jsonl, "{\"user\":\"u%d\",\"stars\":%d}\n\n", i%9, 1+i%5)
		fmt.Fprintf(&csv, "\"u|%d\"|%d\n", i%9, 1+i%5)
	}
	path := offlinetest.WriteFile(t, "odd.jsonl", "[1]\n{\"user\"\n"+jsonl.String()+"[2]\n")
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return Init(Options{Data: path, Output: filepath.Join(t.TempDir(), "odd.yaml")}, out)
	})
	if err != nil {
		t.Fatal(err)
	}
	bad := offlinetest.OfType(lines, "invalid")
	if len(bad) != 2 || bad[0]["reason"] != "not_object" || bad[0]["expected"] != "an object" ||
		bad[0]["got"] != "a list" || offlinetest.Number(t, bad[0], "line") != 1 ||
		bad[0]["path"] != path ||
		bad[1]["reason"] != "not_json" ||
		offlinetest.Number(t, bad[1], "line") != 2 {
		t.Errorf("reported %v", bad)
	}
	if s := offlinetest.Last(lines); offlinetest.Number(t, s, "rows") != 300 ||
		offlinetest.Number(t, s["dropped"].([]any)[0].(offlinetest.Line), "count") != 2 {
		t.Errorf("summary %v", s)
	}
	path = offlinetest.WriteFile(t, "array.json", `[{"user":"u1","stars":1}]`)
	_, err = offlinetest.Collect(t, func(out *report.Emitter) error {
		return Init(Options{Data: path, Output: filepath.Join(t.TempDir(), "no.yaml")}, out)
	})
	offlinetest.WantExit(t, err, report.ExitUsage,
		"array.json has no rows as --format jsonl: 1 line skipped: not_object",
		"in line 1 expected an object, got a list")
	_, err = offlinetest.Collect(t, func(out *report.Emitter) error {
		return Init(
			Options{
				Topic:            "quiet",
				BootstrapServers: []string{"b:1"},
				Look:             func() (*Sample, error) { return new(Sample), nil },
			},
			out,
		)
	})
	offlinetest.WantExit(t, err, report.ExitUsage, "quiet holds no records")
	records := []offline.Record{{Partition: 3, Offset: 70, Value: []byte("[1]")}}
	for i := range 300 {
		records = append(
			records,
			offline.Record{
				Partition: 1,
				Offset:    int64(i),
				Value:     fmt.Appendf(nil, `{"user":"u%d","stars":%d}`, i%9, 1+i%5),
			},
		)
	}
	records = append(records, offline.Record{Partition: 3, Offset: 71, Value: []byte("x")},
		offline.Record{Partition: 3, Offset: 72, Value: []byte("2")})
	of := Options{
		Topic:            "t",
		BootstrapServers: []string{"b:1"},
		Look:             func() (*Sample, error) { return &Sample{Records: records}, nil },
	}
	var text bytes.Buffer
	for _, json := range []bool{true, false} {
		of.Output = filepath.Join(t.TempDir(), "t.yaml")
		if err := Init(of, report.NewEmitter(&text, json)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{`"line":70,"reason":"not_object","field":"","expected":"an object","got":"a list","path":"t/3"`,
		`"count":2,"first_line":70,"path":"t/3"`, "t/3 offset 71: not_json: expected",
		"dropped: not_object, 2 records, the first is offset 70 of t/3\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %s in %s", want, &text)
		}
	}
	records = records[:1]
	err = Init(of, report.NewEmitter(&text, false))
	offlinetest.WantExit(
		t,
		err,
		report.ExitUsage,
		"none of the 1 newest records of t is a JSON object: not_object, first at offset 70 of partition 3: expected an "+
			"object, got a list",
	)
	if _, m := guesses(t, "pipe.csv", csv.String(), Options{}); len(m.Schema.Multi) != 0 ||
		!slices.Equal(m.Schema.Categorical, []string{"user"}) {
		t.Errorf("schema %+v", m.Schema)
	}
}

// TestInitOfExport: an exported sample has the fields of its events; what export adds is of no use to a model.
func TestInitOfExport(t *testing.T) {
	schema := &config.Schema{Task: "ordinal", Label: "stars", Levels: 5, Categorical: []string{"user", "item"}}
	var text bytes.Buffer
	for i := range 300 {
		r := export.Row{
			Event: event.Event{
				Label:       float64(1 + i%5),
				Categorical: []string{fmt.Sprint("u", i%9), fmt.Sprint("i", i%7)},
			},
			Role:      sketch.Role(i % 2),
			Topic:     []string{"a", "b"}[i%2],
			Partition: int32(i % 3),
			Offset:    int64(i),
			Weight:    1 + float64(i%7)/8,
			Inclusion: 1 / float64(1+i%6),
		}
		line, err := export.AppendJSON(nil, schema, &r)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	_, m := guesses(t, "sample.jsonl", text.String(), Options{})
	if s := m.Schema; !slices.Equal(s.Categorical, []string{"user", "item"}) || len(s.Numeric)+len(s.Multi) > 0 {
		t.Errorf("schema %+v", s)
	}
}

// TestInitLabelByWord: a label is found by a word of its name if no other column has one.
func TestInitLabelByWord(t *testing.T) {
	for header, want := range map[string]string{"user,Stars Given,y2": "Stars Given", "user,user_rating,x": "user_rating",
		"user,overallRating,X Y":   "overallRating",
		"user,clicks_before,stars": "stars", "user,RATING,score_at": "RATING", "user,first_rating,second_rating": "",
		"user,a_score,a_target":    "",
		"user,generating,starship": ""} {
		var csv strings.Builder
		fmt.Fprintln(&csv, header)
		for i := range 300 {
			fmt.Fprintf(&csv, "u%d,%d,%d\n", i%9, 1+i%5, 1+i%4)
		}
		o := Options{
			Data:   offlinetest.WriteFile(t, "x.csv", csv.String()),
			Output: filepath.Join(t.TempDir(), "x.yaml"),
		}
		lines, err := offlinetest.Collect(t, func(out *report.Emitter) error { return Init(o, out) })
		if want == "" {
			offlinetest.WantExit(t, err, report.ExitUsage, "no column is clearly the label")
		} else if err != nil || offlinetest.Last(lines)["label"] != want {
			t.Errorf("%s: %v, %v", header, lines, err)
		}
	}
}

// TestInitPoints: numbers that JSON has with a point are no names there, however few different ones there are; CSV has
// text.
func TestInitPoints(t *testing.T) {
	var json, csv strings.Builder
	fmt.Fprintln(&csv, "day,id,y")
	for i := range 300 {
		fmt.Fprintf(&json, `{"day":%d.0,"id":%d.0,"y":%d.5}`+"\n", i%7, i%9, i%10)
		fmt.Fprintf(&csv, "%d.0,%d.0,%d.5\n", i%7, i%9, i%10)
	}
	o := Options{Label: "y"}
	if _, m := guesses(t, "x.jsonl", json.String(), o); !slices.Equal(m.Schema.Numeric, []string{"day"}) ||
		len(m.Schema.Categorical) > 0 {
		t.Errorf("JSON: %+v, want the number day and no name", m.Schema)
	}
	if _, m := guesses(t, "x.csv", csv.String(), o); !slices.Equal(m.Schema.Categorical, []string{"day", "id"}) {
		t.Errorf("CSV: %+v, want the names day and id", m.Schema)
	}
}

// TestInitWrittenTimes: a written time is taken where events may have it: in JSON by RFC 3339, in CSV as spreadsheets
// write it, too.
func TestInitWrittenTimes(t *testing.T) {
	for layout, takes := range map[string]string{time.RFC3339: "jsonl csv", time.DateTime: "csv"} {
		var jsonl, csv strings.Builder
		csv.WriteString("user,stars,at\n")
		for i := range 300 {
			at := time.Unix(1_700_000_000+60*int64(i), 0).UTC().Format(layout)
			fmt.Fprintf(&jsonl, `{"user":"u%d","stars":%d,"at":%q}`+"\n", i%9, 1+i%5, at)
			fmt.Fprintf(&csv, "u%d,%d,%s\n", i%9, 1+i%5, at)
		}
		for format, text := range map[string]string{"jsonl": jsonl.String(), "csv": csv.String()} {
			_, m := guesses(t, "times."+format, text, Options{})
			if got, want := m.Schema.Time == "at", strings.Contains(takes, format); got != want {
				t.Errorf("%s in %s: %t, want %t", layout, format, got, want)
			}
			set, err := offline.ReadEvents(m, offlinetest.WriteFile(t, "times."+format, text), dataset.Format(format),
				offline.TableOptions{}, nil)
			if err != nil || len(set.Examples) != 300 || set.HasTime != (m.Schema.Time == "at") && format == "jsonl" {
				t.Errorf("%s in %s: %v", layout, format, err)
			}
		}
	}
}

// TestInitNoNames: lists of something else than names, numbers that count the rows and names that never come back are
// left out; a number whose name only ends as that of an id does is a number; a number that means "no value" is
// reported.
func TestInitNoNames(t *testing.T) {
	var jsonl strings.Builder
	for i := range 600 {
		fmt.Fprintf(
			&jsonl,
			`{"user":%d,"row":%d,"event_id":%d,"emb":[0.5,%d.25],"items":[{"sku":1}],"flags":[true],"holes":["a",null],"either":%s,`+
				`"bid":%d,"userid":%d,"age":%d,"y":%d.5}`+"\n",
			i%9,
			1000+i,
			i*7919%100_003,
			i,
			[]string{`["a"]`, `"a"`}[i%2],
			i%500,
			i%80,
			max(-999, i%60-1998*(i%4/3)),
			i%7,
		)
	}
	summary, m := guesses(t, "x.jsonl", jsonl.String(), Options{Label: "y"})
	if s := m.Schema; !slices.Equal(s.Categorical, []string{"user", "userid"}) ||
		!slices.Equal(s.Numeric, []string{"bid", "age"}) ||
		len(s.Multi) > 0 {
		t.Errorf("schema %+v", s)
	}
	for _, f := range summary["fields"].([]any) {
		if f := f.(offlinetest.Line); (f["name"] == "age") != strings.Contains(f["why"].(string),
			`if -999, in 150 rows, means "no value"`) {
			t.Errorf("%v: %v", f["name"], f["why"])
		}
	}
}

// TestInitDecimalCommas: a file as spreadsheets of many countries write it has numbers, and times with their zone.
func TestInitDecimalCommas(t *testing.T) {
	text := "\ufeff\"Kunden-Nr.\";\"Gewicht (kg)\";\"Bestellt am\";\"Preis €\"\r\n"
	for i := range 400 {
		at := time.Unix(1_700_000_000+60*int64(i), 0).UTC().Format("2006-01-02 15:04:05Z07:00")
		text += fmt.Sprintf("\"C%d\";%d,%d;%s;%d,%02d\r\n", i%9, i%30, i%10, at, i%20, i%100)
	}
	_, m := guesses(t, "orders.csv", text, Options{Label: "Preis €"})
	if s := m.Schema; s.Task != "regression" || !slices.Equal(s.Numeric, []string{"Gewicht (kg)"}) ||
		s.Time != "Bestellt am" ||
		!slices.Equal(s.Categorical, []string{"Kunden-Nr."}) {
		t.Errorf("schema %+v", s)
	}
	set, err := offline.ReadEvents(m, offlinetest.WriteFile(t, "orders.csv", text), dataset.CSV, offline.TableOptions{},
		nil)
	if err != nil || len(set.Examples) != 400 || !set.HasTime || set.Examples[213].Label != 13.13 {
		t.Errorf("events %v, %v", set, err)
	}
}

// TestInitTasks: the label says the task.
func TestInitTasks(t *testing.T) {
	rows := func(label func(i int) string) string {
		var b strings.Builder
		b.WriteString("name\ty\n")
		for i := range 400 {
			fmt.Fprintf(&b, "n%d\t%s\n", i%9, label(i))
		}
		return b.String()
	}
	for want, label := range map[string]func(i int) string{
		"binary": func(i int) string { return fmt.Sprint(i % 2) }, "multiclass": func(i int) string {
			return [3]string{"UP",
				"DOWN", "same"}[i%3]
		},
		"binary named": func(i int) string { return [3]string{"DOWN", "UP", "UP"}[i%3] }, "binary signed": func(
			i int) string {
			return [2]string{"1", "-1"}[i%2]
		},
		"binary by count": func(i int) string { return [3]string{"stays", "leaves", "stays"}[i%3] },
		"ordinal":         func(i int) string { return fmt.Sprint(1 + i%4) }, "regression": func(
			i int) string {
			return fmt.Sprint(0.5 + float64(i%10)/2)
		},
	} {
		_, m := guesses(t, "x.tsv", rows(label), Options{})
		task, how, _ := strings.Cut(want, " ")
		if m.Schema.Task != task {
			t.Errorf("task %s, want %s", m.Schema.Task, want)
		}
		names := map[string][2]string{"named": {"UP", "DOWN"}, "signed": {"1", "-1"}, "by count": {"leaves", "stays"}}[how]
		if got := [2]string{m.Schema.Positive, m.Schema.Negative}; got != names {
			t.Errorf("%s: labels %q", want, got)
		}
		if want == "regression" && (m.Schema.LabelMin != 0.5 || m.Schema.LabelMax != 5) ||
			want == "multiclass" && len(m.Schema.Classes) != 3 {
			t.Errorf("schema %+v", m.Schema)
		}
	}
}

// TestInitSchedule: a backtest of the file that init looked at refits a bounded number of times, however long the file
// is: soon for the first time, and a file of a few thousand rows more often than a daemon's default has it.
func TestInitSchedule(t *testing.T) {
	for _, c := range []struct{ rows, numbers, least, most int }{
		{300, 0, 1, 1}, {6000, 0, 10, 11}, {60_000, 0, 13, 14}, {1_234_567, 0, 17, 18},
		{300, 1, 1, 1}, {6000, 1, 19, 20}, {100_000, 1, 23, 25}, {1_234_567, 1, 26, 29},
	} {
		rows, want := c.rows, [2]int{c.least, c.most}
		g := &guess{total: rows, labelled: rows}
		g.schema.Categorical, g.schema.Numeric = []string{"user", "item"}, make([]string, c.numbers)
		every, events, early := g.schedule()
		train := config.Train{Every: config.Duration(every), EveryEvents: events, FirstEvents: early}
		clock, refits, first := offline.Simulated{}, 0, 0
		schedule := schedule.New(&config.Model{}, clock.At(0, nil))
		for i := range rows {
			if now := clock.At(i, nil); schedule.RefitDue(&train, now, int64(i)) {
				schedule.RefitBegun(int64(i))
				schedule.RefitEnded(now)
				if refits++; refits == 1 {
					first = i
				}
			}
		}
		late := first > mostFirstEvents || rows < 4000 && first > fewestEvents
		if refits < want[0] || refits > want[1] || late || every < 30*time.Second {
			t.Errorf("%d rows: %d refits of %v and %d events from %d on, want %v", rows, refits, every, events, first, want)
		}
	}
}

// TestInitRefitsOfWideRows: where a refit takes long there are fewer.
func TestInitRefitsOfWideRows(t *testing.T) {
	for _, c := range []struct{ rows, numbers, classes, want int }{
		{100_000, 2, 0, 20}, {100_000, 20, 0, 10}, {100_000, 40, 0, 5}, {100_000, 6, 8, 5}, {6000, 6, 8, 20}, {100_000, 16,
			26, 5},
		{50_000_000, 5, 0, 20}, {0, 0, 0, 10},
	} {
		g := &guess{total: c.rows}
		g.schema.Numeric, g.schema.Classes = make([]string, c.numbers), make([]string, c.classes)
		if got := g.refits(); got != c.want {
			t.Errorf("%+v: %d refits", c, got)
		}
	}
}

// TestInitOfShortRows: rows with too few cells are reported with their line, as by the verbs that learn from the file.
func TestInitOfShortRows(t *testing.T) {
	data := offlinetest.WriteFile(t, "x.csv", "user,item,rating\nu1,i1,1\nu2,i2,3\nu3,i1\nu1,i3,2\n")
	var text strings.Builder
	o := Options{Data: data, Output: filepath.Join(t.TempDir(), "x.yaml")}
	if err := Init(o, report.NewEmitter(&text, false)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"line 4: too_few_columns: expected the 3 columns of the header, got 2 columns",
		"3 rows of ",
		"dropped from " + data + ": too_few_columns, 1 line, the first is line 4"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

func TestInitRefusals(t *testing.T) {
	const plain = "user,item,rating\na,b,1\nb,c,2\n"
	for name, c := range map[string]struct {
		file, text string
		label      string
		words      []string
	}{
		"no label by name": {"x.csv", "user,item\na,b\nb,c\n", "", []string{"--label NAME", "user, item"}},
		"no such label":    {"x.csv", plain, "stars", []string{"user, item, rating"}},
		"a constant label": {"x.csv", "user,rating\na,1\nb,1\n", "",
			[]string{`"rating" has 1 different values in 2 rows`}},
		"nothing to learn of": {"x.csv", "user,rating\na,1\na,2\n", "", []string{"no column to learn from"}},
		"too many classes": {"x.csv", "user,rating\n" + many(300), "", []string{"300 different values",
			"more than 100 classes"}},
		"another format":        {"u.data", "1\t2\t3\t881250949\n", "", []string{"--format movielens"}},
		"a format by flag":      {"x.libsvm", "1 1:2 3:4\n", "", []string{"--format libsvm"}},
		"no rows":               {"x.csv", "user,rating\n", "", []string{"has no rows"}},
		"nothing":               {"x.csv", "", "", []string{"has no rows"}},
		"the same column twice": {"x.csv", "a,a\n1,2\n", "", []string{`two columns "a"`}},
		"no header": {"x.csv", "u1,i1,3\nu2,i2,4\n", "",
			[]string{"--label NAME", "the first line", "has numbers"}},
		"the time of a click": {"x.csv", "click_time,a\n2024-01-01 10:00:00,x\n2024-01-01 10:00:01,y\n", "",
			[]string{"no column is clearly the label"}},
		"an array": {"x.json", "[\n{\"user\":\"u1\",\"rating\":1},\n{\"user\":\"u1\",\"rating\":2}\n]\n", "",
			[]string{"is a list over many lines: write an object a line, as jq -c '.[]' does"}},
		"an object over lines": {"x.json", "{\n  \"user\": 1\n}\n", "", []string{"each line has one object"}},
		"names twice in objects": {"x.jsonl", `{"user":"a","user":"b","rating":1}`, "",
			[]string{"no rows", "duplicate_key"}},
		"large labels": {"x.csv", "user,target\na,1700000000000.5\nb,3e14\na,7\n", "",
			[]string{"beyond ±1e+09", "the largest label"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{
				Data:   offlinetest.WriteFile(t, c.file, c.text),
				Label:  c.label,
				Output: filepath.Join(t.TempDir(), "x.yaml"),
			}
			_, err := offlinetest.Collect(t, func(out *report.Emitter) error { return Init(o, out) })
			offlinetest.WantExit(t, err, report.ExitUsage, c.words...)
			if _, err := os.Stat(o.Output); err == nil {
				t.Error("a configuration was written")
			}
		})
	}
	o := Options{Data: offlinetest.WriteFile(t, "x.csv", plain), Output: offlinetest.WriteFile(t, "mine.yaml", "mine")}
	_, err := offlinetest.Collect(t, func(out *report.Emitter) error { return Init(o, out) })
	offlinetest.WantExit(t, err, report.ExitUsage, "exists: --output names another")
	if b, _ := os.ReadFile(o.Output); string(b) != "mine" {
		t.Errorf("the file is now %s", b)
	}
	o.Data = dataset.Stdin
	_, err = offlinetest.Collect(t, func(out *report.Emitter) error { return Init(o, out) })
	offlinetest.WantExit(t, err, report.ExitUsage, "standard input has no name")
}

// TestInitOfOddNames: whatever columns are called, and whatever their values are, the configuration is YAML that says
// what it should.
func TestInitOfOddNames(t *testing.T) {
	for _, odd := range []string{"a\rb", "a\u0085b", "a\u2028b", "a\x00b", "a\x1bb", "\ufeffx", "a: b", "# a", "- a",
		"a\tb", "ü 🙂", `a"b\c`, "a\nb", "~", "*a", "{a}"} {
		cell := `"` + strings.ReplaceAll(odd, `"`, `""`) + `"`
		text := "user,item," + cell + "\n"
		for i := range 300 {
			text += fmt.Sprintf("u%d,%s,%s\n", i%7, cell, []string{cell, `"no"`}[i%2])
		}
		g, m := guesses(t, "x.csv", text, Options{Label: odd})
		if s := m.Schema; s.Label != odd || s.Positive != odd && s.Negative != odd ||
			!slices.Equal(s.Categorical, []string{"user"}) {
			t.Errorf("%q: %+v, %v", odd, s, g)
		}
	}
}

// TestInitOfTexts: what text in JSON holds decides whether events can have it: times as digits, empty text, and a path
// that is called as another field are left out, with why.
func TestInitOfTexts(t *testing.T) {
	var b strings.Builder
	for i := range 400 {
		fmt.Fprintf(&b, `{"user.id":"u%d","user":{"id":%d},"ts":"%d","tag":"%s","size":%s,"rating":%d}`+"\n", i%7, i%5,
			1_700_000_000_000+i*1000, []string{"", "a", "b"}[i%3], []string{"1e17", "0.5", "2.5"}[i%3], 1+i%5)
	}
	g, m := guesses(t, "x.jsonl", b.String(), Options{})
	if s := m.Schema; s.Time != "" || len(s.Numeric) > 0 || !slices.Equal(s.Categorical, []string{"user.id"}) {
		t.Errorf("schema %+v", s)
	}
	for _, want := range []string{"another field is called so", "times that are numbers as text", "empty text in 134 rows",
		"134 are beyond 1e+15"} {
		if !strings.Contains(fmt.Sprint(g["fields"]), want) {
			t.Errorf("no %q in %s", want, g)
		}
	}
}

// TestInitOfSignedLabels: of two numbers 1 counts as 1, however it is written, and not the rarer one.
func TestInitOfSignedLabels(t *testing.T) {
	for yes, no := range map[string]string{"+1": "-1", "1.0": "-1.0", "1": "-7", "01": "00"} {
		text := "user,label\n"
		for i := range 300 {
			text += fmt.Sprintf("u%d,%s\n", i%7, []string{yes, yes, no}[i%3])
		}
		_, m := guesses(t, "x.csv", text, Options{})
		if s := m.Schema; s.Task != "binary" || s.Positive != "" && s.Positive != yes {
			t.Errorf("%s and %s: %+v", yes, no, m.Schema)
		}
	}
}

// many returns rows with so many different labels.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "u%d,label%d\n", i%7, i)
	}
	return b.String()
}

// TestInitNames: names of files and of topics become names of models, which have small letters alone.
func TestInitNames(t *testing.T) {
	for name, want := range map[string]string{"Reviews.csv": "reviews", "/data/Some Events (2).csv.gz": "some-events-2",
		"ÄÖ.csv": "model", "_x-.csv": "x",
		strings.Repeat("Long-", 20) + ".csv": strings.Repeat("long-",
			12) + "long", "07-Reviews.csv": "07-reviews", ".csv": "model"} {
		if got := nameOf(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if _, m := guesses(t, "Reviews.csv", "user,rating\na,1\nb,2\na,1\n", Options{}); m.Name != "reviews" ||
		!slices.Equal(m.Input.Topics, []string{"reviews"}) {
		t.Errorf("model %s of %v", m.Name, m.Input.Topics)
	}
}

// TestInitOfWordsForNone: nan, NA, ? and \N among numbers are no value, so that the numbers are numbers that some rows
// lack, and a row without its label is refused by that name; among names NA is one. A time that rows lack is left out.
func TestInitOfWordsForNone(t *testing.T) {
	text := "user,country,price,weight,seen,rating\n"
	for i := range 600 {
		text += fmt.Sprintf(
			"u%d,%s,%s,%s,%s,%s\n",
			i%9,
			[]string{"DE", "NA", `\N`}[i%3],
			[]string{fmt.Sprintf("%d.5", i%80),
				"nan", "NaN"}[i%40/38+i%40/39],
			[]string{fmt.Sprintf("%d.25", i%70), "?"}[i%30/29],
			[]string{"2024-01-01 10:00:00", "NULL"}[i%50/49],
			[]string{fmt.Sprint(1 + i%5), "NA"}[i%60/59],
		)
	}
	summary, m := guesses(t, "x.csv", text, Options{})
	s := m.Schema
	if s.Task != "ordinal" || s.Levels != 5 || !slices.Equal(s.Categorical,
		[]string{"user", "country"}) ||
		!slices.Equal(s.Numeric, []string{"price", "weight"}) ||
		!slices.Equal(s.Optional, []string{"country", "price", "weight"}) {
		t.Errorf("schema %+v", s)
	}
	set, err := offline.ReadEvents(m, summary["data"].(string), dataset.CSV, offline.TableOptions{}, nil)
	if err != nil || s.Time != "" || len(set.Examples) != 590 || set.Skipped.Lines != 10 ||
		set.Skipped.Causes[0].Reason != event.MissingField {
		t.Errorf("%d events, %s, %v", len(set.Examples), set.Skipped.String(), err)
	}
}
