package dataset

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/refitd/refitd/consumer/event"
)

// write stores text in a file of the test, compressed if the name ends in .gz.
func write(t *testing.T, name, text string) string {
	t.Helper()
	content := []byte(text)
	if strings.HasSuffix(name, ".gz") {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(content)
		z.Close()
		content = b.Bytes()
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var ratings = event.Schema{
	Task:        event.Ordinal,
	Label:       "rating",
	Levels:      5,
	Time:        "ts",
	TimeUnit:    "ms",
	Categorical: []string{"user", "item"},
}

// decodeRating is a slow stand-in for the consumer's decoder. It uses its memory again, as that one does.
func decodeRating() DecodeFunc {
	shared := make([]string, 2)
	return func(ev *event.Event, value []byte, _ int64) *event.Rejection {
		var e struct {
			User, Item string
			Rating     float64
			TS         int64
		}
		if err := json.Unmarshal(value, &e); err != nil {
			return &event.Rejection{Reason: event.NotJSON}
		}
		if e.Rating < 1 || e.Rating > 5 {
			return &event.Rejection{Reason: event.LabelRange, Field: "rating"}
		}
		shared[0], shared[1] = e.User, e.Item
		*ev = event.Event{Label: e.Rating, Time: e.TS, Weight: 1, Categorical: shared}
		return nil
	}
}

func TestReadMovieLens(t *testing.T) {
	for name, text := range map[string]string{
		"tabs": "196\t242\t3\t881250949\n186\t302\t3\t891717742\n22\t377\t9\t878887116\nrubbish\n\n" +
			"244\t51\t2\t880606923",
		"double colons": "196::242::3::881250949\n186::302::3::891717742\n22::377::9::878887116\nrubbish\n\n" +
			"244::51::2::880606923",
		"with gzip": "196\t242\t3\t881250949\n186\t302\t3\t891717742\n22\t377\t9\t878887116\nrubbish\n\n" +
			"244\t51\t2\t880606923\n",
		"carriage lines": "196\t242\t3\t881250949\r\n186\t302\t3\t891717742\r\n22\t377\t9\t878887116\r\nrubbish\r\n" +
			"\r\n244\t51\t2\t880606923\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			file := "u.data"
			if name == "with gzip" {
				file = "u.data.gz"
			}
			s, err := Read(write(t, file, text), Options{Format: MovieLens, Schema: ratings, Decode: decodeRating()})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range s.Examples {
				got = append(got, strings.Join(e.Categorical, "/"))
			}
			if want := []string{"196/242", "186/302", "244/51"}; !slices.Equal(got, want) {
				t.Errorf("examples %q, want %q", got, want)
			}
			if e := s.Examples[2]; e.Time != 880606923000 || e.Label != 2 || e.Line != 6 {
				t.Errorf("last example %+v", e)
			}
			if got := s.Skipped.String(); got != "2 lines skipped: label_range rating 1 time, first in line 3, "+
				"not_movielens 1 time, first in line 4" {
				t.Errorf("skipped: %s", got)
			}
			if err := s.Arrange(TimeOrder, 0, 2); err != nil || s.Examples[0].Categorical[0] != "244" ||
				len(s.Examples) != 2 {
				t.Errorf("in time order %+v, %v", s.Examples, err)
			}
		})
	}
}

func TestMovieLensWithoutTimes(t *testing.T) {
	s, err := Read(write(t, "r.dat", "1::1::5\n1::48::5\n"),
		Options{Format: MovieLens, Schema: ratings, Decode: decodeRating()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Arrange(TimeOrder, 0, 0); !errors.Is(err, ErrNoTime) {
		t.Errorf("time order without times: %v", err)
	}
}

func TestReadJSONL(t *testing.T) {
	text := `{"user":"a","item":"b","rating":4,"ts":7}
{"user":"c","item":"d","rating":0}
{"user":
{"user":"e","item":"f","rating":1}`
	s, err := Read(write(t, "e.jsonl", text), Options{Format: JSONL, Schema: ratings, Decode: decodeRating()})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Examples) != 2 || s.Examples[0].Categorical[0] != "a" || s.Examples[1].Categorical[0] != "e" ||
		s.Skipped.Lines != 2 {
		t.Errorf("set %+v", s)
	}
}

func TestReadLIBSVM(t *testing.T) {
	for _, test := range []struct {
		name   string
		schema event.Schema
		text   string
		labels []float64
		class  [][]string
		skip   string
	}{
		{"regression", event.Schema{Task: event.Regression}, "15 1:1 3:.5 \n-2.5e1 2:0\nx 1:1\nnan 1:1\n", []float64{15, -25},
			nil,
			"2 lines skipped: not_finite 1 time, first in line 4, wrong_type 1 time, first in line 3"},
		{"range", event.Schema{Task: event.Regression, LabelMin: 0, LabelMax: 9}, "5 3:1\n10 1:1\n", []float64{5}, nil,
			"1 line skipped: label_range 1 time, first in line 2"},
		{"binary", event.Schema{Task: event.Binary}, "+1 3:1\n-1 1:1\n0 1:1\n2 1:1", []float64{1, 0, 0}, nil,
			"1 line skipped: label_range 1 time, first in line 4"},
		{"ordinal", event.Schema{Task: event.Ordinal, Levels: 3}, "3 3:1\n4 1:1\n1.5 1:1\n", []float64{3}, nil,
			"2 lines skipped: label_range 2 times, first in line 2"},
		{"multiclass", event.Schema{Task: event.Multiclass}, "0 3:1\nred 1:1 # a comment\n", []float64{0, 0},
			[][]string{{"0"}, {"red"}}, ""},
		{"multilabel", event.Schema{Task: event.Multilabel, Classes: []string{"1", "2"}}, "1,2 3:1\n3 1:1\n", []float64{0},
			[][]string{{"1", "2"}},
			"1 line skipped: label_unknown 1 time, first in line 2"},
		{"bad columns", event.Schema{Task: event.Regression}, "1 3:1\n1 0:1\n1 2:1 2:1\n1 2:1 1:1\n1 a:1\n1 1\n1 1:x\n1 " +
			"1:inf\n1 999999999:1\n", []float64{1}, nil,
			"8 lines skipped: not_finite 1 time, first in line 8, not_libsvm 7 times, first in line 2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := Read(write(t, "x.libsvm", test.text), Options{Format: LIBSVM, Schema: test.schema})
			if err != nil {
				t.Fatal(err)
			}
			for i, e := range s.Examples {
				if i >= len(test.labels) || e.Label != test.labels[i] ||
					test.class != nil && !reflect.DeepEqual(e.Classes, test.class[i]) ||
					e.Weight != 1 {
					t.Errorf("example %d: %+v", i, e)
				}
			}
			if len(s.Examples) != len(test.labels) || s.NumFeatures != 3 || s.Skipped.String() != test.skip {
				t.Errorf("%d examples, %d features, skipped %q", len(s.Examples), s.NumFeatures, s.Skipped.String())
			}
		})
	}
	s, err := Read(write(t, "x.libsvm", "15 1:1 2:0 3:.5\n"),
		Options{Format: LIBSVM, Schema: event.Schema{Task: event.Regression}})
	if err != nil || !slices.Equal(s.Examples[0].Sparse, []Entry{{0, 1}, {2, 0.5}}) {
		t.Errorf("entries %+v, %v: want zeros left out and indices from 0", s.Examples, err)
	}
}

func TestReadRefusals(t *testing.T) {
	some := write(t, "x", "rubbish\n")
	truncated := write(t, "t.gz", strings.Repeat("1::1::5\n", 10000))
	content, _ := os.ReadFile(truncated)
	os.WriteFile(truncated, content[:len(content)/2], 0o600)
	for _, test := range []struct {
		path string
		o    Options
		want string
	}{
		{some, Options{Format: "avro"}, "--format must be movielens, jsonl, libsvm, csv or parquet"},
		{some, Options{Format: Lines}, "replay only"},
		{some, Options{Format: MovieLens, Decode: decodeRating()}, "no valid event as --format movielens: 1 line skipped"},
		{write(t, "empty", ""), Options{Format: LIBSVM}, "it has no lines"},
		{some + "x", Options{Format: LIBSVM}, "no such file"},
		{write(t, "long", strings.Repeat("x", maxLineBytes+1)), Options{Format: LIBSVM}, "line longer than"},
		{truncated, Options{Format: MovieLens, Decode: decodeRating()}, "unexpected EOF"},
		{write(t, "bad.gz.txt", "\x1f\x8bnot gzip"), Options{Format: LIBSVM}, "gzip"},
	} {
		if _, err := Read(test.path, test.o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.o.Format, err, test.want)
		}
	}
}

func TestArrange(t *testing.T) {
	examples := func() *Set {
		s := &Set{HasTime: true}
		for i := range 100 {
			s.Examples = append(s.Examples, Example{Line: i + 1, Event: event.Event{Time: int64(i % 3)}})
		}
		return s
	}
	lines := func(s *Set) []int {
		out := make([]int, len(s.Examples))
		for i, e := range s.Examples {
			out[i] = e.Line
		}
		return out
	}
	file, byTime, a, b, c := examples(), examples(), examples(), examples(), examples()
	for _, err := range []error{file.Arrange(FileOrder, 1, 0), byTime.Arrange(TimeOrder, 1, 0), a.Arrange(ShuffleOrder, 1,
		0),
		b.Arrange(ShuffleOrder, 1, 0), c.Arrange(ShuffleOrder, 2, 0)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := lines(byTime); !slices.Equal(got[:3], []int{1, 4, 7}) || !slices.Equal(got[98:], []int{96, 99}) {
		t.Errorf("time order is not stable: %v", got)
	}
	if slices.Equal(lines(a), lines(file)) || !slices.Equal(lines(a), lines(b)) || slices.Equal(lines(a), lines(c)) {
		t.Error("the shuffle must depend on the seed and nothing else")
	}
	// Recorded: the order is part of what makes runs repeatable.
	if got, want := lines(a)[:8], []int{61, 96, 100, 50, 48, 47, 5, 44}; !slices.Equal(got, want) {
		t.Errorf("shuffle with seed 1 starts with %v, recorded %v", got, want)
	}
	var records []Record
	for i := range 100 {
		records = append(records, Record{Time: int64(i + 1), HasTime: true})
	}
	if err := ArrangeRecords(records, ShuffleOrder, 1); err != nil || int(records[0].Time) != a.Examples[0].Line ||
		int(records[99].Time) != a.Examples[99].Line {
		t.Errorf("records and examples are shuffled differently, %v", err)
	}
	if err := file.Arrange("sideways", 0, 0); err == nil || !strings.Contains(err.Error(), "--order") {
		t.Errorf("unknown order: %v", err)
	}
}

func TestSplit(t *testing.T) {
	var f Fractions
	if err := f.UnmarshalText([]byte("0.5,0.25,0.25")); err != nil {
		t.Fatal(err)
	}
	p := SplitRandom(103, f, 7)
	if len(p.Test) != 25 || len(p.Valid) != 25 || len(p.Train) != 53 {
		t.Errorf("parts of %d, %d, %d", len(p.Train), len(p.Valid), len(p.Test))
	}
	if q := SplitRandom(103, f, 7); !reflect.DeepEqual(p, q) {
		t.Error("the same seed gives another split")
	}
	if q := SplitRandom(103, f, 8); slices.Equal(p.Test, q.Test) {
		t.Error("another seed gives the same split")
	}
	byTime := SplitTime([]int64{5, 1, 1, 9, 0, 3, 8, 7}, f)
	if want := (Parts{Train: []int{4, 1, 2, 5}, Valid: []int{0, 7}, Test: []int{6, 3}}); !reflect.DeepEqual(byTime,
		want) {
		t.Errorf("by time %v, want %v", byTime, want)
	}
	for _, bad := range []string{"", "1", "0.5,0.5", "0.5,0.5,0.5", "0,0.5,0.5", "-1,1,1", "a,b,c", "NaN,0,1",
		"0.5,0.25,0.25,0"} {
		if f.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("split %q is taken as %v", bad, f)
		}
	}
}

// TestSplitCoversAll checks that every example is in exactly one part.
func TestSplitCoversAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 200).Draw(t, "n")
		test := rapid.Float64Range(0, 0.49).Draw(t, "test")
		valid := rapid.Float64Range(0, 0.49).Draw(t, "valid")
		times := rapid.SliceOfN(rapid.Int64Range(0, 9), n, n).Draw(t, "times")
		f := Fractions{1 - test - valid, valid, test}
		for _, p := range []Parts{SplitRandom(n, f, rapid.Uint64().Draw(t, "seed")), SplitTime(times, f)} {
			all := slices.Concat(p.Train, p.Valid, p.Test)
			slices.Sort(all)
			for i, j := range all {
				if i != j {
					t.Fatalf("parts %v", p)
				}
			}
			if len(all) != n {
				t.Fatalf("%d of %d examples", len(all), n)
			}
		}
	})
}
