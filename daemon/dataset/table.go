package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/refitd/refitd/consumer/event"
)

// Columns says which columns of a CSV or Parquet file the fields of events are. The zero value takes those of the same name.
type Columns struct {
	Names []string          // of a CSV file without a header, in order; nil: its first line has them
	Of    map[string]string // column by field, where they differ; LabelField stands for the label where no field is called so
	Spare bool              // Of may have fields that the schema does not, whose columns are left out
}

// of returns the field that each column becomes: that of its name, unless the field is another column; "" for none.
func (c *Columns) of(names []string) ([]string, error) {
	fields := slices.Clone(names)
	for i, name := range names {
		if column, ok := c.Of[name]; ok && column != name {
			fields[i] = ""
		}
	}
	var err error
	for _, field := range slices.Sorted(maps.Keys(c.Of)) {
		i := slices.Index(names, c.Of[field])
		if i < 0 {
			err = errors.Join(err, noColumn(c.Of[field], field, names))
			continue
		}
		if to := fields[i]; to != "" && to != names[i] {
			err = errors.Join(err, fmt.Errorf("--map: the column %q cannot be two fields, %q and %q", names[i], to, field))
		}
		fields[i] = field
	}
	return fields, err
}

func noColumn(name, field string, names []string) error {
	return fmt.Errorf("no column %q for the field %q: there are %s. --map %s=COLUMN names another", name, field, strings.Join(names, ", "), field)
}

// LabelField is what the label's field is called in Columns.Of, whatever the schema calls it.
const LabelField = "label"

// Table reads the rows of a CSV or Parquet file as JSON events of a schema, by what their fields are: names stay text even if they look like numbers, lists of
// names are cells with | between them, a time is a number in the schema's unit or RFC 3339, with or without its zone, T and clock, and labels of binary
// events may be true and false. Where commas separate no cells a number may have a decimal comma. An empty cell is no field. Columns that the schema does not
// have are left out.
type Table struct {
	rows  *csvRows
	file  *parquetRows // in place of rows
	cells []tableCell
	unit  time.Duration
}

// tableCell is one field of the schema, in a column.
type tableCell struct {
	field  string
	column int
	kind   cellKind
}

type cellKind uint8

const (
	textCell cellKind = iota
	numberCell
	listCell
	timeCell
	binaryCell
)

// timeUnits are the units of event times.
var timeUnits = map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond, "ns": time.Nanosecond}

// NewTable begins with the header of a file. Unless labels are asked for, it may lack their column. The error says which columns it misses and what there
// are; it is io.EOF for an empty file.
func NewTable(r io.Reader, schema *event.Schema, columns Columns, labels bool) (*Table, error) {
	rows, err := newCSVRows(r, columns.Names)
	if err != nil {
		return nil, err
	}
	t := &Table{rows: rows}
	if err = t.bind(rows.names, schema, columns, labels); err != nil && len(t.cells) == 0 && columns.Names == nil {
		err = fmt.Errorf("%w\nif the first line is no header, --columns NAME,… names the columns", err)
	}
	return t, err
}

// ReadParquetTable is NewTable for a Parquet file that is read into memory first, up to 1 GiB.
func ReadParquetTable(r io.Reader, schema *event.Schema, columns Columns, labels bool) (*Table, error) {
	content, err := wholeParquet(r)
	if err != nil {
		return nil, err
	}
	file, err := newParquetRows(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, err
	}
	return newParquetTable(file, schema, columns, labels)
}

// newParquetTable is NewTable for a Parquet file. The error also names columns whose values no field of their kind can have.
func newParquetTable(file *parquetRows, schema *event.Schema, columns Columns, labels bool) (*Table, error) {
	t := &Table{file: file}
	err := t.bind(file.names(), schema, columns, labels)
	file.use = make([]bool, len(file.columns))
	for _, c := range t.cells {
		file.use[c.column] = true
		if column := &file.columns[c.column]; column.fits(c.kind) != "" {
			err = errors.Join(err, fmt.Errorf("the column %q for the field %q: expected %s, got %s", column.name, c.field, column.fits(c.kind), column.What))
		}
	}
	return t, err
}

// bind finds the columns of the fields.
func (t *Table) bind(names []string, schema *event.Schema, columns Columns, labels bool) (err error) {
	t.unit = timeUnits[schema.TimeUnit]
	known := make(map[string]bool)
	add := func(field string, kind cellKind, needed bool) {
		if field == "" || known[field] {
			return
		}
		known[field] = true
		name, renamed := columns.Of[field]
		if !renamed {
			name = field
		}
		switch at := slices.Index(names, name); {
		case at >= 0:
			t.cells = append(t.cells, tableCell{field, at, kind})
		case needed || renamed:
			err = errors.Join(err, noColumn(name, field, names))
		}
	}
	kinds := map[event.Task]cellKind{event.Binary: binaryCell, event.Multiclass: textCell, event.Multilabel: listCell}
	label, ok := kinds[schema.Task]
	if schema.Positive != "" || schema.Choices {
		label = textCell
	}
	if !ok {
		label = numberCell
	}
	if _, ok := columns.Of[LabelField]; ok && schema.Label != LabelField && !slices.Contains(slices.Concat(schema.Categorical, schema.Numeric, schema.Multi),
		LabelField) {
		columns.Of = maps.Clone(columns.Of)
		columns.Of[schema.Label] = columns.Of[LabelField]
		delete(columns.Of, LabelField)
	}
	add(schema.Label, label, labels)
	isGiven := func(field string) bool { return !slices.Contains(schema.Optional, field) }
	for f, field := range schema.Categorical[:schema.NumGiven()] {
		if !schema.IsDerived(f, false) {
			add(field, textCell, isGiven(field))
		}
	}
	for _, field := range schema.Numeric {
		add(field, numberCell, isGiven(field))
	}
	for f, field := range schema.Multi {
		if !schema.IsDerived(f, true) {
			add(field, listCell, isGiven(field))
		}
	}
	add(schema.Time, timeCell, false)
	add(schema.Weight, numberCell, true)
	add(schema.Identity, textCell, true)
	for _, field := range slices.Sorted(maps.Keys(columns.Of)) {
		switch at := columns.Of[field]; {
		case known[field]:
		case !slices.Contains(names, at):
			err = errors.Join(err, noColumn(at, field, names))
		case !columns.Spare:
			err = errors.Join(err, fmt.Errorf("--map %s: the schema has no such field", field))
		}
	}
	return err
}

// Next returns the next row as a JSON event, which the caller may keep, and its line; or why the row is none. At the end the error is io.EOF.
func (t *Table) Next() (value []byte, line int, bad *event.Rejection, err error) {
	if t.file != nil {
		return t.nextOfFile()
	}
	cells, line, bad, err := t.rows.next()
	if err != nil || bad != nil {
		return nil, line, bad, err
	}
	value = []byte{'{'}
	for _, c := range t.cells {
		if cell := strings.TrimSpace(cells[c.column]); cell != "" {
			value = t.appendCell(appendName(value, c.field), c.kind, cell)
		}
	}
	return append(value, '}'), line, nil, nil
}

// nextOfFile is Next for a Parquet file.
func (t *Table) nextOfFile() (value []byte, line int, bad *event.Rejection, err error) {
	if line, err = t.file.next(); err != nil {
		return nil, line, nil, err
	}
	value = []byte{'{'}
	for i := range t.cells {
		if c := &t.cells[i]; !t.file.isAbsent(c.column) {
			if value, bad = t.file.appendField(appendName(value, c.field), t, c); bad != nil {
				return nil, line, bad, nil
			}
		}
	}
	return append(value, '}'), line, nil, nil
}

// appendCell appends a JSON value. What is not of its kind stays text, which the decoder refuses by name.
func (t *Table) appendCell(dst []byte, kind cellKind, cell string) []byte {
	switch kind {
	case listCell:
		dst = append(dst, '[')
		for i, name := range strings.Split(cell, "|") {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, []byte(strings.TrimSpace(name)))
		}
		return append(dst, ']')
	case binaryCell:
		if b := strings.ToLower(cell); b == "true" || b == "false" {
			return append(dst, b...)
		}
		return appendNumber(dst, cell)
	case timeCell:
		if at, ok := parseTime(cell); ok && t.unit > 0 {
			return strconv.AppendInt(dst, at.Unix()*int64(time.Second/t.unit)+int64(at.Nanosecond())/int64(t.unit), 10)
		}
		return appendNumber(dst, cell)
	case numberCell:
		if t.rows != nil && t.rows.commas() {
			cell = withPoint(cell)
		}
		return appendNumber(dst, cell)
	}
	return appendString(dst, []byte(cell))
}

// appendNumber appends a JSON number for what is one in another spelling, too (+1, .5, 1.), else the text.
func appendNumber(dst []byte, cell string) []byte {
	if isNumber([]byte(cell)) {
		return append(dst, cell...)
	}
	v, err := strconv.ParseFloat(cell, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || strings.ContainsAny(cell, "xXpP_") {
		return appendString(dst, []byte(cell))
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}
