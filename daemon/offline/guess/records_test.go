package guess

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// cellKinds are the ways in which files write values; each gives the cell of row i.
var cellKinds = map[string]func(r *rand.Rand, i int) string{
	"names":             func(r *rand.Rand, _ int) string { return fmt.Sprintf("u%d", r.IntN(30)) },
	"ids with a point":  func(r *rand.Rand, _ int) string { return fmt.Sprintf("%d.0", 100+r.IntN(40)) },
	"whole numbers":     func(r *rand.Rand, _ int) string { return fmt.Sprint(r.IntN(5000)) },
	"few whole numbers": func(r *rand.Rand, _ int) string { return fmt.Sprint(r.IntN(7)) },
	"numbers":           func(r *rand.Rand, _ int) string { return fmt.Sprintf("%.3f", r.NormFloat64()) },
	"plus and point": func(r *rand.Rand, _ int) string {
		return fmt.Sprintf("%s.%02d", []string{"+", "-", ""}[r.IntN(3)], r.IntN(100))
	},
	"codes with zeros": func(r *rand.Rand, _ int) string { return fmt.Sprintf("%05d", r.IntN(40)) },
	"hex": func(r *rand.Rand, _ int) string {
		return []string{"49018e16", "d20b5d59", "00e1", "123", "7e3"}[r.IntN(5)]
	},
	"truths of Python": func(r *rand.Rand, _ int) string { return []string{"True", "False"}[r.IntN(2)] },
	"truths":           func(r *rand.Rand, _ int) string { return []string{"true", "FALSE"}[r.IntN(2)] },
	"lists": func(r *rand.Rand, _ int) string {
		return []string{"a|b", "b", "a | c", "",
			"c|b|a"}[r.IntN(5)]
	},
	"dates": func(r *rand.Rand, i int) string { return fmt.Sprintf("2024-01-%02d", 1+i*28/1000) },
	"times": func(r *rand.Rand, i int) string {
		return fmt.Sprintf("2024-01-02 10:%02d:%02d.1239", i/60%60,
			i%60)
	},
	"times with a zone": func(r *rand.Rand, i int) string {
		return fmt.Sprintf("2024-01-02T10:%02d:%02d+01:00", i/60%60,
			i%60)
	},
	"seconds": func(r *rand.Rand, i int) string { return fmt.Sprint(1_700_000_000 + 60*i) },
	"milliseconds": func(r *rand.Rand,
		i int) string {
		return fmt.Sprint(1_700_000_000_000 + 60_000*i + r.IntN(999))
	},
	"holes": func(r *rand.Rand, _ int) string {
		return []string{"", "2.5", "nan", "NA", `\N`, "7", "-1e2"}[r.IntN(7)]
	},
	"names with NA": func(r *rand.Rand, _ int) string {
		return []string{"NA", "DE", "FR", `\N`, "None"}[r.IntN(5)]
	},
	"large numbers": func(r *rand.Rand, _ int) string {
		return fmt.Sprint(76_561_197_960_265_728 + int64(r.IntN(50)))
	},
	"money":      func(r *rand.Rand, _ int) string { return fmt.Sprintf("$%d,%03d.50", 1+r.IntN(9), r.IntN(1000)) },
	"Swiss":      func(r *rand.Rand, _ int) string { return fmt.Sprintf("%d'%03d", 1+r.IntN(9), r.IntN(1000)) },
	"per cent":   func(r *rand.Rand, _ int) string { return fmt.Sprintf("%d %%", r.IntN(100)) },
	"brackets":   func(r *rand.Rand, _ int) string { return []string{"(1.5)", "2.5", "7", "−3"}[r.IntN(4)] },
	"German day": func(_ *rand.Rand, i int) string { return fmt.Sprintf("%d.1.2024 10:%02d", 1+i/60, i%60) },
	"mail times": func(_ *rand.Rand, i int) string {
		return fmt.Sprintf("Mon, 01 Jan 2024 %02d:%02d:00 GMT", i/60, i%60)
	},
	"days of two orders": func(_ *rand.Rand, i int) string { return fmt.Sprintf("%d/%d/2024", 1+i/60, 1+i%12) },
	"old times":          func(_ *rand.Rand, i int) string { return fmt.Sprintf("1955-01-%02d 10:00:00", 1+i/60) },
	"one odd cell": func(_ *rand.Rand, i int) string {
		if i == 77 {
			return "tbd"
		}
		return fmt.Sprintf("%d.5", i*37%1000)
	},
	"odd text": func(r *rand.Rand, _ int) string {
		return []string{"x \"y\"", "two, words", "ü", "1,5", "-0"}[r.IntN(5)]
	},
}

// labelKinds are columns that are labels by their names.
var labelKinds = map[string]func(r *rand.Rand, i int) string{
	"rating":  func(r *rand.Rand, _ int) string { return []string{"1", "2", "5.0", "4", "04", "+3", "NA"}[r.IntN(7)] },
	"clicked": func(r *rand.Rand, _ int) string { return []string{"True", "False"}[r.IntN(2)] },
	"label":   func(r *rand.Rand, _ int) string { return []string{"a|b", "b", "c|a"}[r.IntN(3)] },
	"class":   func(r *rand.Rand, _ int) string { return []string{"red", "green", "7"}[r.IntN(3)] },
	"target":  func(r *rand.Rand, _ int) string { return fmt.Sprintf("%+.2f", r.NormFloat64()) },
	"outcome": func(r *rand.Rand, _ int) string { return []string{"UP", "DOWN"}[r.IntN(2)] },
	"y":       func(r *rand.Rand, _ int) string { return fmt.Sprint(r.IntN(2)) },
}

// aTable returns the text of a file whose columns are of random kinds, and the name of its label.
func aTable(r *rand.Rand, rows int, comma string) (text, label string) {
	keys := slices.Sorted(func(yield func(string) bool) {
		for k := range cellKinds {
			if !yield(k) {
				return
			}
		}
	})
	names := []string{"user", "item", "price", "tags", "created", "note", "a b", "shop_id", "v1", "zip"}
	label = []string{"rating", "clicked", "label", "class", "target", "outcome", "y"}[r.IntN(7)]
	header, kinds := []string{label}, []func(*rand.Rand, int) string{labelKinds[label]}
	for _, i := range r.Perm(len(names))[:2+r.IntN(5)] {
		header, kinds = append(header, names[i]), append(kinds, cellKinds[keys[r.IntN(len(keys))]])
	}
	space := []string{"", " "}[r.IntN(2)]
	var b strings.Builder
	b.WriteString(strings.Join(header, comma) + "\n")
	for i := range rows {
		for j, kind := range kinds {
			cell := kind(r, i)
			if comma == ";" && !strings.ContainsAny(cell, ":-") && r.IntN(2) == 0 {
				cell = strings.Replace(cell, ".", ",", 1)
			}
			if strings.ContainsAny(cell, `,"`) || strings.Contains(cell, comma) {
				cell = `"` + strings.ReplaceAll(cell, `"`, `""`) + `"`
			} else if j > 0 {
				cell = space + cell
			}
			if j > 0 {
				b.WriteString(comma)
			}
			b.WriteString(cell)
		}
		b.WriteByte('\n')
	}
	return b.String(), label
}

// TestReplayWritesWhatBacktestReads: for files of all kinds of cells, and for the configuration that init makes of
// them, the daemon's decoder finds in the records of replay, with that configuration and without, the very events that
// backtest reads in the file, and refuses the same rows.
func TestReplayWritesWhatBacktestReads(t *testing.T) {
	made := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		comma := []string{",", ";", "\t"}[seed%3]
		text, label := aTable(r, 120+r.IntN(200), comma)
		path := offlinetest.WriteFile(t, fmt.Sprintf("x%d.csv", seed), text)
		if sameEvents(t, path, label) {
			made++
		}
	}
	if made < 250 {
		t.Errorf("init made a configuration of %d files of 300 only", made)
	}
}

// TestReplayOfOtherFormats: the same of Parquet and of JSON Lines.
func TestReplayOfOtherFormats(t *testing.T) {
	type row struct {
		Rating *float64 `parquet:"rating,optional"`
		User   float64  `parquet:"user_id"`
		Item   int64    `parquet:"item"`
		Code   string   `parquet:"code"`
		Amount float64  `parquet:"amount"`
		New    bool     `parquet:"new"`
		Tags   []string `parquet:"tags,list"`
		At     int64    `parquet:"at,timestamp(microsecond)"`
		Made   int64    `parquet:"made,timestamp(millisecond)"`
		Day    int32    `parquet:"day,date"`
		Text   string   `parquet:"digits"`
	}
	var file bytes.Buffer
	w := parquet.NewGenericWriter[row](&file)
	var jsonl strings.Builder
	for i := range 300 {
		stars := float64(1 + i%5)
		r := row{&stars, float64(100 + i%20), int64(i % 7), []string{"49018e16", "NA", "007"}[i%3], float64(i%90) / 8,
			i%2 == 0, []string{"a", "b"}[:i%3],
			1_700_000_000_000_000 + int64(
				i)*1_000_777, 1_600_000_000_000 + int64(i), 19_000 + int32(i/60), fmt.Sprint(i % 9)}
		if i%50 == 49 {
			r.Rating, r.Amount = nil, math.NaN()
		}
		if _, err := w.Write([]row{r}); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&jsonl,
			`{"rating":%d,"user":{"id":%d},"code":"%03d","amount":"%d.5","new":%t,"tags":["a","%d"],"ts":%d}`+"\n",
			1+i%5, i%20, i%30, i%90, i%2 == 0, i%3, 1_700_000_000_000+int64(i)*1000)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"x.parquet": file.String(), "x.jsonl": jsonl.String()} {
		if !sameEvents(t, offlinetest.WriteFile(t, name, text), "rating") {
			t.Errorf("no configuration of %s", name)
		}
	}
}

// TestInitOfParquetLists: in Parquet a label of lists has the names in them as classes, and bytes that are no text are
// left out.
func TestInitOfParquetLists(t *testing.T) {
	type row struct {
		User  string   `parquet:"user"`
		Hash  []byte   `parquet:"hash"`
		Label []string `parquet:"label,list"`
	}
	var file bytes.Buffer
	w := parquet.NewGenericWriter[row](&file)
	for i := range 300 {
		r := row{fmt.Sprint("u", i%7), []byte{byte(i % 200)}, []string{"a", "b|c", "d"}[:1+i%3]}
		if _, err := w.Write([]row{r}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	g, m := guesses(t, "x.parquet", file.String(), Options{})
	if s := m.Schema; s.Task != "multilabel" || !slices.Equal(s.Classes, []string{"a", "b|c", "d"}) ||
		!slices.Equal(s.Categorical, []string{"user"}) {
		t.Errorf("schema %+v", s)
	}
	if says := fmt.Sprint(g["fields"]); !strings.Contains(says, "bytes that are not UTF-8 in 72 rows") {
		t.Error(says)
	}
	if !sameEvents(t, offlinetest.WriteFile(t, "x.parquet", file.String()), "label") {
		t.Error("no configuration")
	}
}

// sameEvents compares what backtest reads in a file with what the daemon would read of it by way of replay, if init
// can make a configuration.
func sameEvents(t *testing.T, path, label string) bool {
	t.Helper()
	o := Options{Data: path, Label: label, Model: "m", Output: filepath.Join(t.TempDir(), "out.yaml")}
	if _, err := offlinetest.Collect(t, func(out *report.Emitter) error { return Init(o, out) }); err != nil {
		return false
	}
	c, err := config.Load(o.Output)
	if err != nil {
		t.Fatal(err)
	}
	m := &c.Models[0]
	format, err := dataset.Detect(path)
	if err != nil {
		t.Fatal(err)
	}
	compareEvents(t, m, path, format, map[string]*config.Model{"with the configuration": m, "without": nil})
	return true
}

// compareEvents compares what backtest reads in a file with what the daemon would read of what replay writes for some
// models.
func compareEvents(t *testing.T, m *config.Model, path string, format dataset.Format,
	models map[string]*config.Model) {
	t.Helper()
	set, err := offline.ReadEvents(m, path, format, offline.TableOptions{}, nil)
	if err != nil {
		t.Errorf("%s: backtest: %v\n%+v", path, err, m.Schema)
		return
	}
	for how, of := range models {
		fields, err := RecordFields(of, format, offline.TableOptions{}, "user")
		if err != nil {
			t.Fatal(err)
		}
		decoder, recordTime := formats.NewDecoder(m), int64(0)
		if m.Schema.Time != "" {
			recordTime = -1
		}
		read, bad, different := 0, map[event.Cause]int{}, 0
		skipped, err := dataset.ScanRecords(path, format, fields, nil, func(r dataset.Record) error {
			var ev event.Event
			if reject := decoder.Decode(&ev, r.Value, recordTime); reject != nil {
				bad[reject.Cause()]++
				return nil
			}
			if read < len(set.Examples) && !equalEvents(&ev, &set.Examples[read].Event) {
				if different++; different == 1 {
					t.Errorf("%s %s: record %s is\n%+v, want\n%+v", path, how, r.Value, ev, set.Examples[read].Event)
				}
			}
			read++
			return nil
		})
		if err != nil || read != len(set.Examples) {
			t.Errorf("%s %s: %d events, want %d, refused %v, %v\nschema %+v", path, how, read, len(set.Examples), bad,
				err, m.Schema)
		}
		for _, cause := range skipped.Causes {
			bad[cause.Cause()] += int(cause.Lines)
		}
		for _, cause := range set.Skipped.Causes {
			if bad[cause.Cause()] != int(cause.Lines) {
				t.Errorf("%s %s: refused %v, want %s %d times", path, how, bad, cause.Cause(), cause.Lines)
			}
		}
	}
}

// modelFor returns the model of a configuration with that schema and, if not empty, input.mapping.
func modelFor(t *testing.T, schema, mapping string) *config.Model {
	t.Helper()
	input := "topics: [t]"
	if mapping != "" {
		input += ", mapping: " + mapping
	}
	text := fmt.Sprintf("kafka: {bootstrap_servers: [\"b:1\"], group_id: g}\nstorage: {path: state}\nmodels:\n"+
		"  - name: m\n    input: {%s}\n    schema: {%s}\n    publish: {store: s}\n", input, schema)
	c, err := config.Parse("x.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return &c.Models[0]
}

// TestReplayOfRatingsAndSparseRows: for a model MovieLens ratings are counted as it counts them, and columns of LIBSVM
// are its numbers.
func TestReplayOfRatingsAndSparseRows(t *testing.T) {
	ratings := "1::2::3.5::881250949\n2::2::5::881250950\n3::1::0.7::881250951\n"
	for name, schema := range map[string]string{
		"halves": "task: ordinal, label: rating, levels: 10, time: ts, categorical: [user, item]",
		"stars":  "task: regression, label: rating, time: ts, categorical: [user, item]",
	} {
		m := modelFor(t, schema, "")
		compareEvents(t, m, offlinetest.WriteFile(t, name+".dat", ratings), dataset.MovieLens,
			map[string]*config.Model{"with the configuration": m})
	}
	for name, c := range map[string]struct{ schema, text string }{
		"numbers": {"task: regression, label: y, numeric: [a, b, c]", "1.5 1:1 3:.5\n-2 2:0 7:1\n+3\n"},
		"signs":   {"task: binary, label: y, numeric: [a, b]", "+1 1:2\n-1 2:1 # no\n0 1:1\n2 1:1\n"},
		"names":   {"task: binary, label: y, positive: UP, negative: DOWN, numeric: [a]", "UP 1:2\nDOWN 1:1\nup 1:1\n"},
		"classes": {"task: multiclass, label: y, classes: [red, \"3\"], numeric: [a]", "red 1:2\n3 1:1\nblue 1:1\n"},
		"labels":  {"task: multilabel, label: y, classes: [a, b], numeric: [x]", "a,b 1:2\nb 1:1\na,c 1:1\n"},
	} {
		m := modelFor(t, c.schema, "")
		compareEvents(t, m, offlinetest.WriteFile(t, name+".libsvm", c.text), dataset.LIBSVM,
			map[string]*config.Model{"with the configuration": m})
	}
}

// TestReplayForOtherRecords: a model whose records are not objects with the fields of its schema, or that asks for
// what the file cannot have, is refused.
func TestReplayForOtherRecords(t *testing.T) {
	const schema = "task: regression, label: y, categorical: [user], numeric: [a]"
	inAvro := modelFor(t, schema, "")
	inAvro.Input.Format = event.FormatAvro
	for name, c := range map[string]struct {
		m      *config.Model
		format dataset.Format
		words  []string
	}{
		"Avro": {inAvro, dataset.CSV, []string{"replay writes JSON", "is avro"}},
		"an envelope": {modelFor(t, schema, "{envelope: debezium}"), dataset.CSV,
			[]string{"with the envelope debezium", "--format jsonl"}},
		"a path": {modelFor(t, schema, "{fields: [{name: a, path: x.a}]}"), dataset.Parquet,
			[]string{`the field "a" from x.a`}},
		"a condition": {modelFor(t, schema, "{when: [kind == \"buy\"]}"), dataset.MovieLens,
			[]string{"records where kind"}},
		"names of LIBSVM": {modelFor(t, schema, ""), dataset.LIBSVM, []string{"numeric columns only"}},
		"a time of LIBSVM": {modelFor(t, "task: regression, label: y, time: ts, numeric: [a]", ""), dataset.LIBSVM,
			[]string{"has no times"}},
		"half stars": {modelFor(t, schema, ""), dataset.HalfStars, []string{"use movielens"}},
	} {
		_, err := RecordFields(c.m, c.format, offline.TableOptions{}, "user")
		t.Run(name, func(t *testing.T) { offlinetest.WantExit(t, err, report.ExitUsage, c.words...) })
	}
	if _, err := RecordFields(modelFor(t, schema, "{envelope: debezium}"), dataset.JSONL, offline.TableOptions{},
		"user"); err != nil {
		t.Errorf("an envelope in lines of JSON: %v", err)
	}
	plain := modelFor(t, schema, "{fields: [{name: a, path: a, as: number}]}")
	if _, err := RecordFields(plain, dataset.CSV, offline.TableOptions{}, "user"); err != nil {
		t.Errorf("a field at its own name: %v", err)
	}
}

func equalEvents(a, b *event.Event) bool {
	sameNumbers := slices.EqualFunc(a.Numeric, b.Numeric, func(x, y float64) bool {
		return x == y || math.IsNaN(x) &&
			math.IsNaN(y)
	})
	return sameNumbers && a.Label == b.Label && a.Time == b.Time && a.Weight == b.Weight && a.Identity == b.Identity &&
		slices.Equal(a.Classes, b.Classes) &&
		slices.Equal(a.Categorical, b.Categorical) && slices.EqualFunc(a.Multi, b.Multi, slices.Equal[[]string])
}
