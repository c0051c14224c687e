package dataset

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/refitd/refitd/consumer/event"
)

// maxNamedColumns bounds the numeric columns of a LIBSVM file that becomes events with a field for each. Wider files
// are one-hot: the list of their columns is one field.
const maxNamedColumns = 1000

// labelField and columnsField are fields of the events that LIBSVM lines become.
const (
	labelField   = "label"
	columnsField = "features"
)

// A sparseTable turns LIBSVM lines into JSON events:
//
//	{"label":3,"1":0.5,"2":0,"3":-1}          every column of the file, zeros too: the format leaves them out, a schema does not
//	{"label":1,"features":["17","40213"]}     in files of more than a thousand columns, whose values must all be 1
//
// Labels that are all -1 or +1 become 0 and 1; where one line has several, separated by commas, every label is a list
// of strings.
//
// For a schema the label has its name and column i that of its i-th numeric field, with labels as Read takes them;
// other columns are left out.
type sparseTable struct {
	schema  *event.Schema // nil for any reader
	columns int
	signed  bool // every label is -1 or 1
	lists   bool // some line has several labels
}

// newSparseTable reads a file once to learn what every line has to have.
func newSparseTable(path string, schema *event.Schema) (*sparseTable, error) {
	t := &sparseTable{schema: schema, signed: true}
	if schema != nil {
		return t, nil
	}
	err := scanLines(path, nil, func(line []byte, number int) error {
		label, entries, ok := parseSparse(line)
		if !ok {
			return nil
		}
		for _, e := range entries {
			t.columns = max(t.columns, e.column)
		}
		t.lists = t.lists || bytes.IndexByte(label, ',') >= 0
		v, err := strconv.ParseFloat(view(label), 64)
		t.signed = t.signed && err == nil && (v == 1 || v == -1)
		return nil
	})
	return t, err
}

type sparseEntry struct {
	column int
	value  []byte
}

// parseSparse splits a line "label index:value …"; a comment begins with #. Columns count from 1 and increase.
func parseSparse(line []byte) (label []byte, entries []sparseEntry, ok bool) {
	line, _, _ = bytes.Cut(line, []byte{'#'})
	fields := bytes.Fields(line)
	if len(fields) == 0 {
		return nil, nil, false
	}
	last := 0
	for _, field := range fields[1:] {
		index, value, found := bytes.Cut(field, []byte{':'})
		column, err := strconv.Atoi(view(index))
		if !found || err != nil || column <= last || column > maxIndex {
			return nil, nil, false
		}
		if _, err := strconv.ParseFloat(view(value), 64); err != nil {
			return nil, nil, false
		}
		entries = append(entries, sparseEntry{column, value})
		last = column
	}
	return fields[0], entries, true
}

// record returns the event of a line, or the reason why it is none.
func (t *sparseTable) record(line []byte, keyField string) (Record, event.Reason) {
	label, entries, ok := parseSparse(line)
	if !ok {
		return Record{}, notLIBSVM
	}
	if t.schema != nil {
		return t.recordOf(label, entries), ""
	}
	value := append(t.appendLabel([]byte{'{'}, label), '}')
	if t.columns > maxNamedColumns {
		var names []byte
		for _, e := range entries {
			v, _ := strconv.ParseFloat(view(e.value), 64) // parsed before
			if v == 0 {
				continue
			}
			if v != 1 {
				return Record{}, notOneHot
			}
			if len(names) > 0 {
				names = append(names, ',')
			}
			names = append(strconv.AppendInt(append(names, '"'), int64(e.column), 10), '"')
		}
		value = append(value[:len(value)-1], `,"`+columnsField+`":[`...)
		value = append(append(value, names...), ']', '}')
	} else {
		value = value[:len(value)-1]
		for column := 1; column <= t.columns; column++ {
			value = append(strconv.AppendInt(append(value, ',', '"'), int64(column), 10), '"', ':')
			if len(entries) > 0 && entries[0].column == column {
				value = appendDecimal(value, entries[0].value)
				entries = entries[1:]
			} else {
				value = append(value, '0')
			}
		}
		value = append(value, '}')
	}
	r, reason := jsonRecord(value, keyField)
	return r, reason
}

// recordOf returns the event of a line for the schema.
func (t *sparseTable) recordOf(label []byte, entries []sparseEntry) Record {
	s, text := t.schema, string(label)
	value := appendName([]byte{'{'}, s.Label)
	switch v, err := strconv.ParseFloat(text, 64); {
	case s.Task == event.Multilabel:
		value = append(value, '[')
		for i, class := range strings.Split(text, ",") {
			if i > 0 {
				value = append(value, ',')
			}
			value = appendString(value, []byte(class))
		}
		value = append(value, ']')
	case s.Task == event.Multiclass || s.Positive != "":
		value = appendString(value, label)
	case s.Task == event.Binary && err == nil && v == -1:
		value = append(value, '0')
	default:
		value = appendDecimal(value, label)
	}
	for i, field := range s.Numeric {
		for len(entries) > 0 && entries[0].column < i+1 {
			entries = entries[1:]
		}
		value = appendName(value, field)
		if len(entries) > 0 && entries[0].column == i+1 {
			value = appendDecimal(value, entries[0].value)
		} else {
			value = append(value, '0')
		}
	}
	return Record{Value: append(value, '}')}
}

func (t *sparseTable) appendLabel(dst, label []byte) []byte {
	dst = append(appendString(dst, []byte(labelField)), ':')
	switch {
	case t.lists:
		dst = append(dst, '[')
		for i, class := range bytes.Split(label, []byte{','}) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, class)
		}
		return append(dst, ']')
	case t.signed && label[0] == '-':
		return append(dst, '0')
	}
	return appendDecimal(dst, label)
}

// appendDecimal appends a JSON number for text that Go reads as one, unchanged if JSON would too, and else a string.
func appendDecimal(dst, text []byte) []byte {
	if isNumber(text) {
		return append(dst, text...)
	}
	if v, err := strconv.ParseFloat(view(text), 64); err == nil && v-v == 0 {
		return strconv.AppendFloat(dst, v, 'g', -1, 64)
	}
	return appendString(dst, text) // NaN and infinities too: the daemon says not_finite
}
