package dataset

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/refitd/refitd/consumer/event"
)

// csvRows reads the rows of a CSV file: RFC 4180, with another separator where its first line has more of that.
type csvRows struct {
	names []string // of the columns
	csv   *csvReader
	ready bool // the first row was read already, to count the columns
	first firstRow

	unnamed bool // the file has no header

	titles []int // lines above the header that next has to count
}

// firstRow is what csvReader.read returned.
type firstRow struct {
	cells []string
	line  int
	bad   *event.Rejection
}

// separators are what may separate cells. The first of those that are equally frequent in the first line is taken.
var separators = []byte{',', '\t', ';', '|'}

// newCSVRows begins with the header, unless the names of the columns are given: then the first line is a row. Without
// any line it returns io.EOF.
func newCSVRows(r io.Reader, names []string) (*csvRows, error) {
	c := &csvReader{r: r, line: 1}
	rows := &csvRows{names: slices.Clone(names), csv: c, unnamed: names != nil}
	separator, hinted := c.hint()
	switch c.Comma = separator; {
	case hinted:
	case names == nil:
		rows.titles = c.findHeader()
	default:
		c.Comma = sniff(c.firstLine())
	}
	cells, line, bad, err := c.read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case err != nil:
		return nil, err
	case names != nil && bad == nil && len(cells) != len(names):
		return nil, fmt.Errorf("the first line has %d columns, and %d names of columns are given", len(cells),
			len(names))
	case names != nil:
		rows.first, rows.ready = firstRow{slices.Clone(cells), line, bad}, true
	case bad != nil:
		return nil, fmt.Errorf("the header, line %d: expected %s, got %s", line, bad.Expected, bad.Got)
	default:
		rows.names = slices.Clone(cells)
		for i, name := range rows.names {
			rows.names[i] = strings.Trim(name, " ")
		}
		rows.names[0] = strings.TrimPrefix(rows.names[0], byteOrderMark) // a second one, of a program behind another
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

// spelling returns how numbers are written: with a decimal comma where a comma separates no cells.
func (r *csvRows) spelling() spelling {
	if r.csv.Comma == ',' {
		return decimalPoints
	}
	return decimalCommas
}

// next returns the cells of the next row, which are valid until the next call, and its line; or why it is none. At the
// end the error is io.EOF.
func (r *csvRows) next() (cells []string, line int, bad *event.Rejection, err error) {
	if len(r.titles) > 0 {
		line, r.titles = r.titles[0], r.titles[1:]
		return nil, line, badLine(aboveHeader), nil
	}
	if r.ready {
		cells, line, bad, r.ready = r.first.cells, r.first.line, r.first.bad, false
	} else if cells, line, bad, err = r.csv.read(); err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("after line %d: %w", r.csv.line-1, err)
	}
	if err != nil || bad != nil {
		return nil, line, bad, err
	}
	if n := len(r.names); len(cells) > n && r.csv.blankRest && strings.TrimSpace(cells[n]) == "" {
		cells = cells[:n]
	}
	switch {
	case len(cells) > len(r.names):
		return nil, line, badLine(tooManyColumns), nil
	case r.csv.columns > 1 && !r.unnamed && slices.EqualFunc(cells, r.names, sameName):
		return nil, line, badLine(headerAgain), nil
	case len(cells) == len(r.names) && isTotal(cells) && r.csv.atEnd():
		return nil, line, badLine(totals), nil
	case len(cells) < len(r.names):
		return nil, line, &event.Rejection{
			Reason:   tooFewColumns,
			Expected: fmt.Sprintf("the %d columns of the header", len(r.names)),
			Got:      fmt.Sprintf("%d columns", len(cells)),
		}, nil
	case slices.ContainsFunc(cells, func(cell string) bool { return !utf8.ValidString(cell) }):
		return nil, line, badLine(event.NotUTF8), nil
	}
	return cells, line, nil, nil
}

// sameName reports whether a cell is the name of a column.
func sameName(cell, name string) bool { return strings.TrimSpace(cell) == name }

// totalWords are what the last line of a sheet begins with that has sums.
var totalWords = []string{"total", "totals", "grand total", "sum", "gesamt", "summe", "total général", "totale"}

// isTotal reports whether a row has sums in place of an event: it begins with such a word, and lacks a value.
func isTotal(cells []string) bool {
	lacks, first := false, ""
	for _, cell := range cells {
		cell = strings.TrimSpace(cell)
		lacks = lacks || cell == ""
		if first == "" {
			first = strings.ToLower(strings.TrimSuffix(cell, ":"))
		}
	}
	return lacks && slices.Contains(totalWords, first)
}

// each calls visit with what next returns, until the end of the file at path, and counts what is none.
func each[T any](path string, next func() (T, int, *event.Rejection, error), skipped *Skipped,
	visit func(row T, line int) error) error {
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

// appendName continues an object by the name of the next field.
func appendName(object []byte, name string) []byte {
	if len(object) > 1 {
		object = append(object, ',')
	}
	return append(appendString(object, []byte(name)), ':')
}
