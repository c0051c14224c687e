package format

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/refitd/refitd/snapshot/internal/disk"
)

// Table is what a version knows of the entities of a categorical field, such as the genre of items. An event that names
// the entity and lacks a column has what the table says there. Every column is an optional field of the schema, of one
// table alone. It is read only.
type Table struct {
	Name        string
	Of          string   // categorical field whose names are the entities
	Names       []string // of the entities that have a row, ascending
	Categorical []NameColumn
	Multi       []ListColumn
	Numeric     []NumberColumn
}

// NameColumn has at most one name of each row.
type NameColumn struct {
	Field  string
	Values []string // ascending
	At     []int32  // of each row, in Values; -1 is none
}

// ListColumn has a list of names of each row.
type ListColumn struct {
	Field  string
	Values []string // ascending
	Ends   []int32  // of each row, where its list ends in At
	At     []int32  // in Values
}

// NumberColumn has a number of each row.
type NumberColumn struct {
	Field  string
	Values []float64 // NaN is none
}

// TableRow is what a delta says of an entity, in the order of the columns of its table. Removed is a row that is gone.
type TableRow struct {
	Table       int // in Contents.Tables
	Name        string
	Removed     bool
	Categorical []string // "" is none
	Multi       [][]string
	Numeric     []float64 // NaN is none
}

const (
	// TablesFile has the tables of a version.
	TablesFile = "tables"
	// MaxTablesBytes bounds the file.
	MaxTablesBytes = 1 << 30

	// tablesVersion is that of the file's form. Readers refuse others.
	tablesVersion = 1
	maxTables     = 64
)

// tablesHead is the first line of the file. After it come, for each table, the names of its rows; for each categorical
// column its values, and for each row the place of its value plus 1 in 4 bytes, 0 for none; for each multi column its
// values, for each row how many it has in 4 bytes, and then their places in 4 bytes each; for each numeric column a
// float64 for each row, NaN for none. Names are the bytes of each in 4 bytes, then all of them in UTF-8. Numbers are
// little-endian.
type tablesHead struct {
	Version int         `json:"version"`
	Tables  []tableHead `json:"tables"`
}

type tableHead struct {
	Name        string       `json:"name"`
	Of          string       `json:"of"`
	Rows        int          `json:"rows"`
	Categorical []columnHead `json:"categorical"`
	Multi       []columnHead `json:"multi"`
	Numeric     []string     `json:"numeric"`
}

type columnHead struct {
	Field   string `json:"field"`
	Values  int    `json:"values"`
	Entries int    `json:"entries,omitempty"` // of all lists
}

// Find returns the place of the row of an entity, -1 without one.
func (t *Table) Find(name string) int {
	if at, ok := slices.BinarySearch(t.Names, name); ok {
		return at
	}
	return -1
}

// Row returns what a row says.
func (t *Table) Row(table, at int) *TableRow {
	r := &TableRow{Table: table, Name: t.Names[at]}
	for i := range t.Categorical {
		c := &t.Categorical[i]
		value := ""
		if k := c.At[at]; k >= 0 {
			value = c.Values[k]
		}
		r.Categorical = append(r.Categorical, value)
	}
	for i := range t.Multi {
		c := &t.Multi[i]
		list := []string{}
		for _, k := range c.At[c.begin(at):c.Ends[at]] {
			list = append(list, c.Values[k])
		}
		r.Multi = append(r.Multi, list)
	}
	for i := range t.Numeric {
		r.Numeric = append(r.Numeric, t.Numeric[i].Values[at])
	}
	return r
}

func (c *ListColumn) begin(at int) int32 {
	if at == 0 {
		return 0
	}
	return c.Ends[at-1]
}

// NewTable returns a table of rows, which have ascending names and are not kept. fields are those of its columns.
func NewTable(name, of string, categorical, multi, numeric []string, rows []*TableRow) *Table {
	t := &Table{Name: name, Of: of, Names: make([]string, len(rows))}
	for i, r := range rows {
		t.Names[i] = r.Name
	}
	for c, field := range categorical {
		values, ends, at := listed(rows, func(r *TableRow) []string {
			if r.Categorical[c] == "" {
				return nil
			}
			return r.Categorical[c : c+1]
		})
		column := NameColumn{Field: field, Values: values, At: make([]int32, len(rows))}
		last := int32(0)
		for i, end := range ends {
			if column.At[i] = -1; end > last {
				column.At[i] = at[last]
			}
			last = end
		}
		t.Categorical = append(t.Categorical, column)
	}
	for c, field := range multi {
		values, ends, at := listed(rows, func(r *TableRow) []string { return r.Multi[c] })
		t.Multi = append(t.Multi, ListColumn{Field: field, Values: values, Ends: ends, At: at})
	}
	for c, field := range numeric {
		column := NumberColumn{Field: field, Values: make([]float64, len(rows))}
		for i, r := range rows {
			column.Values[i] = r.Numeric[c]
		}
		t.Numeric = append(t.Numeric, column)
	}
	return t
}

// listed returns the distinct values of the lists of rows, ascending, and for each row where its list ends in at, which
// has places of values.
func listed(rows []*TableRow, list func(r *TableRow) []string) (values []string, ends, at []int32) {
	place := make(map[string]int32)
	for _, r := range rows {
		for _, v := range list(r) {
			place[v] = 0
		}
	}
	if len(place) > 0 {
		values = slices.Sorted(maps.Keys(place))
	}
	for i, v := range values {
		place[v] = int32(i)
	}
	ends = make([]int32, len(rows))
	for i, r := range rows {
		for _, v := range list(r) {
			at = append(at, place[v])
		}
		ends[i] = int32(len(at))
	}
	return values, ends, at
}

// fields returns the fields of the columns.
func (t *Table) fields() (categorical, multi, numeric []string) {
	for i := range t.Categorical {
		categorical = append(categorical, t.Categorical[i].Field)
	}
	for i := range t.Multi {
		multi = append(multi, t.Multi[i].Field)
	}
	for i := range t.Numeric {
		numeric = append(numeric, t.Numeric[i].Field)
	}
	return categorical, multi, numeric
}

// Columns returns the fields of all columns.
func (t *Table) Columns() []string {
	categorical, multi, numeric := t.fields()
	return slices.Concat(categorical, multi, numeric)
}

// With returns the table with some rows changed, ascending by name, of which removed ones are taken out.
func (t *Table) With(table int, changed []*TableRow) *Table {
	rows := make([]*TableRow, 0, len(t.Names)+len(changed))
	add := func(r *TableRow) {
		if !r.Removed {
			rows = append(rows, r)
		}
	}
	for at, name := range t.Names {
		for len(changed) > 0 && changed[0].Name < name {
			add(changed[0])
			changed = changed[1:]
		}
		if len(changed) > 0 && changed[0].Name == name {
			add(changed[0])
			changed = changed[1:]
			continue
		}
		rows = append(rows, t.Row(table, at))
	}
	for _, r := range changed {
		add(r)
	}
	categorical, multi, numeric := t.fields()
	return NewTable(t.Name, t.Of, categorical, multi, numeric, rows)
}

// ValidateTables checks tables against the schema.
func ValidateTables(tables []*Table, s *Schema) error {
	if len(tables) > maxTables {
		return fmt.Errorf("tables: %d of them, at most %d", len(tables), maxTables)
	}
	seen := make(map[string]bool)
	numbers := make([]string, 0, len(s.Numeric))
	for _, f := range s.Numeric {
		numbers = append(numbers, f.Name)
	}
	for _, t := range tables {
		if t.Name == "" || seen["table "+t.Name] || !slices.Contains(s.Categorical, t.Of) {
			return fmt.Errorf("table %q of %q: want a name of its kind alone and a categorical field", t.Name, t.Of)
		}
		seen["table "+t.Name] = true
		categorical, multi, numeric := t.fields()
		for _, list := range []struct{ columns, fields []string }{{categorical, s.Categorical}, {multi, s.Multi},
			{numeric, numbers}} {
			for _, field := range list.columns {
				if seen[field] || field == t.Of || !slices.Contains(list.fields, field) || !s.IsOptional(field) {
					return fmt.Errorf("table %s: column %q: want an optional field of the schema that no other column is", t.Name,
						field)
				}
				seen[field] = true
			}
		}
		if err := t.validate(); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	return nil
}

// validate checks names and places.
func (t *Table) validate() error {
	if err := ascending("names", t.Names); err != nil {
		return err
	}
	n := len(t.Names)
	for i := range t.Categorical {
		c := &t.Categorical[i]
		if err := ascending(c.Field, c.Values); err != nil {
			return err
		}
		outside := func(at int32) bool { return at < -1 || int(at) >= len(c.Values) }
		if len(c.At) != n || slices.ContainsFunc(c.At, outside) {
			return fmt.Errorf("column %s: %d places for %d rows, or one outside of its %d values", c.Field, len(c.At), n,
				len(c.Values))
		}
	}
	for i := range t.Multi {
		c := &t.Multi[i]
		if err := ascending(c.Field, c.Values); err != nil {
			return err
		}
		outside := func(at int32) bool { return at < 0 || int(at) >= len(c.Values) }
		last := int32(0)
		for _, end := range c.Ends {
			if end < last {
				return fmt.Errorf("column %s: lists overlap", c.Field)
			}
			last = end
		}
		if len(c.Ends) != n || int(last) != len(c.At) || slices.ContainsFunc(c.At, outside) {
			return fmt.Errorf("column %s: %d lists for %d rows, or a place outside of its %d values", c.Field, len(c.Ends), n,
				len(c.Values))
		}
	}
	for i := range t.Numeric {
		c := &t.Numeric[i]
		infinite := func(v float64) bool { return math.IsInf(v, 0) }
		if len(c.Values) != n || slices.ContainsFunc(c.Values, infinite) {
			return fmt.Errorf("column %s: %d numbers for %d rows, or one that is infinite", c.Field, len(c.Values), n)
		}
	}
	return nil
}

// ascending refuses names that are empty, not UTF-8, or not in order, each once.
func ascending(what string, names []string) error {
	last := ""
	for _, name := range names {
		if name <= last || !utf8.ValidString(name) {
			return fmt.Errorf("%s: %q after %q: want names in UTF-8, ascending", what, name, last)
		}
		last = name
	}
	return nil
}

// EncodeTables returns the file.
func EncodeTables(tables []*Table) ([]byte, error) {
	head := tablesHead{Version: tablesVersion}
	for _, t := range tables {
		h := tableHead{Name: t.Name, Of: t.Of, Rows: len(t.Names), Categorical: []columnHead{}, Multi: []columnHead{},
			Numeric: []string{}}
		for i := range t.Categorical {
			h.Categorical = append(h.Categorical, columnHead{t.Categorical[i].Field, len(t.Categorical[i].Values), 0})
		}
		for i := range t.Multi {
			c := &t.Multi[i]
			h.Multi = append(h.Multi, columnHead{c.Field, len(c.Values), len(c.At)})
		}
		for i := range t.Numeric {
			h.Numeric = append(h.Numeric, t.Numeric[i].Field)
		}
		head.Tables = append(head.Tables, h)
	}
	b, err := json.Marshal(&head)
	if err != nil {
		return nil, err
	}
	b = append(b, '\n')
	for _, t := range tables {
		b = t.append(b)
	}
	if len(b) > MaxTablesBytes {
		return nil, fmt.Errorf("%s of %d bytes, the limit is %d: lower max_rows of tables", TablesFile, len(b),
			MaxTablesBytes)
	}
	return b, nil
}

// append appends what comes of the table after the first line.
func (t *Table) append(b []byte) []byte {
	b = appendTexts(b, t.Names)
	for i := range t.Categorical {
		b = appendTexts(b, t.Categorical[i].Values)
		for _, at := range t.Categorical[i].At {
			b = binary.LittleEndian.AppendUint32(b, uint32(at+1))
		}
	}
	for i := range t.Multi {
		c := &t.Multi[i]
		b = appendTexts(b, c.Values)
		for at, end := range c.Ends {
			b = binary.LittleEndian.AppendUint32(b, uint32(end-c.begin(at)))
		}
		for _, at := range c.At {
			b = binary.LittleEndian.AppendUint32(b, uint32(at))
		}
	}
	for i := range t.Numeric {
		for _, v := range t.Numeric[i].Values {
			if math.IsNaN(v) {
				v = math.NaN() // of one form
			}
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
	}
	return b
}

// appendTexts appends the bytes of each name, then all of them.
func appendTexts(b []byte, list []string) []byte {
	for _, text := range list {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	}
	for _, text := range list {
		b = append(b, text...)
	}
	return b
}

// DecodeTables is the inverse of EncodeTables. What it returns is not validated yet. Memory is taken once the file is
// long enough.
func DecodeTables(b []byte) ([]*Table, error) {
	var head tablesHead
	rest, err := decodeHead(TablesFile, b, &head, &head.Version, tablesVersion)
	if err != nil {
		return nil, err
	}
	r := tablesReader{rest: rest}
	tables := make([]*Table, 0, min(len(head.Tables), maxTables))
	for _, h := range head.Tables {
		t := &Table{Name: h.Name, Of: h.Of, Names: r.texts(h.Rows)}
		for _, c := range h.Categorical {
			column := NameColumn{Field: c.Field, Values: r.texts(c.Values), At: r.numbers(h.Rows)}
			for i := range column.At {
				column.At[i]--
			}
			t.Categorical = append(t.Categorical, column)
		}
		for _, c := range h.Multi {
			column := ListColumn{Field: c.Field, Values: r.texts(c.Values), Ends: r.numbers(h.Rows), At: r.numbers(c.Entries)}
			for i := 1; i < len(column.Ends); i++ {
				column.Ends[i] += column.Ends[i-1]
			}
			t.Multi = append(t.Multi, column)
		}
		for _, field := range h.Numeric {
			t.Numeric = append(t.Numeric, NumberColumn{Field: field, Values: r.floats(h.Rows)})
		}
		tables = append(tables, t)
	}
	if r.failed || len(r.rest) > 0 {
		return nil, fmt.Errorf("%s: %w: it is shorter or longer than its first line says", TablesFile, disk.ErrFormat)
	}
	return tables, nil
}

type tablesReader struct {
	rest   []byte
	failed bool
}

func (r *tablesReader) take(n, size int) []byte {
	if r.failed || n < 0 || n > len(r.rest)/size {
		r.failed = true
		return nil
	}
	b := r.rest[:n*size]
	r.rest = r.rest[n*size:]
	return b
}

func (r *tablesReader) numbers(n int) []int32 {
	b := r.take(n, 4)
	out := make([]int32, len(b)/4)
	for i := range out {
		out[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

func (r *tablesReader) floats(n int) []float64 {
	b := r.take(n, 8)
	out := make([]float64, len(b)/8)
	for i := range out {
		out[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return out
}

// texts reads names, which share one piece of memory.
func (r *tablesReader) texts(n int) []string {
	lengths := r.numbers(n)
	total := 0
	for _, length := range lengths {
		if length < 0 || total > len(r.rest) {
			r.failed = true
			return nil
		}
		total += int(length)
	}
	all := string(r.take(total, 1))
	if r.failed {
		return nil
	}
	out := make([]string, len(lengths))
	for i, length := range lengths {
		out[i], all = all[:length], all[length:]
	}
	return out
}
