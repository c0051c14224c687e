package dataset

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/refitd/refitd/consumer/event"
)

// csvRows reads the rows of a CSV file: RFC 4180, with another separator where its first line has more of that.
type csvRows struct {
	names []string // of the columns
	csv   *csv.Reader
	long  *recordLimit
	ready []string // a row that was read already, to tell the number of columns
}

// byteOrderMark begins files that some spreadsheets write.
const byteOrderMark = "\ufeff"

// separators are what may stand between cells. The first of those that are equally frequent in the first line is taken.
var separators = []rune{',', '\t', ';', '|'}

// newCSVRows begins with the header, unless the names of the columns are given: then the first line is a row. Without any line it returns io.EOF.
func newCSVRows(r io.Reader, names []string) (*csvRows, error) {
	long := &recordLimit{r: r, left: maxLineBytes}
	content := bufio.NewReaderSize(long, 64<<10)
	if mark, _ := content.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = content.Discard(len(byteOrderMark)) // was peeked at
	}
	c := csv.NewReader(content)
	c.Comma = sniff(content)
	c.FieldsPerRecord = -1 // what is missing and what is too much is distinguished by those who read rows
	c.ReuseRecord = true
	rows := &csvRows{names: slices.Clone(names), csv: c, long: long}
	first, err := c.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case err != nil:
		return nil, fmt.Errorf("header: %w", err)
	case names == nil:
		rows.names = slices.Clone(first)
	default:
		if len(first) != len(names) {
			return nil, fmt.Errorf("the first line has %d columns, and %d names of columns are given", len(first), len(names))
		}
		rows.ready = first
	}
	seen := make(map[string]bool, len(rows.names))
	for i, name := range rows.names {
		if !utf8.ValidString(name) {
			return nil, fmt.Errorf("the name of column %d is not UTF-8", i+1)
		}
		if name != "" && seen[name] {
			return nil, fmt.Errorf("the header has two columns %q: an event has each field once", name)
		}
		seen[name] = true
	}
	return rows, nil
}

// sniff returns the separator of the first line.
func sniff(r *bufio.Reader) rune {
	line := peekLine(r)
	counts := make([]int, len(separators))
	quoted := false
	for _, b := range line {
		if b == '"' {
			quoted = !quoted
		}
		if i := slices.Index(separators, rune(b)); i >= 0 && !quoted {
			counts[i]++
		}
	}
	return separators[slices.Index(counts, slices.Max(counts))]
}

// commas reports whether numbers may have a decimal comma: where a comma separates no cells.
func (r *csvRows) commas() bool { return r.csv.Comma != ',' }

// decimalComma matches a number with one.
var decimalComma = regexp.MustCompile(`^[+-]?[0-9]*,[0-9]+$`)

// withPoint returns a number with a decimal comma with a point in its place, and any other cell as it is.
func withPoint(cell string) string {
	if strings.IndexByte(cell, ',') >= 0 && decimalComma.MatchString(cell) {
		return strings.Replace(cell, ",", ".", 1)
	}
	return cell
}

// next returns the cells of the next row, which are valid until the next call, and its line; or why it is none. At the end the error is io.EOF.
func (r *csvRows) next() (cells []string, line int, bad *event.Rejection, err error) {
	if cells = r.ready; cells != nil {
		r.ready = nil
	} else {
		r.long.left = maxLineBytes
		cells, err = r.csv.Read()
	}
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		return nil, parse.StartLine, badLine(notCSV), nil
	}
	if errors.Is(err, io.EOF) {
		return nil, 0, nil, io.EOF
	}
	if err != nil {
		return nil, 0, nil, fmt.Errorf("after byte %d: %w", r.csv.InputOffset(), err)
	}
	line, _ = r.csv.FieldPos(0)
	switch {
	case len(cells) > len(r.names):
		return nil, line, badLine(tooManyColumns), nil
	case len(cells) < len(r.names):
		return nil, line, &event.Rejection{Reason: tooFewColumns, Expected: fmt.Sprintf("the %d columns of the header", len(r.names)),
			Got: fmt.Sprintf("%d columns", len(cells))}, nil
	case slices.ContainsFunc(cells, func(cell string) bool { return !utf8.ValidString(cell) }):
		return nil, line, badLine(event.NotUTF8), nil
	}
	return cells, line, nil, nil
}

// each calls visit with what next returns, until the end of the file at path, and counts what is none.
func each[T any](path string, next func() (T, int, *event.Rejection, error), skipped *Skipped, visit func(row T, line int) error) error {
	for {
		row, line, bad, err := next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("dataset: read %s %w", path, err)
		case bad != nil:
			skipped.add(bad, line)
			continue
		}
		if err := visit(row, line); err != nil {
			return err
		}
	}
}

// appendName goes on with an object by the name of the next field.
func appendName(object []byte, name string) []byte {
	if len(object) > 1 {
		object = append(object, ',')
	}
	return append(appendString(object, []byte(name)), ':')
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
