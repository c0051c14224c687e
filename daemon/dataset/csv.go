package dataset

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/refitd/refitd/consumer/event"
)

// A csvTable turns the lines of a CSV file with a header (RFC 4180) into JSON events. Columns become fields in their order: a cell that is a
// JSON number stays the number it is, digit by digit, any other is text, and an empty or missing one is no field. Columns without
// a name are left out.
type csvTable struct {
	names []string // "" for a column that is left out
	key   int      // column of the record's key, -1 if there is none
	time  int      // column of timeField, -1 if there is none
}

// byteOrderMark begins files that some spreadsheets write.
const byteOrderMark = "\ufeff"

// scanCSV calls visit with the record of each line.
func scanCSV(path, keyField string, progress func(read, size int64), visit func(Record) error, skipped *Skipped) error {
	return openFile(path, progress, func(r io.Reader) error {
		long := &recordLimit{r: r, left: maxLineBytes}
		content := bufio.NewReader(long)
		if mark, _ := content.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
			_, _ = content.Discard(len(byteOrderMark)) // was peeked at
		}
		c := csv.NewReader(content)
		c.FieldsPerRecord = -1 // what is missing and what is too much is distinguished below
		c.ReuseRecord = true
		header, err := c.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("dataset: %s: header: %w", path, err)
		}
		t, err := newCSVTable(header, keyField)
		if err != nil {
			return fmt.Errorf("dataset: %s: %w", path, err)
		}
		for {
			long.left = maxLineBytes
			cells, err := c.Read()
			if parse, ok := errors.AsType[*csv.ParseError](err); ok {
				skipped.add(badLine(notCSV), parse.StartLine)
				continue
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("dataset: read %s after byte %d: %w", path, c.InputOffset(), err)
			}
			line, _ := c.FieldPos(0)
			if len(cells) > len(t.names) {
				skipped.add(badLine(tooManyColumns), line)
				continue
			}
			if slices.ContainsFunc(cells, func(cell string) bool { return !utf8.ValidString(cell) }) {
				skipped.add(badLine(event.NotUTF8), line)
				continue
			}
			if err := visit(t.record(cells)); err != nil {
				return err
			}
		}
	})
}

func newCSVTable(header []string, keyField string) (*csvTable, error) {
	t := &csvTable{key: -1, time: -1}
	for i, name := range header {
		switch {
		case !utf8.ValidString(name):
			return nil, fmt.Errorf("the name of column %d is not UTF-8", i+1)
		case name != "" && slices.Contains(t.names, name):
			return nil, fmt.Errorf("the header has two columns %q: an event has each field once", name)
		case name == "":
		case name == keyField:
			t.key = i
		}
		if name == timeField {
			t.time = i
		}
		t.names = append(t.names, name)
	}
	return t, nil
}

// record returns the event of a line.
func (t *csvTable) record(cells []string) Record {
	r := Record{Value: []byte{'{'}}
	for i, cell := range cells {
		if cell == "" || t.names[i] == "" {
			continue
		}
		if len(r.Value) > 1 {
			r.Value = append(r.Value, ',')
		}
		r.Value = append(appendString(r.Value, []byte(t.names[i])), ':')
		r.Value = appendScalar(r.Value, []byte(cell))
		if i == t.key {
			r.Key = []byte(cell)
		}
		if i == t.time {
			ms, err := strconv.ParseInt(cell, 10, 64)
			r.Time, r.HasTime = ms, err == nil
		}
	}
	r.Value = append(r.Value, '}')
	return r
}

// appendScalar appends a JSON number if s is one, else the text.
func appendScalar(dst, s []byte) []byte {
	if isNumber(s) {
		return append(dst, s...)
	}
	return appendString(dst, s)
}

// recordLimit ends the reading of a file whose quotes do not close: a record has at most so many bytes, give or take a buffer.
type recordLimit struct {
	r    io.Reader
	left int
}

func (l *recordLimit) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("record longer than %d bytes: is a quote not closed?", maxLineBytes)
	}
	n, err := l.r.Read(b[:min(len(b), l.left)])
	l.left -= n
	return n, err
}
