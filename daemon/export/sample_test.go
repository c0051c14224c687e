package export

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/format"
)

// tagged is a model with every kind of field.
func tagged(task string) *config.Model {
	m := config.DefaultModel()
	m.Name = "tagged"
	m.Schema = config.Schema{
		Task:        task,
		Label:       "y",
		Time:        "ts",
		TimeUnit:    "s",
		Weight:      "w",
		Identity:    "id",
		Categorical: []string{"user"},
		Multi:       []string{"tags"},
		Numeric:     []string{"age"},
	}
	if task == "multiclass" || task == "multilabel" {
		m.Schema.Classes = []string{"red", "<green>"}
	}
	seed := uint64(1)
	m.Sample.Size, m.Sample.Seed, m.Sample.Holdout.Fraction = 40, &seed, 0.2
	m.Resolve()
	return &m
}

// TestGapsAreExportedAsGaps: of an event that lacks optional fields the row lacks them too, and one with empty lists is
// an event again.
func TestGapsAreExportedAsGaps(t *testing.T) {
	m := tagged("multilabel")
	m.Schema.Optional = []string{"age", "user"}
	e := event.Event{Weight: 1, Categorical: []string{""}, Numeric: []float64{math.NaN()}, Multi: [][]string{nil}}
	row := &Row{Event: e, Role: sketch.Gate, Weight: 1, Topic: "t"}
	line, err := AppendJSON(nil, &m.Schema, row)
	if err != nil || !bytes.HasPrefix(line, []byte(`{"y":[],"w":1,"ts":0,"tags":[],"id"`)) {
		t.Fatalf("%s, error %v", line, err)
	}
	var back event.Event
	if r := formats.NewDecoder(m).Decode(&back, line, -1); r != nil {
		t.Fatalf("%v: %s", r, line)
	}
	if !bytes.Equal(rows.AppendEvent(nil, &back), rows.AppendEvent(nil, &e)) {
		t.Errorf("%+v, was %+v", back, e)
	}
	add, done := CollectColumns(&m.Schema)
	if err := add(row); err != nil {
		t.Fatal(err)
	}
	columns := done()
	if got := string(columns.AppendLIBSVM(nil, m.Schema.Classes, row)); columns.NumColumns() != 1 ||
		got != " # role=gate weight=1" {
		t.Errorf("%d columns, %q", columns.NumColumns(), got)
	}
}

// TestChoicesAreExported: a choice is one again, of a kind that weighs as much.
func TestChoicesAreExported(t *testing.T) {
	for _, c := range []struct{ weight, line string }{{"", `{"kind":"buy","user":`}, {"w",
		`{"kind":"view","w":5,"user":`}} {
		m := config.DefaultModel()
		m.Name = "choices"
		m.Schema = config.Schema{
			Task:        config.Implicit,
			Label:       "kind",
			Weight:      c.weight,
			Categorical: []string{"user", "item"},
			EventWeights: []config.EventWeight{
				{Event: "none", Weight: 0},
				{Event: "view", Weight: 1},
				{Event: "buy", Weight: 5},
			},
		}
		m.Resolve()
		e := event.Event{Label: 1, Weight: 5, Categorical: []string{"u", "i"}}
		line, err := AppendJSON(nil, &m.Schema, &Row{Event: e, Weight: 1, Topic: "t"})
		if err != nil || !bytes.HasPrefix(line, []byte(c.line)) {
			t.Fatalf("%s, error %v", line, err)
		}
		var back event.Event
		if r := formats.NewDecoder(&m).Decode(&back, line, 0); r != nil ||
			!bytes.Equal(rows.AppendEvent(nil, &back), rows.AppendEvent(nil, &e)) {
			t.Errorf("%s is %+v, was %+v (%v)", line, back, e, r)
		}
	}
}

// What is exported as JSON Lines is accepted by the daemon's decoder as the event it was, for every task.
func TestJSONRowsAreEventsAgain(t *testing.T) {
	for _, task := range []string{"regression", "binary", "named", "multiclass", "multilabel"} {
		m := tagged(task)
		if task == "named" {
			m = tagged("binary")
			m.Schema.Positive = "UP"
		}
		decoder := formats.NewDecoder(m)
		e := event.Event{
			Label:       1,
			Weight:      2.5,
			Time:        1_700_000_000_500,
			Categorical: []string{"naïve \"<\\\u2028"},
			Numeric:     []float64{-0.125},
			Multi:       [][]string{{"b", "a"}},
		}
		switch task {
		case "named":
			e.Label = 0
		case "multiclass":
			e.Label, e.Classes = 0, []string{"<green>"}
		case "multilabel":
			e.Label, e.Classes = 0, []string{"red", "<green>"}
		}
		line, err := AppendJSON([]byte("kept"), &m.Schema,
			&Row{Event: e, Role: sketch.Gate, Weight: 1, Inclusion: 0.25, Topic: "t", Partition: 3, Offset: 7})
		if err != nil || !bytes.HasPrefix(line, []byte(`kept{"y":`)) {
			t.Fatalf("%s, error %v", line, err)
		}
		var back event.Event
		if r := decoder.Decode(&back, line[len("kept"):], -1); r != nil {
			t.Fatalf("%s: %s: %s", task, r, line)
		}
		if want := rows.AppendEvent(nil, &e); !bytes.Equal(rows.AppendEvent(nil, &back), want) ||
			back.Identity != "t/3/7" {
			t.Errorf("%s: %+v, was %+v", task, back, e)
		}
		if !bytes.HasSuffix(
			line,
			[]byte(`"_role":"gate","_weight":1,"_inclusion_probability":0.25,"_topic":"t","_partition":3,"_offset":7}`),
		) {
			t.Errorf("%s", line)
		}
	}
}

func TestLIBSVMRows(t *testing.T) {
	m := tagged("multilabel")
	rows := []*Row{
		{
			Event: event.Event{
				Classes:     []string{"red", "<green>"},
				Categorical: []string{"u2"},
				Multi:       [][]string{{"z", "a"}},
				Numeric:     []float64{3},
			},
			Weight: 0.5,
		},
		{
			Event: event.Event{
				Classes:     []string{"<green>"},
				Categorical: []string{"u1"},
				Multi:       [][]string{nil},
				Numeric:     []float64{0},
			},
			Role:      sketch.Select,
			Weight:    1,
			Inclusion: 1,
		},
	}
	add, done := CollectColumns(&m.Schema)
	for _, r := range rows {
		if err := add(r); err != nil {
			t.Fatal(err)
		}
	}
	c := done()
	var got []string
	for _, r := range rows {
		got = append(got, string(c.AppendLIBSVM(nil, m.Schema.Classes, r)))
	}
	want := []string{
		"0,1 2:1 3:0.5 4:0.5 5:3 # role=train weight=0.5",
		"1 1:1 # role=select weight=1 inclusion_probability=1",
	}
	if !slices.Equal(got, want) || c.NumColumns() != 5 {
		t.Errorf("%q, want %q", got, want)
	}
	var names []string
	if err := c.Each(func(_ int, field, name string) error {
		names = append(names, field+"="+name)
		return nil
	}); err != nil || !slices.Equal(names, []string{"user=u1", "user=u2", "tags=a", "tags=z", "age="}) {
		t.Errorf("%q, error %v", names, err)
	}
	m.Schema.ListWeights = map[string]string{"tags": format.WeightSqrt}
	add, done = CollectColumns(&m.Schema)
	if err := add(rows[0]); err != nil {
		t.Fatal(err)
	}
	if got := string(done().AppendLIBSVM(nil, m.Schema.Classes,
		rows[0])); got != "0,1 1:1 2:0.7071067811865475 3:0.7071067811865475 4:3 # role=train weight=0.5" {
		t.Errorf("by weight sqrt %q", got)
	}
	if ClassNumber([]string{"3", "7"}, "7") != "7" {
		t.Error("classes that are numbers are renumbered")
	}
}

// Every row of a sample is exported once, with its weight.
func TestRowsHaveWeights(t *testing.T) {
	m := tagged("regression")
	store, err := sketch.NewMemory(ingest.StoreOptions(m))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Begin("t", 0, 0); err != nil {
		t.Fatal(err)
	}
	sink := ingest.New(m, store, nil)
	for i := range int64(100) {
		ev := event.Event{
			Label:       float64(i),
			Weight:      1 + float64(i%3),
			Time:        i,
			Identity:    string(rune('a' + i)),
			Categorical: []string{"u"},
			Multi:       [][]string{nil},
			Numeric:     []float64{1},
		}
		if err := sink.Feed("t", 0, i, &ev); err != nil {
			t.Fatal(err)
		}
	}
	s, err := store.Sample()
	if err != nil {
		t.Fatal(err)
	}
	roles, total := map[sketch.Role]int{}, 0.0
	if err := Rows(s, func(r *Row) error {
		if roles[r.Role]++; r.Role == sketch.Train {
			total += r.Weight
		}
		if !(r.Inclusion > 0 && r.Inclusion <= 1) {
			t.Errorf("inclusion probability %g", r.Inclusion)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if roles[sketch.Train] != len(s.Train) || roles[sketch.Select] != len(s.Select) ||
		roles[sketch.Gate] != len(s.Gate) ||
		len(s.Train) == 0 {
		t.Errorf("%v", roles)
	}
	if mean := total / float64(len(s.Train)); mean < 1-1e-9 || mean > 1+1e-9 {
		t.Errorf("mean weight %g", mean)
	}
}

// TestTimesAreOfTheUnit: a time is exported in the unit of the schema, and read again as it was.
func TestTimesAreOfTheUnit(t *testing.T) {
	for _, unit := range []string{"s", "ms", "us", "ns"} {
		m := tagged("regression")
		m.Schema.TimeUnit = unit
		e := event.Event{Label: 1, Weight: 1, Time: 1_700_000_000_500, Categorical: []string{"a"}, Numeric: []float64{1},
			Multi: [][]string{{"b"}}}
		line, err := AppendJSON(nil, &m.Schema, &Row{Event: e, Role: sketch.Train, Weight: 1, Topic: "t"})
		if err != nil {
			t.Fatal(err)
		}
		var back event.Event
		if r := formats.NewDecoder(m).Decode(&back, line, -1); r != nil || back.Time != e.Time {
			t.Errorf("%s: %v, time %d of %s", unit, r, back.Time, line)
		}
	}
}
