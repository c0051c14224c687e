package dataset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

func values(records []Record) (out []string) {
	for _, r := range records {
		out = append(out, string(r.Value))
	}
	return out
}

func TestCSVRecords(t *testing.T) {
	for name, c := range map[string]struct {
		text, key string
		want      []string
		keys      []string
		skipped   string
	}{
		"numbers stay numbers": {"user,item,rating,w\nu1,007,4.50,-1e3\n12345678901234567890,+1,.5,NaN\n", "user",
			[]string{`{"user":"u1","item":"007","rating":4.50,"w":-1e3}`,
				`{"user":12345678901234567890,"item":"+1","rating":0.5}`},
			[]string{"u1", "12345678901234567890"}, ""},
		"decimal commas": {"user;price;weight;item\nu1;16,88;-,5;1,2,3\n", "user",
			[]string{`{"user":"u1","price":16.88,"weight":-0.5,"item":"1,2,3"}`},
			[]string{"u1"}, ""},
		"commas of other files": {"user,price\nu1,\"16,88\"\n", "user", []string{`{"user":"u1","price":"16,88"}`},
			[]string{"u1"}, ""},
		"written times": {"at,day,user\n2026-01-31 12:00:00+01:00,2026-01-31,u1\n2026-01-31 " +
			"12:00:00.5,2026-01-31x,u2\n2026-01-31T12:00:00Z,,u3\n", "user",
			[]string{`{"at":"2026-01-31T12:00:00+01:00","day":"2026-01-31","user":"u1"}`,
				`{"at":"2026-01-31T12:00:00.5Z","day":"2026-01-31x","user":"u2"}`,
				`{"at":"2026-01-31T12:00:00Z","user":"u3"}`}, []string{"u1", "u2", "u3"}, ""},
		"quotes and line ends": {"a,b\r\n\"x, \"\"y\"\"\",\"two\nlines\"\r\n\"\",z\r\n", "b",
			[]string{`{"a":"x, \"y\"","b":"two\u000alines"}`, `{"b":"z"}`}, []string{"two\nlines", "z"}, ""},
		"a byte order mark": {"\ufeff\"user\",x\na,1\n", "user", []string{`{"user":"a","x":1}`}, []string{"a"}, ""},
		"missing and empty": {"a,b,c\n1,,3\n1\n\n,,\n1,2,3", "c", []string{`{"a":1,"c":3}`, `{}`, `{"a":1,"b":2,"c":3}`},
			[]string{"3", "", "3"},
			"1 line skipped: too_few_columns 1 time, first in line 3"},
		"columns without a name": {",a\n0,x\n1,y\n", "a", []string{`{"a":"x"}`, `{"a":"y"}`}, []string{"x", "y"}, ""},
		"no such key":            {"a\nx\n", "user", []string{`{"a":"x"}`}, []string{""}, ""},
		"bad lines": {"a,b\n1,2,3\n\"x\" y,1\n\xff,1\nok,1\n", "a", []string{`{"a":"ok","b":1}`}, []string{"ok"},
			"3 lines skipped: not_csv 1 time, first in line 3, not_utf8 1 time, first in line 4, too_many_columns 1 time, " +
				"first in line 2"},
		"hostile text": {"a\n\"</script>\x00\x1b[31m\u202e\"\n", "", []string{`{"a":"</script>\u0000\u001b[31m` + "\u202e" +
			`"}`}, []string{""}, ""},
		"empty":       {"", "a", nil, nil, ""},
		"header only": {"a,b\n", "a", nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			records, skipped := scan(t, write(t, "x.csv.gz", c.text), CSV, c.key)
			if got := values(records); !slices.Equal(got, c.want) {
				t.Errorf("records\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			for i, r := range records {
				if string(r.Key) != c.keys[i] || (r.Key == nil) != (c.keys[i] == "") || !json.Valid(r.Value) {
					t.Errorf("record %s has the key %q, want %q", r.Value, r.Key, c.keys[i])
				}
			}
			if skipped.String() != c.skipped {
				t.Errorf("skipped: %s", skipped.String())
			}
		})
	}
	records, _ := scan(t, write(t, "t.csv", "ts,x\n1700000000000,1\n1.5,1\n,1\n"), CSV, "x")
	if r := records[0]; r.Time != 1_700_000_000_000 || !r.HasTime || records[1].HasTime || records[2].HasTime {
		t.Errorf("times %+v", records)
	}
}

func TestCSVRefusals(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"the same name twice": {"a,b,a\n1,2,3\n", `two columns "a"`},
		"a name not UTF-8":    {"a,\xff\n1,2\n", "column 2 is not UTF-8"},
		"a header not CSV":    {"a\"b,c\n", "header"},
		"a header not closed": {"\"a,b\n1,2\n", "the header, line 1: expected a line by RFC 4180, got a quote that is not " +
			"closed"},
	} {
		_, err := ScanRecords(write(t, "x.csv", c.text), CSV, Fields{Key: "a"}, nil, func(Record) error { return nil })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestElectricity reads the whole of the data set, which is not part of the project.
func TestElectricity(t *testing.T) {
	path := tier.Shared(t, "data", "electricity", "electricity-normalized.csv.gz")
	records, skipped := scan(t, path, CSV, "day")
	want := `{"date":0,"day":2,"period":0,"nswprice":0.056443,"nswdemand":0.439155,"vicprice":0.003467,"vicdemand":0.422915,"transfer":0.414912,"class":"UP"}`
	if len(records) != 45_312 || skipped.Lines != 0 || string(records[0].Value) != want ||
		string(records[0].Key) != "2" {
		t.Errorf("%d records, %d skipped, first %s", len(records), skipped.Lines, records[0].Value)
	}
}

func TestSparseRecords(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		want    []string
		skipped string
	}{
		"zeros are filled in": {"15 1:1 3:.5\n-2.5e1 2:0 # a comment\n", []string{`{"label":15,"1":1,"2":0,"3":0.5}`,
			`{"label":-2.5e1,"1":0,"2":0,"3":0}`}, ""},
		"signed labels": {"+1 1:2\n-1 2:1\n-1.0 2:1\n", []string{`{"label":1,"1":2,"2":0}`, `{"label":0,"1":0,"2":1}`,
			`{"label":0,"1":0,"2":1}`}, ""},
		"classes": {"red 1:1\n2 1:1\n-1 1:1\n", []string{`{"label":"red","1":1}`, `{"label":2,"1":1}`,
			`{"label":-1,"1":1}`}, ""},
		"several labels": {"1,5 1:1\n7 1:1\n", []string{`{"label":["1","5"],"1":1}`, `{"label":["7"],"1":1}`}, ""},
		"one-hot": {"1 17:1 40213:1\n0 3:1 5:0\n1 2000:0.5\n", []string{`{"label":1,"features":["17","40213"]}`,
			`{"label":0,"features":["3"]}`},
			"1 line skipped: not_one_hot 1 time, first in line 3"},
		"not finite": {"nan 1:inf\n", []string{`{"label":"nan","1":"inf"}`}, ""},
		"bad lines": {"1 1:1\n1 0:1\n1 2:1 1:1\n1 x\n1 1:x\n\xff 1:1\n", []string{`{"label":1,"1":1}`},
			"5 lines skipped: not_libsvm 4 times, first in line 2, not_utf8 1 time, first in line 6"},
	} {
		t.Run(name, func(t *testing.T) {
			records, skipped := scan(t, write(t, "x.libsvm.gz", c.text), LIBSVM, "label")
			if got := values(records); !slices.Equal(got, c.want) {
				t.Errorf("records\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			for _, r := range records {
				if !json.Valid(r.Value) {
					t.Errorf("not JSON: %s", r.Value)
				}
			}
			if skipped.String() != c.skipped {
				t.Errorf("skipped: %s", skipped.String())
			}
		})
	}
}

func TestProgress(t *testing.T) {
	path := write(t, "x.csv", "a\n"+strings.Repeat("1\n", 300_000))
	var last, size, calls int64
	_, err := ScanRecords(path, CSV, Fields{Key: "a"}, func(read, all int64) {
		if read < last {
			t.Errorf("%d after %d", read, last)
		}
		last, size = read, all
		calls++
	}, func(Record) error { return nil })
	if err != nil || last != 600_002 || size != last || calls < 3 {
		t.Errorf("%d of %d bytes in %d calls, %v", last, size, calls, err)
	}
}

// FuzzCSV: whatever a file holds, its records are JSON objects with the cells of their line in them, and nothing is
// lost without being counted.
func FuzzCSV(f *testing.F) {
	for _, seed := range []string{"a,b\n1,x\n", "\ufeffa\n\"x\n\"\"y\"\n", "a,\n\xff,1\n", "a,a\n", "\"",
		"a\r\n1,2,3\r\n\n", ",\n,\n", "a\n\"x\"y\n1\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "x")
		if isCompressed(text) || bytes.HasPrefix(bytes.TrimPrefix(text, []byte(byteOrderMark)), []byte("sep=")) {
			return
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		n := int64(0)
		skipped, err := ScanRecords(path, CSV, Fields{Key: "a"}, nil, func(r Record) error {
			n++
			if !json.Valid(r.Value) || r.Value[0] != '{' {
				t.Fatalf("%q is no JSON object", r.Value)
			}
			return nil
		})
		if err != nil {
			return
		}
		plain, err := Text(bufio.NewReader(bytes.NewReader(text)))
		if err != nil {
			t.Fatal(err)
		}
		checkAccount(t, plain, n, &skipped)
	})
}

// FuzzSparse: every line taken as LIBSVM becomes valid JSON.
func FuzzSparse(f *testing.F) {
	for _, seed := range []string{"1 1:1", "+1 1:.5 3:-0 # x", "1,2 1:1e400", "nan 1:inf", "\" 1:1", "-1", "1 1:0x1p3",
		"1 1:1_0"} {
		f.Add(seed, 3, false)
	}
	f.Fuzz(func(t *testing.T, line string, columns int, lists bool) {
		table := sparseTable{columns: columns % 2000, lists: lists}
		r, reason := table.record([]byte(line), "label")
		if reason == "" && !json.Valid(r.Value) {
			t.Errorf("%q becomes %q", line, r.Value)
		}
	})
}

// TestLongCSV: what is bounded is a record, not the file.
func TestLongCSV(t *testing.T) {
	line := strings.Repeat("x", 1<<20) + "\n"
	path := write(t, "x.csv", "a\n"+strings.Repeat(line, maxLineBytes>>20+2))
	if records, skipped := scan(t, path, CSV, "a"); len(records) != maxLineBytes>>20+2 || skipped.Lines != 0 {
		t.Errorf("%d records, %d skipped", len(records), skipped.Lines)
	}
}
