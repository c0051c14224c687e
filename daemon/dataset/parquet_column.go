package dataset

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/dataset/parquet"
)

// parquetColumn is a column of a Parquet file.
type parquetColumn struct {
	parquet.Column
	name   string // of the field that it becomes
	kind   parquet.Kind
	isList bool
}

// isAbsent reports whether the row has nothing in a column.
func (r *parquetRows) isAbsent(column int) bool { return r.rows.Absent(column) }

// isNone reports whether the row has no value of a kind in a column.
func (r *parquetRows) isNone(column int, kind cellKind) bool {
	if r.isAbsent(column) {
		return true
	}
	switch c := &r.columns[column]; {
	case c.isList:
		return false
	case c.kind == parquet.Number: // NaN, which is no name either
		return isNone(numberCell, r.cell(column))
	}
	return r.columns[column].kind == parquet.Text && isNone(kind, r.cell(column))
}

// list returns the texts of a column of lists.
func (r *parquetRows) list(column int) (texts []string) {
	values := r.rows.Values(column)
	for i := range values {
		if v := &values[i]; !v.Null {
			texts = append(texts, r.columns[column].Text(v))
		}
	}
	return texts
}

// cell returns the text of a column of single values. Times are RFC 3339.
func (r *parquetRows) cell(column int) string {
	return r.columns[column].Text(&r.rows.Values(column)[0])
}

// fits returns what a column has to have for a cell of that kind, "" if it does.
func (c *parquetColumn) fits(kind cellKind) (expected string) {
	single := !c.isList && c.kind != parquet.Other
	ok := false
	switch kind {
	case textCell:
		expected, ok = "text or whole numbers", single && c.kind != parquet.Time && c.kind != parquet.Date
	case numberCell:
		expected, ok = "numbers", single &&
			slices.Contains([]parquet.Kind{parquet.Whole, parquet.Unsigned, parquet.Number, parquet.Bool}, c.kind)
	case listCell:
		expected, ok = "lists of text or of whole numbers", c.isList &&
			slices.Contains([]parquet.Kind{parquet.Whole, parquet.Unsigned, parquet.Text}, c.kind)
	case vectorCell:
		expected, ok = "lists of numbers, or text that is one in JSON", !c.isList && c.kind == parquet.Text ||
			c.isList && slices.Contains([]parquet.Kind{parquet.Whole, parquet.Unsigned, parquet.Number}, c.kind)
	case timeCell:
		expected, ok = "times, dates, numbers or RFC 3339 text", single && c.kind != parquet.Bool
	case binaryCell:
		expected, ok = "0 and 1, or false and true", single && c.kind != parquet.Time && c.kind != parquet.Date
	}
	if c.kind == parquet.Null { // which lacks every field
		ok = true
	}
	if ok {
		return ""
	}
	return expected
}

// appendField appends the value of a field that is of a kind. What is no value of that kind stays text, which the
// decoder refuses by name.
func (r *parquetRows) appendField(dst []byte, t *Table, c *tableCell) ([]byte, *event.Rejection) {
	isVector := c.kind == vectorCell && r.columns[c.column].isList
	if c.kind == listCell || isVector {
		dst = append(dst, '[')
		for i, name := range r.list(c.column) {
			if !utf8.ValidString(name) {
				return nil, badLine(event.NotUTF8)
			}
			if i > 0 {
				dst = append(dst, ',')
			}
			if isVector {
				dst = appendNumber(dst, name)
			} else {
				dst = appendString(dst, []byte(name))
			}
		}
		return append(dst, ']'), nil
	}
	text := r.cell(c.column)
	if !utf8.ValidString(text) {
		return nil, badLine(event.NotUTF8)
	}
	if c.kind == numberCell && r.columns[c.column].kind == parquet.Bool {
		text = map[string]string{"true": "1", "false": "0"}[text]
	}
	if isFraction := r.columns[c.column].kind == parquet.Number && strings.ContainsAny(text, ".e"); isFraction &&
		c.kind == textCell {
		return append(dst, text...), nil // which is no name
	}
	if c.kind == textCell && r.columns[c.column].kind == parquet.Text { // by its type, whatever it looks like
		return appendString(dst, []byte(text)), nil
	}
	return t.appendCell(dst, c.kind, text), nil
}
