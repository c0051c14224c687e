package dataset

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/refitd/refitd/consumer/event"
)

// parquetColumn is a column of the file at its top level.
type parquetColumn struct {
	name     string
	kind     parquetKind
	isList   bool
	nullable bool   // of a list: it may be absent, rather than empty
	leaf     int    // column of the values in a row, -1 where there are several
	what     string // the type in words
	unit     int64  // of a time: in a second
}

type parquetKind uint8

const (
	otherColumn parquetKind = iota
	wholeColumn
	unsignedColumn
	numberColumn
	textColumn
	boolColumn
	timeColumn
	dateColumn
)

// columnOf describes a column.
func columnOf(node *parquet.Column) parquetColumn {
	c := parquetColumn{name: node.Name(), leaf: -1, what: "a structure", nullable: node.Optional()}
	values := node
	if node.Leaf() {
		c.isList = node.Repeated()
	} else if list := node.Columns(); len(list) == 1 && list[0].Repeated() {
		if values = list[0]; !values.Leaf() && len(values.Columns()) == 1 { // list.element by the specification, or the repeated values alone
			values = values.Columns()[0]
		}
		c.isList = values.Leaf()
	}
	if !values.Leaf() {
		return c
	}
	c.leaf = values.Index()
	c.kind, c.unit, c.what = kindOf(values.Type())
	if c.isList {
		c.what = "lists of " + c.what
	}
	return c
}

// kindOf classifies a type of values; unit is that of times.
func kindOf(t parquet.Type) (kind parquetKind, unit int64, what string) {
	if logical := t.LogicalType(); logical != nil {
		switch l := logical.Value.(type) {
		case *format.TimestampType:
			return timeColumn, unitsOf(&l.Unit), "times"
		case *format.DateType:
			return dateColumn, 0, "dates"
		case *format.StringType, *format.EnumType, *format.JsonType:
			return textColumn, 0, "text"
		case *format.IntType:
			if !l.IsSigned {
				return unsignedColumn, 0, "whole numbers"
			}
		default:
			return otherColumn, 0, logical.String()
		}
	}
	switch t.Kind() {
	case parquet.Boolean:
		return boolColumn, 0, "true and false"
	case parquet.Int32, parquet.Int64:
		return wholeColumn, 0, "whole numbers"
	case parquet.Int96:
		return timeColumn, int64(time.Second), "times" // as Spark and Impala wrote them
	case parquet.Float, parquet.Double:
		return numberColumn, 0, "numbers"
	case parquet.ByteArray:
		return textColumn, 0, "text"
	}
	return otherColumn, 0, t.String()
}

func unitsOf(u *format.TimeUnit) int64 {
	switch u.Value.(type) {
	case *format.MilliSeconds:
		return 1e3
	case *format.MicroSeconds:
		return 1e6
	}
	return 1e9
}

// isAbsent reports whether the row has nothing in a column.
func (r *parquetRows) isAbsent(column int) bool {
	c := &r.columns[column]
	if c.leaf < 0 || len(r.values[c.leaf]) == 0 {
		return true
	}
	first := &r.values[c.leaf][0]
	return first.IsNull() && (!c.isList || c.nullable && first.DefinitionLevel() == 0)
}

// isNone reports whether the row has no value of a kind in a column.
func (r *parquetRows) isNone(column int, kind cellKind) bool {
	if r.isAbsent(column) {
		return true
	}
	switch c := &r.columns[column]; {
	case c.isList:
		return false
	case c.kind == numberColumn: // NaN, which is no name either
		return isNone(numberCell, r.cell(column))
	}
	return r.columns[column].kind == textColumn && isNone(kind, r.cell(column))
}

// list returns the texts of a column of lists.
func (r *parquetRows) list(column int) (texts []string) {
	for _, v := range r.values[r.columns[column].leaf] {
		if !v.IsNull() {
			texts = append(texts, r.columns[column].text(v))
		}
	}
	return texts
}

// cell returns the text of a column of single values. Times are RFC 3339.
func (r *parquetRows) cell(column int) string {
	c := &r.columns[column]
	return c.text(r.values[c.leaf][0])
}

// text writes a value as CSV would have it. Whole numbers among numbers have no point, so that they can be names.
func (c *parquetColumn) text(v parquet.Value) string {
	switch c.kind {
	case boolColumn:
		return strconv.FormatBool(v.Boolean())
	case wholeColumn:
		if v.Kind() == parquet.Int32 {
			return strconv.FormatInt(int64(v.Int32()), 10)
		}
		return strconv.FormatInt(v.Int64(), 10)
	case unsignedColumn:
		if v.Kind() == parquet.Int32 {
			return strconv.FormatUint(uint64(v.Uint32()), 10)
		}
		return strconv.FormatUint(v.Uint64(), 10)
	case numberColumn:
		if v.Kind() == parquet.Float {
			return numberText(float64(v.Float()), 32)
		}
		return numberText(v.Double(), 64)
	case timeColumn:
		return c.time(v).Format(time.RFC3339Nano)
	case dateColumn:
		return time.Unix(int64(v.Int32())*24*60*60, 0).UTC().Format(time.DateOnly)
	}
	return string(v.ByteArray())
}

func numberText(v float64, bits int) string {
	const exact = 1 << 53
	if v == math.Trunc(v) && math.Abs(v) < exact {
		return strconv.FormatFloat(v+0, 'f', -1, bits) // -0 + 0 is 0
	}
	return strconv.FormatFloat(v, 'g', -1, bits)
}

func (c *parquetColumn) time(v parquet.Value) time.Time {
	if v.Kind() == parquet.Int96 { // nanoseconds of a Julian day
		const julianEpoch = 2440588 // of 1970-01-01
		i := v.Int96()
		return time.Unix((int64(i[2])-julianEpoch)*24*60*60, int64(uint64(i[1])<<32|uint64(i[0]))).UTC()
	}
	n := v.Int64()
	seconds := n / c.unit
	return time.Unix(seconds, (n-seconds*c.unit)*(1e9/c.unit)).UTC()
}

// fits returns what a column has to have for a cell of that kind, "" if it does.
func (c *parquetColumn) fits(kind cellKind) (expected string) {
	single := !c.isList && c.kind != otherColumn
	ok := false
	switch kind {
	case textCell:
		expected, ok = "text or whole numbers", single && c.kind != timeColumn && c.kind != dateColumn
	case numberCell:
		expected, ok = "numbers", single && slices.Contains([]parquetKind{wholeColumn, unsignedColumn, numberColumn, boolColumn}, c.kind)
	case listCell:
		expected, ok = "lists of text or of whole numbers", c.isList && slices.Contains([]parquetKind{wholeColumn, unsignedColumn, textColumn}, c.kind)
	case timeCell:
		expected, ok = "times, dates, numbers or RFC 3339 text", single && c.kind != boolColumn
	case binaryCell:
		expected, ok = "0 and 1, or false and true", single && c.kind != timeColumn && c.kind != dateColumn
	}
	if ok {
		return ""
	}
	return expected
}

// appendField appends the value of a field that is of a kind. What is no value of that kind stays text, which the decoder refuses by name.
func (r *parquetRows) appendField(dst []byte, t *Table, c *tableCell) ([]byte, *event.Rejection) {
	if c.kind == listCell {
		dst = append(dst, '[')
		for i, name := range r.list(c.column) {
			if !utf8.ValidString(name) {
				return nil, badLine(event.NotUTF8)
			}
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, []byte(name))
		}
		return append(dst, ']'), nil
	}
	text := r.cell(c.column)
	if !utf8.ValidString(text) {
		return nil, badLine(event.NotUTF8)
	}
	if c.kind == numberCell && r.columns[c.column].kind == boolColumn {
		text = map[string]string{"true": "1", "false": "0"}[text]
	}
	if isFraction := r.columns[c.column].kind == numberColumn && strings.ContainsAny(text, ".e"); isFraction && c.kind == textCell {
		return append(dst, text...), nil // which is no name
	}
	if c.kind == textCell && r.columns[c.column].kind == textColumn { // by its type, whatever it looks like
		return appendString(dst, []byte(text)), nil
	}
	return t.appendCell(dst, c.kind, text), nil
}
