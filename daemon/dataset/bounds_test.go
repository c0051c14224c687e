package dataset

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"github.com/refitd/refitd/consumer/event"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// bomb returns a gzip file of n bytes, which repeat a line.
func bomb(t *testing.T, line string, n int) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, strings.Repeat(line, 1<<20/len(line))); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "bomb.gz")
	if err := os.WriteFile(path, bytes.Repeat(b.Bytes(), n>>20), 0o600); err != nil { // a gzip file may have several parts
		t.Fatal(err)
	}
	return path
}

// TestBombs: a small file that becomes a large one ends in an error that says so.
func TestBombs(t *testing.T) {
	const want = "more than 200 times as many: if that is right, decompress it first"
	path := bomb(t, "u1\ti1\t"+strings.Repeat("x", 1<<10)+"\n", anyExpansion+64<<20)
	lines := 0
	_, scanErr := ScanRecords(path, Lines, Fields{}, nil, func(Record) error { lines++; return nil })
	_, profileErr := ReadProfile(path, CSV, 10)
	for reader, err := range map[string]error{"scan": scanErr, "profile": profileErr} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", reader, err)
		}
	}
	if lines < anyExpansion>>11 {
		t.Errorf("%d lines are read of a file that may be a good one", lines)
	}
}

// heap returns the bytes that are in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestProfileMemory: what a profile holds is bounded, whatever values and members there are.
func TestProfileMemory(t *testing.T) {
	before := heap()
	values := func(yield func([]byte, *event.Rejection) bool) {
		long := bytes.Repeat([]byte("x"), 1<<20)
		for i := range 300 { // 300 MiB of distinct values
			if !yield(fmt.Appendf(nil, `{"text":"%d%s","rating":%d}`, i, long, i%5), nil) {
				return
			}
		}
	}
	p := ProfileOf(values)
	if held := heap() - before; held > maxProfileBytes+32<<20 {
		t.Errorf("%d bytes are held", held)
	}
	if c := p.column("text"); p.Rows != 300 || c.Present != 300 || c.Distinct() < 200 ||
		p.column("rating").Distinct() != 5 {
		t.Errorf("%d rows, %d values, %d distinct ones", p.Rows, c.Present, c.Distinct())
	}
	n := 0
	p = ProfileOf(func(yield func([]byte, *event.Rejection) bool) {
		for more := true; more && n < 200; n++ {
			object := []byte("{")
			for i := range 1000 {
				object = fmt.Appendf(object, `"m%d":1,`, 1000*n+i)
			}
			more = yield(append(object, `"user":"u"}`...), nil)
		}
	})
	if len(p.Columns) != maxColumns || p.Skipped.Lines != 101 || p.Skipped.Causes[0].Reason != tooManyColumns {
		t.Errorf("%d columns, %+v", len(p.Columns), p.Skipped)
	}
	runtime.KeepAlive(p)
}

// TestManyColumns: a header with very many columns is read in a time that grows with it, and more than maxColumns
// are refused.
func TestManyColumns(t *testing.T) {
	names := make([]string, maxColumns)
	for i := range names {
		names[i] = fmt.Sprint("c", i)
	}
	header, row := strings.Join(names, ","), strings.Repeat("1,", maxColumns-1)+"1"
	p, err := ReadProfile(write(t, "x.csv", header+"\n"+row+"\n"), "", 10)
	if err != nil || len(p.Columns) != maxColumns || p.Columns[maxColumns-1].Numbers != 1 {
		t.Fatalf("%v", err)
	}
	_, err = ReadProfile(write(t, "y.csv", header+strings.Repeat(",x", 1<<20)+"\n"), "", 10)
	if err == nil || !strings.Contains(err.Error(), "there are more than 100000 columns") {
		t.Error(err)
	}
	records, skipped := scan(t, write(t, "z.csv", "a,b\n"+strings.Repeat("1,", 4<<20)+"\n1,2\n"), CSV, "a")
	if len(records) != 1 || skipped.Lines != 1 || skipped.Causes[0].Reason != tooManyColumns {
		t.Errorf("%d records, %+v", len(records), skipped)
	}
}

// TestEmptyLines: lines of white space before the header are not held, and are counted as lines.
func TestEmptyLines(t *testing.T) {
	blank := strings.NewReader(strings.Repeat(" \r\n\n\t\n", 4<<20))
	rows, err := newCSVRows(io.MultiReader(blank, strings.NewReader("a;b\n1;2\n")), nil)
	if err != nil || cap(rows.csv.buf) > 1<<20 {
		t.Fatalf("%d bytes are held, %v", cap(rows.csv.buf), err)
	}
	if cells, line, _, err := rows.next(); err != nil || line != 3*4<<20+2 || !slices.Equal(cells, []string{"1", "2"}) {
		t.Errorf("%q in line %d, %v", cells, line, err)
	}
	p, err := ReadProfile(write(t, "x.csv", "  \n\n \n"), "", 10)
	if err == nil || !strings.Contains(err.Error(), "has no rows") {
		t.Errorf("%+v, %v", p, err)
	}
}
