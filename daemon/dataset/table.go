package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/refitd/refitd/consumer/event"
)

// Columns says which columns of a CSV or Parquet file the fields of events are. The zero value takes those of the same
// name.
type Columns struct {
	Names []string          // of a CSV file without a header, in order; nil: its first line has them
	Of    map[string]string // column by field, where they differ; LabelField means the label where no field is called so
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
			err = errors.Join(err,
				fmt.Errorf("--map: the column %q cannot be two fields, %q and %q", names[i], to, field))
		}
		fields[i] = field
	}
	return fields, err
}

func noColumn(name, field string, names []string) error {
	return fmt.Errorf("no column %q for the field %q: there are %s. --map %s=COLUMN names another", name, field,
		List(names), field)
}

// shownNames is how many names an error lists.
const shownNames = 20

// List returns names for an error: the first of them, and how many more there are.
func List(names []string) string {
	if more := len(names) - shownNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shownNames], ", "), more)
	}
	return strings.Join(names, ", ")
}

// LabelField is what the label's field is called in Columns.Of, whatever the schema calls it.
const LabelField = "label"

// Table reads the rows of a CSV or Parquet file as JSON events of a schema, by what their fields are: names stay text
// even if they look like numbers, lists of names are cells with | between them, a time is a number in the schema's unit
// or RFC 3339, with or without its zone, T and clock, and labels of binary events may be true and false. Where commas
// separate no cells a number may have a decimal comma. An empty cell is no field, nor is \N, nor what isNone finds
// where no name is. Columns that the schema does not have are left out.
type Table struct {
	rows  *csvRows
	file  *parquetRows // in place of rows
	cells []tableCell
	unit  time.Duration
	row   []string // of rows: the one that Next gave last
	// guessed is the unit of times in a loose table; 0 without times.
	guessed time.Duration
	loose   bool // the fields are guessed: what can be a number or a name in an event is both, as whole numbers can
}

// tableCell is one field of the schema, in a column.
type tableCell struct {
	field  string
	column int
	kind   cellKind
}

// NewTable begins with the header of a file. Unless labels are asked for, it may lack their column. The error says
// which columns it misses and what there are; it is io.EOF for an empty file.
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

// newParquetTable is NewTable for a Parquet file. The error also names columns whose values no field of their kind can
// have.
func newParquetTable(file *parquetRows, schema *event.Schema, columns Columns, labels bool) (*Table, error) {
	t := &Table{file: file}
	err := t.bind(file.names(), schema, columns, labels)
	file.use = make([]bool, len(file.columns))
	for _, c := range t.cells {
		file.use[c.column] = true
		if column := &file.columns[c.column]; column.fits(c.kind) != "" {
			err = errors.Join(
				err,
				fmt.Errorf("the column %q for the field %q: expected %s, got %s", column.name, c.field,
					column.fits(c.kind), column.What),
			)
		}
	}
	return t, err
}

// labelCell returns how a label is written.
func labelCell(schema *event.Schema) cellKind {
	kinds := map[event.Task]cellKind{event.Binary: binaryCell, event.Multiclass: textCell, event.Multilabel: listCell}
	kind, ok := kinds[schema.Task]
	switch {
	case !ok:
		return numberCell
	case schema.Positive != "" || schema.Choices:
		return textCell
	}
	return kind
}

// labelled returns columns in which the one that is said to have labels is that of the schema's label.
func (c Columns) labelled(schema *event.Schema) Columns {
	_, ok := c.Of[LabelField]
	isField := slices.Contains(slices.Concat(schema.Categorical, schema.Numeric, schema.Multi), LabelField)
	if !ok || schema.Label == LabelField || isField {
		return c
	}
	c.Of = maps.Clone(c.Of)
	c.Of[schema.Label] = c.Of[LabelField]
	delete(c.Of, LabelField)
	return c
}

// bind finds the columns of the fields.
func (t *Table) bind(names []string, schema *event.Schema, columns Columns, labels bool) (err error) {
	t.unit = timeUnits[schema.TimeUnit]
	known, columnOf := make(map[string]bool), make(map[string]int, len(names))
	for i := len(names) - 1; i >= 0; i-- {
		columnOf[names[i]] = i // the first of a name
	}
	optional := make(map[string]bool, len(schema.Optional))
	for _, field := range schema.Optional {
		optional[field] = true
	}
	add := func(field string, kind cellKind, needed bool) {
		if field == "" || known[field] {
			return
		}
		known[field] = true
		name, renamed := columns.Of[field]
		if !renamed {
			name = field
		}
		switch at, found := columnOf[name]; {
		case found:
			t.cells = append(t.cells, tableCell{field, at, kind})
		case needed || renamed:
			err = errors.Join(err, noColumn(name, field, names))
		}
	}
	columns = columns.labelled(schema)
	add(schema.Label, labelCell(schema), labels)
	isGiven := func(field string) bool { return !optional[field] }
	for f, field := range schema.Categorical[:schema.NumGiven()] {
		if schema.IsGivenName(f, false) {
			add(field, textCell, isGiven(field))
		}
	}
	for f, field := range schema.Numeric {
		if schema.IsGivenNumber(f) {
			add(field, numberCell, isGiven(field))
		}
	}
	for f, field := range schema.Multi {
		if schema.IsGivenName(f, true) {
			add(field, listCell, isGiven(field))
		}
	}
	for i := range schema.Vectors {
		add(schema.Vectors[i].Name, vectorCell, false)
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

// Next returns the next row as a JSON event, which the caller may keep, and its line; or why the row is none. At the
// end the error is io.EOF.
func (t *Table) Next() (value []byte, line int, bad *event.Rejection, err error) {
	if t.file != nil {
		return t.nextOfFile()
	}
	cells, line, bad, err := t.rows.next()
	if err != nil || bad != nil {
		return nil, line, bad, err
	}
	value, t.row = []byte{'{'}, cells
	for _, c := range t.cells {
		if cell := strings.TrimSpace(cells[c.column]); !isNone(c.kind, cell) {
			value = t.appendCell(appendName(value, c.field), c.kind, cell)
		}
	}
	return append(value, '}'), line, nil, nil
}

// plain returns a cell of a file of text that is a number as programs write it.
func (t *Table) plain(cell string) string {
	if t.rows == nil {
		return cell
	}
	return t.rows.spelling().plain(cell)
}

// nextOfFile is Next for a Parquet file.
func (t *Table) nextOfFile() (value []byte, line int, bad *event.Rejection, err error) {
	if line, err = t.file.next(); err != nil {
		return nil, line, nil, err
	}
	value = []byte{'{'}
	for i := range t.cells {
		if c := &t.cells[i]; !t.file.isNone(c.column, c.kind) {
			if value, bad = t.file.appendField(appendName(value, c.field), t, c); bad != nil {
				return nil, line, bad, nil
			}
		}
	}
	return append(value, '}'), line, nil, nil
}
