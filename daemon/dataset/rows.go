package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/dataset/parquet"
)

// rowScan is what scanning a file's rows needs.
type rowScan struct {
	path     string
	fields   *Fields
	progress func(read, size int64)
	visit    func(Record) error
	skipped  *Skipped
}

// run calls visit with the record of each row of a CSV or Parquet file. The cells are those of Table, so that every
// verb reads a file alike.
func (s *rowScan) run(format Format) error {
	if format == Parquet {
		return openParquet(s.path, s.progress, s.parquet)
	}
	var profile *Profile
	if s.fields.Schema == nil {
		var err error
		if profile, err = readProfile(s.path, CSV, s.fields.Columns, ProfileRows, false); err != nil {
			return err
		}
	}
	return openText(s.path, s.progress, func(r io.Reader) error {
		if s.fields.Schema != nil {
			return s.table(NewTable(r, s.fields.Schema, s.fields.Columns, true))
		}
		rows, err := newCSVRows(r, s.fields.Names)
		if err != nil {
			return s.table(nil, err)
		}
		return s.table(newLooseTable(&Table{rows: rows}, s.fields, profile))
	})
}

// parquet scans an open Parquet file.
func (s *rowScan) parquet(r *parquetRows) error {
	if s.fields.Schema != nil {
		return s.table(newParquetTable(r, s.fields.Schema, s.fields.Columns, true))
	}
	profile := newProfile(Parquet)
	if err := profile.readParquet(s.path, r, s.fields.Columns, ProfileRows); err != nil {
		return err
	}
	r.rewind()
	for i, c := range profile.Columns {
		if of := &r.columns[i]; c.NoTexts > 0 {
			of.kind, of.What = parquet.Other, "bytes that are not UTF-8"
		}
	}
	s.skipped.LeftOut = r.leftOut()
	return s.table(newLooseTable(&Table{file: r}, s.fields, profile))
}

// table scans an open table.
func (s *rowScan) table(t *Table, err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("dataset: %s: %w", s.path, err)
	}
	key, at, unit := t.recordColumns(s.fields)
	if t.file != nil {
		t.file.alsoUse(key, at)
	}
	next := func() (r Record, line int, bad *event.Rejection, err error) {
		if r.Value, line, bad, err = t.Next(); err == nil && bad == nil {
			t.fill(&r, key, at, unit)
		}
		return r, line, bad, err
	}
	err = each(s.path, next, s.skipped, func(r Record, line int) error {
		r.Line = line
		return s.visit(r)
	})
	if t.rows != nil {
		s.skipped.Continued = t.rows.csv.continued
	}
	return err
}

// columnNames returns the names of the columns of the file.
func (t *Table) columnNames() []string {
	if t.file != nil {
		return t.file.names()
	}
	return t.rows.names
}

// newLooseTable makes a table of all columns of a file, in their order: those of the fields that are guessed by what
// they are there, others by their values.
func newLooseTable(t *Table, fields *Fields, profile *Profile) (*Table, error) {
	names, err := fields.of(t.columnNames())
	if err != nil {
		return nil, err
	}
	t.loose, t.unit = true, time.Millisecond
	kinds := make(map[int]cellKind)
	for i, name := range names {
		switch {
		case name == "" || t.file != nil && t.file.columns[i].kind == parquet.Other:
		case t.file != nil:
			kinds[i] = t.file.columns[i].plainKind()
		default:
			kinds[i] = profile.Columns[i].plainKind()
		}
	}
	if fields.Guess != nil && profile.Rows > 0 {
		if s := fields.Guess(profile); s != nil {
			guessed := Table{}
			t.guessed = timeUnits[s.TimeUnit]
			_ = guessed.bind(names, s, Columns{}, false) // its fields are these columns
			for _, c := range guessed.cells {
				kinds[c.column] = c.kind
			}
		}
	}
	for i, name := range names {
		if kind, ok := kinds[i]; ok {
			t.cells = append(t.cells, tableCell{name, i, kind})
		}
	}
	return t, nil
}

// plainKind returns what the cells of a column are where nothing else says it: numbers or times if all of them are,
// else text.
func (c *Column) plainKind() cellKind {
	switch {
	case c.Present > 0 && c.Numbers == c.Present && c.Padded == 0:
		return numberCell
	case c.Present > 0 && c.Times == c.Present && c.Clocks > 0:
		return timeCell
	}
	return textCell
}

// plainKind is that of Column, by the type of the column.
func (c *parquetColumn) plainKind() cellKind {
	switch {
	case c.isList:
		return listCell
	case c.kind == parquet.Time:
		return timeCell
	case c.kind == parquet.Text || c.kind == parquet.Date:
		return textCell
	case c.kind == parquet.Bool:
		return binaryCell
	}
	return numberCell
}

// recordColumns returns the columns of the record's key and of its time, -1 for none, and the unit of times.
func (t *Table) recordColumns(fields *Fields) (key, at int, unit time.Duration) {
	column := func(field string) int {
		for _, c := range t.cells {
			if c.field == field {
				return c.column
			}
		}
		if t.loose {
			return -1
		}
		name, renamed := fields.Of[field] // of a field that the schema does not have
		if !renamed {
			name = field
		}
		return slices.Index(t.columnNames(), name)
	}
	if key = -1; fields.Key != "" {
		key = column(fields.Key)
	}
	for _, c := range t.cells {
		if c.kind == timeCell {
			return key, c.column, cmp.Or(t.guessed, t.unit, time.Millisecond)
		}
	}
	return key, column(timeField), time.Millisecond
}

// fill gives the record of the row that Next gave last its key and its time.
func (t *Table) fill(r *Record, key, at int, unit time.Duration) {
	if text := t.text(key); text != "" {
		r.Key = []byte(text)
	}
	r.Time, r.HasTime = recordTime{unit: unit}.millis(t.text(at))
}

// text returns the text of a column of the row that Next gave last, "" for none, for a list, and for column -1.
func (t *Table) text(column int) string {
	switch {
	case column < 0:
		return ""
	case t.file == nil:
		if cell := strings.TrimSpace(t.row[column]); cell != sqlNone {
			return cell
		}
		return ""
	case t.file.isNone(column, textCell) || t.file.columns[column].isList:
		return ""
	}
	return t.file.cell(column)
}
