package dataset

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// checkAccount: every line of a CSV file that is not empty is the header, a record, a line that was skipped, or
// one that a quoted cell continues. The header may have several lines, too.
func checkAccount(t interface{ Errorf(string, ...any) }, text io.Reader, records int64, skipped *Skipped) {
	content, err := io.ReadAll(text)
	if err != nil {
		t.Errorf("%v", err)
	}
	lines, empty := int64(0), int64(0)
	for line := range bytes.Lines(content) {
		lines++
		if len(bytes.TrimRight(line, "\r\n")) == 0 {
			empty++ // within a cell it is part of a record
		}
	}
	account := records + skipped.Lines + skipped.Continued + 1
	if lines > empty && (account < lines-empty || account > lines) {
		t.Errorf("%d lines, %d of them empty: %d records, %d skipped, %d continued of %.2000q", lines, empty, records,
			skipped.Lines, skipped.Continued, content)
	}
}

// rowsWith returns a file of rows u0,i0,4 …, with other lines for some, by number from 2.
func rowsWith(rows int, separator string, other map[int]string) string {
	var b strings.Builder
	b.WriteString(strings.Join([]string{"user", "item", "title", "rating\n"}, separator))
	for line := 2; line <= rows+1; line++ {
		text, ok := other[line]
		if !ok {
			text = fmt.Sprintf("u%d,i%d,Plain title,%d", line%50, line%30, 1+line%5)
		}
		b.WriteString(strings.ReplaceAll(text, ",", separator) + "\n")
	}
	return b.String()
}

// TestOpenQuotes: a quote that is not closed is the fault of its line alone, wherever the next quote is, and every
// other row is read.
func TestOpenQuotes(t *testing.T) {
	const rows = 3000
	for name, c := range map[string]struct {
		other map[int]string
		bad   []int // lines that are no rows where commas separate cells
	}{
		"alone":              {map[int]string{1502: `u1,i1,"Live at night,5`}, []int{1502}},
		"in the last line":   {map[int]string{3001: `u1,i1,"Live,5`}, []int{3001}},
		"two far apart":      {map[int]string{500: `u1,i1,"Live,5`, 900: `u2,i2,Endless",2`}, []int{500, 900}},
		"two close together": {map[int]string{500: `u1,i1,"Live,5`, 503: `u2,i2,Endless",2`}, []int{500, 503}},
		"then whole ones": {map[int]string{500: `u1,i1,"Live,5`, 510: `u1,i1,"Best, of",5`, 520: `u1,i1,"",5`},
			[]int{500}},
		"many": {map[int]string{20: `u1,i1,"Live,5`, 21: `u1,i1,"Live,5`, 22: `u1,i1,"Live,5`,
			30: `u1,i1,"Live,5`}, []int{20, 21, 22, 30}},
		"within a cell": {map[int]string{20: `u1,i1,12" vinyl,5`, 40: `u1,i1,"Best" of 2014,5`,
			60: `u1,i1,The "Real" thing,5`}, []int{20, 40, 60}},
		"first cell":          {map[int]string{20: `"u1,i1,Live,5`, 400: `u9,i1,"",5`}, []int{20}},
		"beyond what is read": {map[int]string{20: `u1,i1,"` + strings.Repeat(`""`, 400_000) + `,5`}, []int{20}},
	} {
		t.Run(name, func(t *testing.T) {
			records, skipped := scan(t, write(t, "x.csv", rowsWith(rows, ",", c.other)), CSV, "user")
			if len(records) != rows-len(c.bad) || skipped.Lines != int64(len(c.bad)) || skipped.Continued != 0 ||
				len(
					skipped.Causes,
				) != 1 || skipped.Causes[0].Reason != notCSV || !slices.Equal(skipped.Causes[0].First, c.bad) {
				t.Errorf("%d records, %+v, want the lines %d skipped", len(records), skipped, c.bad)
			}
			// Where tabs separate cells a quote may be a letter as any other, and no line is lost.
			records, skipped = scan(t, write(t, "x.tsv", rowsWith(rows, "\t", c.other)), CSV, "user")
			if len(records) != rows || skipped.Lines != 0 || skipped.Continued != 0 {
				t.Errorf("with tabs: %d records, %+v", len(records), skipped)
			}
		})
	}
}

// TestQuotesOfTabs: what a quote is where tabs separate cells: part of the cell, unless it and another one are all
// around it.
func TestQuotesOfTabs(t *testing.T) {
	text := "user\ttitle\n" + "u1\t\"Live\n" + "u2\t12\" vinyl\n" + "u3\t\"Best\" of 2014\n" + "u4\t\"two\nlines\"\n" +
		"u5\t\"a \"\"b\"\"\tc\"\n" + "\"u6\"\t\"\n"
	records, skipped := scan(t, write(t, "x.tsv", text), CSV, "user")
	want := []string{`{"user":"u1","title":"\"Live"}`, `{"user":"u2","title":"12\" vinyl"}`,
		`{"user":"u3","title":"\"Best\" of 2014"}`,
		`{"user":"u4","title":"two\u000alines"}`, `{"user":"u5","title":"a \"b\"\u0009c"}`, `{"user":"u6","title":"\""}`}
	if got := values(records); !slices.Equal(got, want) || skipped.Lines != 0 || skipped.Continued != 1 {
		t.Errorf("records\n%s\nwant\n%s\n%+v", strings.Join(got, "\n"), strings.Join(want, "\n"), skipped)
	}
}

// TestLongCells: a cell in quotes may have many lines, and no more than that.
func TestLongCells(t *testing.T) {
	row := func(lines int) string { return "u1,\"" + strings.Repeat("text\n", lines-1) + "\"\n" }
	text := "user,title\n" + row(maxCellLines) + "u2,x\n"
	if records, skipped := scan(t, write(t, "x.csv", text), CSV, "user"); len(records) != 2 || skipped.Lines != 0 ||
		skipped.Continued != maxCellLines-1 {
		t.Errorf("%d records, %+v", len(records), skipped)
	}
	text = "user,title\n" + row(maxCellLines+1) + "u2,x\n"
	records, skipped := scan(t, write(t, "x.csv", text), CSV, "user")
	if len(records) != 1 || skipped.Lines != maxCellLines+1 || skipped.Causes[0].Got != "a quote that is not closed" ||
		skipped.Causes[0].First[0] != 2 {
		t.Errorf("%d records, %+v", len(records), skipped)
	}
	long := "u1," + strings.Repeat("x", maxLineBytes+100) + "\n"
	records, skipped = scan(t, write(t, "x.csv", "user,title\n"+long+"u2,x\n"+strings.TrimSpace(long)), CSV, "user")
	if len(records) != 1 || skipped.Lines != 2 || !slices.Equal(skipped.Causes[0].First, []int{2, 4}) ||
		skipped.Causes[0].Got != "a longer line" {
		t.Errorf("%d records, %d skipped, %v", len(records), skipped.Lines, skipped.Causes)
	}
}

// TestFirstLineQuotes: with the names of columns given, a first line whose quotes do not fit is a line that is
// skipped.
func TestFirstLineQuotes(t *testing.T) {
	var skipped Skipped
	n := 0
	skipped, err := ScanRecords(write(t, "x.csv", "u1,\"Live\nu2,x\n"), CSV, Fields{Key: "user",
		Columns: Columns{Names: []string{"user", "title"}}}, nil,
		func(Record) error { n++; return nil })
	if err != nil || n != 1 || skipped.Lines != 1 || skipped.Causes[0].First[0] != 1 {
		t.Errorf("%d records, %+v, %v", n, skipped, err)
	}
}

// TestAccountOfLines: whatever cells hold, every line is in an account.
func TestAccountOfLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		separator := rapid.SampledFrom([]string{",", "\t", ";"}).Draw(t, "separator")
		cell := rapid.SampledFrom([]string{"x", "", `"`, `""`, `"a"`, `"a`, `a"`, `"a""`, "\"a\nb\"",
			`"` + separator + `"`, "\"\n", "1.5", "\r"})
		var b strings.Builder
		b.WriteString("user" + separator + "b" + separator + "c\n")
		for range rapid.IntRange(0, 30).Draw(t, "rows") {
			cells := rapid.SliceOfN(cell, 2, 4).Draw(t, "cells")
			b.WriteString(
				strings.Join(cells, separator) + rapid.SampledFrom([]string{"\n", "\r\n", "\n\n"}).Draw(t, "end"))
		}
		rows, err := newCSVRows(strings.NewReader(b.String()), nil)
		if err != nil {
			t.Fatal(err)
		}
		var skipped Skipped
		records := int64(0)
		err = each("x", rows.next, &skipped, func(cells []string, _ int) error {
			if records++; len(cells) != 3 {
				t.Errorf("%d cells %q", len(cells), cells)
			}
			return nil
		})
		if skipped.Continued = rows.csv.continued; err != nil {
			t.Fatal(err)
		}
		checkAccount(t, bufio.NewReader(strings.NewReader(b.String())), records, &skipped)
	})
}

// FuzzQuotes: rows written by RFC 4180 are read as they were, in any size of what is read at a time.
func FuzzQuotes(f *testing.F) {
	f.Add("a", "b\"c", "d\ne", uint8(1))
	f.Add("", "\"\"\n,", "\r\n", uint8(7))
	f.Fuzz(func(t *testing.T, a, b, c string, size uint8) {
		quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
		want := []string{a, b, c}
		text := "x,y,z\n" + quote(a) + "," + quote(b) + "," + quote(c) + "\n"
		const believed = 3 // the header and a record of two lines, which cannot look like rows
		if strings.Contains(text, "\r") || strings.Count(text, "\n") > believed || len(text) > maxRecordBytes {
			return
		}
		rows, err := newCSVRows(&slowReader{strings.NewReader(text), int(size)%64 + 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		cells, _, bad, err := rows.csv.read()
		if err != nil || bad != nil || !slices.Equal(cells, want) {
			t.Errorf("%q, %v, %v, want %q", cells, bad, err, want)
		}
	})
}

// slowReader gives few bytes at a time.
type slowReader struct {
	r    io.Reader
	most int
}

func (s *slowReader) Read(b []byte) (int, error) { return s.r.Read(b[:min(len(b), s.most)]) }
