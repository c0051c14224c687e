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

// scanRows calls visit with the record of each row of a CSV or Parquet file. The cells are those of Table, so that
// every verb reads a file alike.
func scanRows(path string, format Format, fields *Fields, progress func(read, size int64), visit func(Record) error,
	skipped *Skipped) error {
	scan := func(t *Table, err error) error {
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("dataset: %s: %w", path, err)
		}
		key, at, unit := t.recordColumns(fields)
		if t.file != nil {
			t.file.alsoUse(key, at)
		}
		next := func() (r Record, line int, bad *event.Rejection, err error) {
			if r.Value, line, bad, err = t.Next(); err == nil && bad == nil {
				t.fill(&r, key, at, unit)
			}
			return r, line, bad, err
		}
		err = each(path, next, skipped, func(r Record, line int) error {
			r.Line = line
			return visit(r)
		})
		if t.rows != nil {
			skipped.Continued = t.rows.csv.continued
		}
		return err
	}
	if format == Parquet {
		return openParquet(path, progress, func(r *parquetRows) error {
			if fields.Schema != nil {
				return scan(newParquetTable(r, fields.Schema, fields.Columns, true))
			}
			profile := newProfile(Parquet)
			if err := profile.readParquet(path, r, fields.Columns, ProfileRows); err != nil {
				return err
			}
			r.rewind()
			for i, c := range profile.Columns {
				if of := &r.columns[i]; c.NoTexts > 0 {
					of.kind, of.What = parquet.Other, "bytes that are not UTF-8"
				}
			}
			skipped.LeftOut = r.leftOut()
			return scan(newLooseTable(&Table{file: r}, fields, profile))
		})
	}
	var profile *Profile
	if fields.Schema == nil {
		var err error
		if profile, err = readProfile(path, CSV, fields.Columns, ProfileRows, false); err != nil {
			return err
		}
	}
	return openText(path, progress, func(r io.Reader) error {
		if fields.Schema != nil {
			return scan(NewTable(r, fields.Schema, fields.Columns, true))
		}
		rows, err := newCSVRows(r, fields.Names)
		if err != nil {
			return scan(nil, err)
		}
		return scan(newLooseTable(&Table{rows: rows}, fields, profile))
	})
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
