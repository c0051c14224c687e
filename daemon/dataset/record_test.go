package dataset

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

func scan(t *testing.T, path string, format Format, key string) ([]Record, Skipped) {
	t.Helper()
	var out []Record
	skipped, err := ScanRecords(path, format, Fields{Key: key}, nil, func(r Record) error {
		out = append(out, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, skipped
}

func TestMovieLensRecords(t *testing.T) {
	path := write(t, "u.data", "196\t242\t3\t881250949\na\"b\\c\u0001ü::7::4.5\n1\t2\n1\t2\t03\t1\n"+
		"1\t2\t3\t99999999999999999\n1\t2\tNaN\t1\n\t2\t3\t1\n1\t2\t3\tx\n")
	records, skipped := scan(t, path, MovieLens, "item")
	if len(records) != 2 || skipped.Lines != 6 {
		t.Fatalf("%d records, %d skipped", len(records), skipped.Lines)
	}
	if r := records[0]; string(r.Value) != `{"user":"196","item":"242","rating":3,"ts":881250949000}` ||
		string(r.Key) != "242" ||
		r.Time != 881250949000 ||
		!r.HasTime {
		t.Errorf("record %s %s %d", r.Key, r.Value, r.Time)
	}
	if r := records[1]; string(r.Value) != `{"user":"a\"b\\c\u0001ü","item":"7","rating":4.5}` || r.HasTime {
		t.Errorf("record %s", r.Value)
	}
	if records, _ := scan(t, path, MovieLens, "user"); string(records[0].Key) != "196" {
		t.Errorf("key %s", records[0].Key)
	}
	if _, err := ScanRecords(path, MovieLens, Fields{Key: "genre"}, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "--key") {
		t.Errorf("key genre: %v", err)
	}
	if _, err := ScanRecords(path, "avro", Fields{Key: "user"}, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "--format") {
		t.Errorf("avro: %v", err)
	}
}

// TestTodaysMovieLens: ratings.csv, with its header and half stars, is read by the verbs and replayed as the older
// files are.
func TestTodaysMovieLens(t *testing.T) {
	path := write(
		t,
		"ratings.csv",
		"userId,movieId,rating,timestamp\r\n1,17,4.0,944249077\r\n1,25,0.5,944250228\r\n2,17,9,944250228\r\n"+
			"userId,movieId,rating,timestamp\r\n",
	)
	records, skipped := scan(t, path, MovieLens, "user")
	if len(records) != 3 || skipped.Lines != 1 ||
		string(records[1].Value) != `{"user":"1","item":"25","rating":0.5,"ts":944250228000}` {
		t.Errorf("records %v, %s", records, skipped.String())
	}
	halves := event.Schema{
		Task:        event.Regression,
		Label:       "rating",
		LabelMin:    0.5,
		LabelMax:    5,
		Time:        "ts",
		TimeUnit:    "ms",
		Categorical: []string{"user", "item"},
	}
	decoder := event.NewJSON(halves, event.DefaultLimits())
	set, err := Read(
		path,
		Options{
			Format: MovieLens,
			Schema: halves,
			Decode: func(ev *event.Event, value []byte, _ int64) *event.Rejection {
				return decoder.Decode(ev, value, -1)
			},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	if e := set.Examples; len(e) != 2 || e[1].Label != 0.5 || e[1].Line != 3 || e[1].Time != 944250228000 ||
		set.Skipped.String() !=
			"2 lines skipped: label_range rating 1 time, first in line 4, not_movielens 1 time, first in line 5" {
		t.Errorf("%+v, %s", e, set.Skipped.String())
	}
}

// TestHalfStars: half stars are levels from 1 to 10 for a model with ten, and in records that are replayed as such.
func TestHalfStars(t *testing.T) {
	path := write(
		t,
		"ratings.csv",
		ratingsHeader+"\n1,17,4.0,944249077\n1,25,0.5,944250228\n2,17,5,944250229\n2,18,4.25,944250230\n2,19,5.5,944250231\n"+
			"2,20,0,944250232\n",
	)
	records, _ := scan(t, path, HalfStars, "user")
	if len(records) != 6 || string(records[1].Value) != `{"user":"1","item":"25","rating":1,"ts":944250228000}` ||
		!strings.Contains(string(records[3].Value), `"rating":0,`) {
		t.Errorf("records %v", records)
	}
	levels := event.Schema{
		Task:        event.Ordinal,
		Label:       "rating",
		Levels:      10,
		Time:        "ts",
		TimeUnit:    "ms",
		Categorical: []string{"user", "item"},
	}
	read := func(format Format) (*Set, error) {
		decoder := event.NewJSON(levels, event.DefaultLimits())
		return Read(
			path,
			Options{
				Format: format,
				Schema: levels,
				Decode: func(ev *event.Event, value []byte, _ int64) *event.Rejection {
					return decoder.Decode(ev, value, -1)
				},
			},
		)
	}
	set, err := read(MovieLens)
	if err != nil {
		t.Fatal(err)
	}
	if e := set.Examples; len(e) != 3 || e[0].Label != 8 || e[1].Label != 1 || e[2].Label != 10 ||
		set.Skipped.Lines != 3 {
		t.Errorf("%+v, %s", e, set.Skipped.String())
	}
	levels.Levels = 5
	if set, err = read(MovieLens); err != nil || len(set.Examples) != 2 || set.Examples[0].Label != 4 {
		t.Errorf("five levels are whole stars: %+v, %v", set, err)
	}
	if _, err := read(HalfStars); err == nil ||
		!strings.Contains(err.Error(), "--format half-stars is for replay only") {
		t.Errorf("half-stars in a verb: %v", err)
	}
}

func TestJSONLRecords(t *testing.T) {
	lines := []struct {
		text, key string
		time      int64
		hasTime   bool
		ok        bool
	}{
		{`{"user":"a\u00e9","x":{"user":"no"},"ts":5}`, "aé", 5, true, true},
		{`{"user":17.50}`, "17.50", 0, false, true},
		{`{"ts":1.5,"user":["a"]}`, "", 0, false, true},
		{` {"a":1} `, "", 0, false, true},
		{`{"user":"a"} x`, "", 0, false, false},
		{`{"user":"a"`, "", 0, false, false},
		{`["user"]`, "", 0, false, false},
		{`{"user":"a","user":"b"}`, "", 0, false, false},
		{`{"user":"a","x":}`, "", 0, false, false},
	}
	var text strings.Builder
	for _, l := range lines {
		text.WriteString(l.text + "\n")
	}
	records, skipped := scan(t, write(t, "e.jsonl", text.String()), JSONL, "user")
	i := 0
	for _, l := range lines {
		if !l.ok {
			continue
		}
		r := records[i]
		i++
		if string(r.Value) != strings.TrimSpace(l.text) || string(r.Key) != l.key || (r.Key == nil) != (l.key == "") ||
			r.Time != l.time ||
			r.HasTime != l.hasTime {
			t.Errorf("%s: record %q key %q time %d", l.text, r.Value, r.Key, r.Time)
		}
	}
	if i != len(records) || skipped.Lines != int64(len(lines)-i) {
		t.Errorf("%d records, %d skipped", len(records), skipped.Lines)
	}
}

// TestLinesAreKept checks that lines become records byte for byte, whatever they hold.
func TestLinesAreKept(t *testing.T) {
	lines := []string{`{"user":"a"}`, "", " \t ", "\xff\x00\r", "{{{", "last"}
	records, _ := scan(t, write(t, "l.gz", strings.Join(lines, "\n")), Lines, "user")
	if len(records) != len(lines) {
		t.Fatalf("%d records of %d lines", len(records), len(lines))
	}
	for i, r := range records {
		if string(r.Value) != lines[i] || r.Key != nil {
			t.Errorf("line %d: %q key %q, want %q", i, r.Value, r.Key, lines[i])
		}
	}
}

func TestScanStops(t *testing.T) {
	path := write(t, "l", "a\nb\nc\n")
	n := 0
	if _, err := ScanRecords(path, Lines, Fields{}, nil, func(Record) error { n++; return ErrStop }); err != nil ||
		n != 1 {
		t.Errorf("ErrStop: %d records, %v", n, err)
	}
	broken := errors.New("broken")
	if _, err := ScanRecords(path, Lines, Fields{}, nil, func(Record) error { return broken }); !errors.Is(err,
		broken) {
		t.Errorf("error %v", err)
	}
}

// FuzzRating checks that every line taken as a rating becomes valid JSON with the same text in it.
func FuzzRating(f *testing.F) {
	for _, seed := range []string{"196\t242\t3\t881250949", "1::2::3", "a::b::-1.5e3::-7", "\"\t\\\t0", "é\tü\t1\t2",
		"1\t2\t3\t"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		r, ok := parseRating([]byte(line))
		if !ok {
			return
		}
		var e struct {
			User, Item string
			Rating     json.Number
			TS         *int64
		}
		value := r.appendJSON(nil)
		if err := json.Unmarshal(value, &e); err != nil || !utf8.Valid(value) {
			t.Fatalf("%q becomes %q: %v", line, value, err)
		}
		if e.User != string(r.user) || e.Item != string(r.item) || e.Rating.String() != string(r.number) ||
			(e.TS != nil) != r.hasTime {
			t.Errorf("%q becomes %q", line, value)
		}
	})
}

// TestML100K reads the whole of the data set, which is not part of the project.
func TestML100K(t *testing.T) {
	path := tier.Shared(t, "data", "ml-100k", "u.data.gz")
	records, skipped := scan(t, path, MovieLens, "user")
	if len(records) != 100_000 || skipped.Lines != 0 {
		t.Errorf("%d records, %d skipped", len(records), skipped.Lines)
	}
	s, err := Read(path, Options{Format: MovieLens, Schema: ratings, Decode: decodeRating()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Arrange(TimeOrder, 0, 0); err != nil || s.Examples[0].Time != 874724710000 ||
		len(s.Examples) != 100_000 {
		t.Errorf("first in time order %+v, %v", s.Examples[0], err)
	}
}

// TestRecordsOfOtherColumns: columns of CSV and Parquet files become the fields that they are said to be, of which one
// is the key; columns without such names, and formats without columns, are refused.
func TestRecordsOfOtherColumns(t *testing.T) {
	csv := write(t, "x.csv", "userId,user,stars,at\nu1,Ann,4.5,7\n")
	bare := write(t, "bare.csv", "u1;Ann;4.5\n")
	parquet := func(field string) Fields {
		return Fields{Key: "name", Columns: Columns{Of: map[string]string{"name": "user", "ts": field}}}
	}
	for _, c := range []struct {
		path      string
		format    Format
		fields    Fields
		want, key string
		time      int64
	}{
		{csv, CSV, Fields{Key: "user", Columns: Columns{Of: map[string]string{"user": "userId", "rating": "stars",
			"ts": "at"}}}, `{"user":"u1","rating":4.5,"ts":7}`, "u1", 7},
		{csv, CSV, Fields{Key: "user", Columns: Columns{Of: map[string]string{"user": "userId", "userId": "user"}}},
			`{"user":"u1","userId":"Ann","stars":4.5,"at":7}`, "u1", 0},
		{bare, CSV, Fields{Key: "b", Columns: Columns{Names: []string{"a", "", "stars"},
			Of: map[string]string{"b": "stars"}}}, `{"a":"u1","b":4.5}`, "4.5", 0},
		{pandasFile, Parquet, parquet("when"),
			`{"name":"u1","item":7,"rating":4.5,"up":true,"price":1.25,"shop":12,"tags":["a","b|c"],"ts":1704164645678}`, "u1",
			1704164645678},
	} {
		var records []Record
		_, err := ScanRecords(c.path, c.format, c.fields, nil, func(r Record) error {
			records = append(records, r)
			return nil
		})
		if err != nil || len(records) == 0 {
			t.Fatalf("%s: %v", c.want, err)
		}
		if r := records[0]; string(r.Value) != c.want || string(r.Key) != c.key || r.Time != c.time ||
			r.HasTime != (c.time > 0) {
			t.Errorf("%s, key %q, time %d; want %s", r.Value, r.Key, r.Time, c.want)
		}
	}
	for want, c := range map[string]struct {
		path   string
		format Format
		Columns
	}{
		`no column "who" for the field "user": there are userId, user, stars, at`: {csv, CSV,
			Columns{Of: map[string]string{"user": "who"}}},
		`the column "stars" cannot be two fields, "a" and "b"`: {csv, CSV,
			Columns{Of: map[string]string{"a": "stars", "b": "stars"}}},
		`no column "who" for the field "user": there are user, item`: {pandasFile, Parquet,
			Columns{Of: map[string]string{"user": "who"}}},
		"--map is for --format csv and parquet, which have columns, not for movielens": {csv, MovieLens,
			Columns{Of: map[string]string{"user": "who"}}},
		"--columns is for --format csv, which may have no header, not for parquet": {csv, Parquet,
			Columns{Names: []string{"user"}}},
		"the first line has 4 columns, and 1 names of columns are given": {csv, CSV, Columns{Names: []string{"user"}}},
	} {
		_, err := ScanRecords(c.path, c.format, Fields{Key: "user", Columns: c.Columns}, nil,
			func(Record) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
