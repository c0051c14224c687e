package dataset

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/refitd/refitd/consumer/event"
)

// tableSchema has a field of every kind.
func tableSchema(task event.Task) event.Schema {
	return event.Schema{
		Task:        task,
		Label:       "rating",
		Levels:      5,
		Time:        "ts",
		TimeUnit:    "ms",
		Categorical: []string{"user", "item"},
		Numeric:     []string{"price"},
		Multi:       []string{"genres"},
		Optional:    []string{"price", "genres"},
	}
}

// rowsOf returns the JSON of the rows of a table, or why they are none.
func rowsOf(t *testing.T, text string, schema event.Schema, columns Columns, labels bool) (rows []string) {
	t.Helper()
	table, err := NewTable(strings.NewReader(text), &schema, columns, labels)
	if err != nil {
		t.Fatal(err)
	}
	for {
		value, _, bad, err := table.Next()
		switch {
		case err == io.EOF:
			return rows
		case err != nil:
			t.Fatal(err)
		case bad != nil:
			rows = append(rows, string(bad.Reason)+": "+bad.Expected+", "+bad.Got)
		default:
			rows = append(rows, string(value))
		}
	}
}

func TestTable(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		task    event.Task
		columns Columns
		want    []string
	}{
		"MovieLens of today": {"userId,movieId,rating,timestamp\n1,307,3.5,1256677221\n", event.Regression,
			Columns{Of: map[string]string{"user": "userId", "item": "movieId", "ts": "timestamp"}},
			[]string{`{"rating":3.5,"user":"1","item":"307","ts":1256677221}`}},
		"every kind": {"item;user;rating;price;genres;ts;other\n 7 ;\"u\"\"1\";+4;.5;Drama | " +
			"Film-Noir;2023-11-14T22:13:20.5Z;x\n", event.Ordinal, Columns{},
			[]string{`{"rating":4,"user":"u\"1","item":"7","price":0.5,"genres":["Drama","Film-Noir"],"ts":1700000000500}`}},
		"times": {"user\titem\trating\tts\na\tb\t1\t2023-11-14 " +
			"22:13:20\na\tb\t1\t2023-11-14\na\tb\t1\tyesterday\na\tb\t1\t1969-12-31T23:59:59.999Z\n", event.Ordinal,
			Columns{}, []string{`{"rating":1,"user":"a","item":"b","ts":1700000000000}`,
				`{"rating":1,"user":"a","item":"b","ts":1699920000000}`,
				`{"rating":1,"user":"a","item":"b","ts":"yesterday"}`, `{"rating":1,"user":"a","item":"b","ts":-1}`}},
		"decimal commas": {"user;item;rating;price;ts\n1,5;b;4,0;-16,88;2023-11-14 " +
			"23:13:20+01:00\na;b;2;1.234,56;2023-11-14 22:13:20+00\n", event.Ordinal, Columns{},
			[]string{`{"rating":4.0,"user":"1,5","item":"b","price":-16.88,"ts":1700000000000}`,
				`{"rating":2,"user":"a","item":"b","price":1234.56,"ts":1700000000000}`}},
		"commas of other files": {"user,item,rating,price\na,b,1,\"16,88\"\n", event.Ordinal, Columns{},
			[]string{`{"rating":1,"user":"a","item":"b","price":"16,88"}`}},
		"no header": {"u,i,5\n\"a,b\",2,4\n", event.Ordinal, Columns{Names: []string{"user", "item", "stars"},
			Of: map[string]string{LabelField: "stars"}},
			[]string{`{"rating":5,"user":"u","item":"i"}`, `{"rating":4,"user":"a,b","item":"2"}`}},
		"binary": {"rating,user,item\nTRUE,a,b\nfalse,a,b\n1,a,b\nUP,a,b\n", event.Binary, Columns{},
			[]string{`{"rating":true,"user":"a","item":"b"}`, `{"rating":false,"user":"a","item":"b"}`,
				`{"rating":1,"user":"a","item":"b"}`,
				`{"rating":"UP","user":"a","item":"b"}`}},
		"classes": {"rating,user,item\n7,a,b\n", event.Multiclass, Columns{},
			[]string{`{"rating":"7","user":"a","item":"b"}`}},
		"labels": {"rating,user,item\nx|y,a,b\n", event.Multilabel, Columns{},
			[]string{`{"rating":["x","y"],"user":"a","item":"b"}`}},
		"numbers that are none": {"rating,user,item,price\n0x1p3,a,b,inf\n1_0,a,b,1e999\n", event.Ordinal, Columns{},
			[]string{`{"rating":"0x1p3","user":"a","item":"b","price":"inf"}`,
				`{"rating":"1_0","user":"a","item":"b","price":1e999}`}},
		"bad rows": {"rating,user,item\n1,a,b\n2,a\n3,a,b,c\n", event.Ordinal, Columns{},
			[]string{`{"rating":1,"user":"a","item":"b"}`,
				"too_few_columns: the 3 columns of the header, 2 columns",
				"too_many_columns: as many columns as the header, more"}},
		"empty cells": {"rating,user,item,price\n1,a,, \n", event.Ordinal, Columns{}, []string{`{"rating":1,"user":"a"}`}},
		"words for no value": {"rating,user,item,price,genres,ts\n1,NA,nan,NaN,None,NaT\nN/A,\\N,b,<NA>,\\N,null\n",
			event.Ordinal, Columns{},
			[]string{`{"rating":1,"user":"NA","item":"nan","genres":["None"]}`, `{"item":"b"}`}},
		"marks for no value": {"rating,user,item,price,genres,ts\n1,?,-,?,.,-\n(null),.,b,#DIV/0!,?,nil\n" +
			"2,a,b,1.#QNAN,c,--\n", event.Ordinal, Columns{},
			[]string{`{"rating":1,"user":"?","item":"-","genres":["."]}`, `{"user":".","item":"b","genres":["?"]}`,
				`{"rating":2,"user":"a","item":"b","genres":["c"]}`}},
		"a separator in quotes": {"\"a;b;c;d\",rating,user,item\n1,1,a,b\n", event.Ordinal, Columns{},
			[]string{`{"rating":1,"user":"a","item":"b"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rowsOf(t, c.text, tableSchema(c.task), c.columns, true); !slices.Equal(got, c.want) {
				t.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
	if got := rowsOf(t, "user,item\na,b\n", tableSchema(event.Ordinal), Columns{}, false); !slices.Equal(got,
		[]string{`{"user":"a","item":"b"}`}) {
		t.Errorf("rows without labels %q", got)
	}
}

// TestTableOfNamedLabels: cells are names where labels are.
func TestTableOfNamedLabels(t *testing.T) {
	s := event.Schema{Task: event.Binary, Label: "y", Positive: "1", Negative: "-1", Categorical: []string{"user"}}
	path := write(t, "y.csv", "user,y\nu,1\nu,-1\nu,true\n")
	set, err := Read(path, Options{Format: CSV, Schema: s, Decode: event.NewJSON(s, event.DefaultLimits()).Decode})
	if err != nil || len(set.Examples) != 2 || set.Examples[0].Label != 1 || set.Examples[1].Label != 0 ||
		set.Skipped.Causes[0].Reason != event.LabelUnknown {
		t.Errorf("%+v, error %v", set, err)
	}
	sparse := write(t, "y.libsvm", "+1 1:2\n1 1:2\n-1 1:3\n")
	set, err = Read(sparse, Options{Format: LIBSVM, Schema: s})
	if err != nil || len(set.Examples) != 2 || set.Skipped.Causes[0].String() !=
		`label_unknown: field "y": expected 1 or -1, got another name` || set.Examples[1].Label != 0 {
		t.Errorf("%+v, error %v", set, err)
	}
}

func TestTableRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		columns Columns
		want    []string
	}{
		"missing columns": {"userId,movieId,rating\n", Columns{},
			[]string{`no column "user" for the field "user": there are userId, movieId, rating. --map user=COLUMN names another`,
				`no column "item"`}},
		"no header": {"u1,i1,3\n", Columns{}, []string{`no column "rating"`,
			"if the first line is no header, --columns"}},
		"no label": {"user,item,stars\n", Columns{}, []string{`no column "rating"`}},
		"no such column": {"user,item,rating\n", Columns{Of: map[string]string{"price": "cost"}},
			[]string{`no column "cost" for the field "price"`}},
		"no such field": {"user,item,rating\n", Columns{Of: map[string]string{"users": "user"}},
			[]string{"--map users: the schema has no such field"}},
		"too few names": {"a,b,4\n", Columns{Names: []string{"user", "item"}},
			[]string{"the first line has 3 columns, and 2 names of columns are given"}},
		"a name twice": {"a,b,4\n", Columns{Names: []string{"user", "item", "item"}}, []string{`two columns "item"`}},
	} {
		schema := tableSchema(event.Ordinal)
		_, err := NewTable(strings.NewReader(c.text), &schema, c.columns, true)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

// TestZstd reads a compressed file as it is without compression.
func TestZstd(t *testing.T) {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	const text = "user,item\nu1,3\nu2,4\n"
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var read [2][]string
	for i, content := range []string{text, b.String()} {
		_, err := ScanRecords(write(t, "x.csv", content), CSV, Fields{Key: "user"}, nil, func(r Record) error {
			read[i] = append(read[i], string(r.Value))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(read[0]) != 2 || !slices.Equal(read[0], read[1]) {
		t.Errorf("records %q and %q", read[0], read[1])
	}
}

// TestHeadNumbers: words for no value among numbers are no number in the rows that a profile keeps, and other cells are
// theirs.
func TestHeadNumbers(t *testing.T) {
	p, err := ReadProfile(write(t, "x.csv", "a;b\n1,5;x\nNA;y\n;x\n7;z\n"), "", 10)
	if err != nil {
		t.Fatal(err)
	}
	c := p.Columns[0]
	var got []string
	for _, i := range c.Head() {
		if i < 0 {
			got = append(got, "none")
		} else {
			got = append(got, fmt.Sprint(c.HeadNumbers()[i]))
		}
	}
	if want := []string{"1.5", "NaN", "none", "7"}; !slices.Equal(got, want) || c.Present != 2 || c.Distinct() != 2 {
		t.Errorf("head %v, want %v; %+v", got, want, c)
	}
}
