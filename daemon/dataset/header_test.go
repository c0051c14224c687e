package dataset

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"

	"github.com/refitd/refitd/consumer/event"
)

// oddSheets are files as people have them, whose rows are u1 with a and u2 with b.
var oddSheets = map[string]struct{ text, skipped string }{
	"a title":              {"Sales report 2024\n\nuser,item\nu1,a\nu2,b\n", "above_header 1 time, first in line 1"},
	"comments":             {"# by x, y\n# 2024\nuser,item\nu1,a\nu2,b\n", "above_header 2 times, first in line 1"},
	"a comment of the end": {"user,item\nu1,a\nu2,b\n# 2 rows\n", "too_few_columns 1 time, first in line 4"},
	"a header again":       {"user,item\nu1,a\nuser,item\nu2,b\n", "header_again 1 time, first in line 3"},
	"totals":               {"user,item\nu1,a\nu2,b\nTotal:,\n\n", "totals 1 time, first in line 4"},
	"a name called total":  {"user,item,x\nu1,a,\nu2,b,\ntotal,c,\nu3,d,\n", ""},
	"commas behind rows":   {"user,item\nu1,a,\nu2,b,,, ,\n", ""},
	"more cells":           {"user,item\nu1,a\nu2,b\nu3,c,d\n", "too_many_columns 1 time, first in line 4"},
	"more behind a hole":   {"user,item\nu1,a\nu2,b\nu3,c,,d\n", "too_many_columns 1 time, first in line 4"},
	"spaces in the header": {" user , item\nu1 , a\nu2, b\n", ""},
	"spaces before quotes": {"\"user\", \"item\"\n\"u1\" , \"a\"\nu2, \"b\"\n", ""},
	"texts of Excel":       {"user,item\n=\"u1\",a\nu2,=\"b\"\n", ""},
	"another separator":    {"user;item, in words, of us\nu1;a\nu2;b\nu3;c\n", ""},
	"two marks":            {byteOrderMark + byteOrderMark + "user,item\nu1,a\nu2,b\n", ""},
}

// TestOddSheets: what is around the rows of a file is not taken for rows, and each line of it is in the account.
func TestOddSheets(t *testing.T) {
	for name, c := range oddSheets {
		records, skipped := scan(t, write(t, "x.csv", c.text), CSV, "user")
		var got []string
		for _, r := range records {
			got = append(got, string(r.Value))
		}
		item := `"item":`
		if name == "another separator" {
			item = `"item, in words, of us":`
		}
		want := []string{`{"user":"u1",` + item + `"a"}`, `{"user":"u2",` + item + `"b"}`}
		if len(got) < 2 || !slices.Equal(got[:2], want) {
			t.Errorf("%s: %q", name, got)
		}
		if why := skipped.String(); !strings.Contains(why, c.skipped) || (c.skipped == "") != (why == "") {
			t.Errorf("%s: %q, want %q", name, why, c.skipped)
		}
	}
	// Where the first row is too short, the one behind it is no header below two lines of title.
	p, err := ReadProfile(write(t, "y.csv", "user name,label\nAnna Smith\n"+strings.Repeat("Bob Jones,1\n", 30)), CSV, 100)
	if err != nil || p.Columns[0].Name != "user name" || p.Skipped.Causes[0].Reason != tooFewColumns {
		t.Errorf("a short first row: %v, %v", p, err)
	}
	p, err = ReadProfile(write(t, "y.csv", "Sales, in EUR\nof us\nuser,2023,2024\nu1,5,6\nu2,7,8\n"), CSV, 100)
	if err != nil || p.Columns[0].Name != "user" {
		t.Errorf("years in a header: %v, %v", p, err)
	}
	// A header with a name less than there are columns, as R writes it, is no title.
	_, skipped := scan(t, write(t, "x.csv", "user,item\n1,u1,a\n2,u2,b\n3,u3,c\n"), CSV, "user")
	if skipped.Lines != 3 {
		t.Errorf("names of rows: %s", &skipped)
	}
}

// TestWindowsText: text of Windows-1252 is read as what it says, in every format of text, and text in UTF-8 with a
// byte that is none keeps it.
func TestWindowsText(t *testing.T) {
	long := strings.Repeat("u9,a\n", 100_000) // the first umlaut is far behind the buffer
	for name, text := range map[string]string{"short": "user,item\nu1,Käse “5 €”\n",
		"long": "user,item\n" + long + "u1,ü\n"} {
		coded, err := charmap.Windows1252.NewEncoder().String(text)
		if err != nil {
			t.Fatal(err)
		}
		for ending, content := range map[string]string{"": coded, ".gz": coded} {
			records, skipped := scan(t, write(t, "x.csv"+ending, content), CSV, "user")
			last := string(records[len(records)-1].Value)
			if want := text[strings.LastIndex(text, "u1,")+3 : len(text)-1]; skipped.Lines > 0 || !strings.Contains(last, want) {
				t.Errorf("%s%s: %s, %s", name, ending, last, &skipped)
			}
		}
		p, err := ReadProfile(write(t, "y.csv", coded), "", 1_000_000)
		if err != nil || p.Encoding != "Windows-1252" {
			t.Errorf("%s: encoding %q, %v", name, p.Encoding, err)
		}
	}
	// A letter that was cut in two costs its cell, not the letters of all others.
	records, _ := scan(t, write(t, "x.csv", "user,item\ncaf\xc3,a\n"+strings.Repeat("Zoë,é…\n", 1000)), CSV, "user")
	for _, r := range records[1:] {
		if string(r.Value) != `{"user":"Zoë","item":"é…"}` {
			t.Fatalf("behind a letter cut in two: %s", r.Value)
		}
	}
	if len(records) != 1001 {
		t.Errorf("a letter cut in two: %d records", len(records))
	}
	records, _ = scan(t, write(t, "x.jsonl", "{\"user\":\"K\xe4se\"}\n"), JSONL, "user")
	if len(records) != 1 || string(records[0].Value) != `{"user":"Käse"}` {
		t.Errorf("JSON Lines: %v", records)
	}
	for name, text := range map[string]string{"UTF-8 first": "user,item\nü,a\nK\xe4se,b\n",
		"no letter": "user,item\nu,a\n\x81,b\n", "a rare letter": "user,item\nu,a\n\xff,b\n"} {
		records, skipped := scan(t, write(t, "x.csv", text), CSV, "user")
		if len(records) != 1 || skipped.Causes[0].Reason != event.NotUTF8 {
			t.Errorf("%s: %d records, %s", name, len(records), &skipped)
		}
	}
}

// TestNotOurFiles: files of text that hold no rows are refused with what they are and what to do.
func TestNotOurFiles(t *testing.T) {
	for text, want := range map[string]string{
		"\n<!DOCTYPE html>\n<p>no":                     "it is a web page",
		"<?xml version=\"1.0\"?>\n<a>":                 "it is XML",
		"%PDF-1.4\n1 0 obj":                            "it is a PDF document",
		"version https://git-lfs.github.com/spec/v1\n": "git lfs pull fetches the file",
		"@RELATION x\n@data\n":                         "it is ARFF of Weka",
		"INSERT INTO x VALUES\n(1)":                    "it is SQL",
		"1 |u u1 |i i1 price:5\n":                      "it is text of Vowpal Wabbit",
		"-1 2.5 id|f a:1\n":                            "it is text of Vowpal Wabbit",
		"\x89PNG\r\n\x1a\n\x00\x01\xf3\x99":            "it is no text, and of no format that is known here",
	} {
		path := write(t, "x", text)
		format, err := Detect(path)
		if err == nil {
			_, err = ReadProfile(path, format, 10)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"1|Toy Story (1995)|a\n2|Heat (1995)|b\n",
		"1|2|3\n4|5|6\n", "user|item\n1 |2\n", "1 | 2 | 3\n4 | 5 | 6\n", "xml,y\n1,2\n"} {
		if _, err := ReadProfile(write(t, "x", text), CSV, 10); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for path, want := range map[string]string{"https://example.org/a.csv": "is a URL: fetch it first",
		"/nowhere/*.csv": "is a pattern", "/nowhere/a.parquet": "no such file"} {
		for _, format := range []Format{CSV, Parquet} {
			if _, err := ReadProfile(path, format, 10); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", path, err, want)
			}
		}
	}
}

// TestAlmostJSON: the first line that is no JSON is refused with what it has.
func TestAlmostJSON(t *testing.T) {
	const good = `{"user":"a","x":1}` + "\n"
	for line, want := range map[string]string{
		`{"user":"a","x":NaN}`:                   "NaN or Infinity",
		`{"user":"a","x":-Infinity}`:             "NaN or Infinity",
		`{'user':'a'}`:                           "quotes of Python",
		`{"user":"a","x":None}`:                  "None, True or False",
		`{"user":"a"},`:                          "a comma behind the object",
		`{"user":"a",}`:                          "a comma before a brace",
		`{"user":"a"}{"user":"b"}`:               "several objects",
		`{"user":"a"`:                            "does not end in its line",
		`// by x`:                                "a comment",
		`{"user":"a" "x":1}`:                     "something else",
		`{"user":"a, NaN, b","x":1 2}`:           "something else",
		fmt.Sprintf(`{"x":"%70000d`, 1):          "something else",
		`{"user":"a","x":1,"x":1,"t":[true,NaN]`: "twice",
	} {
		p, err := ReadProfile(write(t, "x.jsonl", good+line+"\n"+line+"\n"), "", 10)
		if err != nil || p.Skipped.Lines != 2 {
			t.Fatalf("%s: %v", line, err)
		}
		if got := p.Skipped.Causes[0].Got; !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// blanks gives line feeds without an end, and counts them.
type blanks struct{ given int }

func (b *blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '\n'
	}
	b.given += len(p)
	if b.given > 100*headerBytes {
		return 0, errBlanks
	}
	return len(p), nil
}

var errBlanks = errors.New("read too far")

// TestBlankEnd: empty lines behind the header, or behind what may be totals, are not held to see whether a row comes.
func TestBlankEnd(t *testing.T) {
	for _, text := range []string{"user,item\n", "user,item\nu1,a\nTotal,\n"} {
		end := new(blanks)
		c := &csvReader{r: io.MultiReader(strings.NewReader(text), end), line: 1, Comma: ','}
		if text == "user,item\n" {
			c.findHeader()
		} else {
			for range 3 {
				if _, _, bad, err := c.read(); bad != nil || err != nil {
					t.Fatal(bad, err)
				}
			}
			if c.atEnd() {
				t.Error("the end is seen")
			}
		}
		if end.given == 0 || end.given > 4*headerBytes {
			t.Errorf("%q: %d bytes are read", text, end.given)
		}
	}
}
