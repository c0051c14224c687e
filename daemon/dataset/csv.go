package dataset

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/refitd/refitd/consumer/event"
)

// csvRows reads the rows of a CSV file: RFC 4180, with another separator where its first line has more of that.
type csvRows struct {
	names []string // of the columns
	csv   *csvReader
	ready bool // the first row was read already, to tell the number of columns
	first firstRow
}

// firstRow is what csvReader.read returned.
type firstRow struct {
	cells []string
	line  int
	bad   *event.Rejection
}

// separators are what may stand between cells. The first of those that are equally frequent in the first line is taken.
var separators = []byte{',', '\t', ';', '|'}

// newCSVRows begins with the header, unless the names of the columns are given: then the first line is a row. Without any line it returns io.EOF.
func newCSVRows(r io.Reader, names []string) (*csvRows, error) {
	c := &csvReader{r: r, line: 1}
	separator, hinted := c.hint()
	if c.Comma = separator; !hinted {
		c.Comma = sniff(c.firstLine())
	}
	rows := &csvRows{names: slices.Clone(names), csv: c}
	cells, line, bad, err := c.read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case err != nil:
		return nil, err
	case names != nil && bad == nil && len(cells) != len(names):
		return nil, fmt.Errorf("the first line has %d columns, and %d names of columns are given", len(cells), len(names))
	case names != nil:
		rows.first, rows.ready = firstRow{slices.Clone(cells), line, bad}, true
	case bad != nil:
		return nil, fmt.Errorf("the header, line %d: expected %s, got %s", line, bad.Expected, bad.Got)
	default:
		rows.names = slices.Clone(cells)
	}
	c.columns = len(rows.names)
	return rows, distinctNames(rows.names)
}

// distinctNames refuses columns of one name, names that are no text, and more columns than maxColumns.
func distinctNames(names []string) error {
	if len(names) > maxColumns {
		return fmt.Errorf("there are more than %d columns: write names as lists in one column of Parquet or JSON Lines",
			maxColumns)
	}
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		if !utf8.ValidString(name) {
			return fmt.Errorf("the name of column %d is not UTF-8", i+1)
		}
		if name != "" && seen[name] {
			return fmt.Errorf("there are two columns %q, and an event has each field once: rename one of them", name)
		}
		seen[name] = true
	}
	return nil
}

// sniff returns the separator of the first line.
func sniff(line []byte) byte {
	counts := make([]int, len(separators))
	quoted := false
	for _, b := range line {
		if b == '"' {
			quoted = !quoted
		}
		if i := slices.Index(separators, b); i >= 0 && !quoted {
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
	if r.ready {
		cells, line, bad, r.ready = r.first.cells, r.first.line, r.first.bad, false
	} else if cells, line, bad, err = r.csv.read(); err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("after line %d: %w", r.csv.line-1, err)
	}
	if err != nil || bad != nil {
		return nil, line, bad, err
	}
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

// A csvTable turns rows into records of JSON events. Columns become fields in their order: a cell that is a JSON number stays the number it is, digit by
// digit, as does one with a decimal comma where cells are not separated by commas; any other is text, a date with a clock by RFC 3339, and an empty one is no
// field. Columns without a name are left out.
type csvTable struct {
	names  []string // of the fields; "" for a column that is left out
	key    int      // column of the record's key, -1 if there is none
	time   int      // column of timeField, -1 if there is none
	commas bool     // numbers may have a decimal comma
}

// scanCSV calls visit with the record of each row.
func scanCSV(path string, fields *Fields, progress func(read, size int64), visit func(Record) error, skipped *Skipped) error {
	return openText(path, progress, func(r io.Reader) error {
		rows, err := newCSVRows(r, fields.Names)
		if errors.Is(err, io.EOF) {
			return nil
		}
		t := &csvTable{key: -1}
		if err == nil {
			t.commas = rows.commas()
			t.names, err = fields.of(rows.names)
		}
		if err != nil {
			return fmt.Errorf("dataset: %s: %w", path, err)
		}
		if t.time = slices.Index(t.names, timeField); fields.Key != "" {
			t.key = slices.Index(t.names, fields.Key)
		}
		err = each(path, rows.next, skipped, func(cells []string, _ int) error { return visit(t.record(cells)) })
		skipped.Continued = rows.csv.continued
		return err
	})
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

// record returns the event of a row.
func (t *csvTable) record(cells []string) Record {
	r := Record{Value: []byte{'{'}}
	for i, cell := range cells {
		if cell == "" || t.names[i] == "" {
			continue
		}
		r.Value = appendName(r.Value, t.names[i])
		r.Value = t.appendValue(r.Value, cell)
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

// appendValue appends what a cell is in an event: a time with a clock that is written otherwise becomes that of RFC 3339, which events have.
func (t *csvTable) appendValue(dst []byte, cell string) []byte {
	if t.commas && decimalComma.MatchString(cell) {
		return appendNumber(dst, withPoint(cell))
	}
	if len(cell) > len(time.DateOnly) && cell[4] == '-' && cell[7] == '-' {
		if at, ok := parseTime(cell); ok {
			return appendString(dst, []byte(at.Format(time.RFC3339Nano)))
		}
	}
	return appendScalar(dst, []byte(cell))
}

// appendName goes on with an object by the name of the next field.
func appendName(object []byte, name string) []byte {
	if len(object) > 1 {
		object = append(object, ',')
	}
	return append(appendString(object, []byte(name)), ':')
}

// appendScalar appends a JSON number if s is one, else the text.
func appendScalar(dst, s []byte) []byte {
	if isNumber(s) {
		return append(dst, s...)
	}
	return appendString(dst, s)
}
