package scorer

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
)

// postings are the rows of a table by value, of the columns that were asked for, and its codes. They are made once,
// when asked for first: the rows of a column take 4 bytes for each name in it.
type postings struct {
	mu      sync.Mutex
	columns map[int][][]int32 // by column, categorical ones first: rows of each value, ascending
	codes   *codes
}

// of returns the rows of each value of a column.
func (p *postings) of(t *format.Table, column int) [][]int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if rows, ok := p.columns[column]; ok {
		return rows
	}
	var rows [][]int32
	if column < len(t.Categorical) {
		c := &t.Categorical[column]
		rows = make([][]int32, len(c.Values))
		for row, at := range c.At {
			if at >= 0 {
				rows[at] = append(rows[at], int32(row))
			}
		}
	} else {
		c := &t.Multi[column-len(t.Categorical)]
		rows = make([][]int32, len(c.Values))
		begin := int32(0)
		for row, end := range c.Ends {
			for _, at := range c.At[begin:end] {
				if n := len(rows[at]); n == 0 || rows[at][n-1] != int32(row) {
					rows[at] = append(rows[at], int32(row))
				}
			}
			begin = end
		}
	}
	if p.columns == nil {
		p.columns = make(map[int][][]int32)
	}
	p.columns[column] = rows
	return rows
}

// asked is a condition of a query on a column of a table.
type asked struct {
	*format.Condition
	table, column int     // the column as postings number it, or of the numeric ones
	isNumber      bool    // a numeric column
	values        []int32 // places of the names in the column's values, ascending
}

// conditions finds the columns that a query asks for. They are of tables of the ranked field.
func (m *Model) conditions(field int, where []format.Condition) ([]asked, error) {
	var list []asked
	for i := range where {
		w := &where[i]
		if err := w.Validate(); err != nil {
			return nil, err
		}
		a := m.columnAsked(field, w)
		switch {
		case a.table < 0:
			return nil, fmt.Errorf("%w: where: %q is no column of a table of %q", disk.ErrInput, w.Field,
				m.contents.Schema.Categorical[field])
		case a.isNumber && w.Any != nil:
			return nil, fmt.Errorf("%w: where: %q is a number: ask for min and max", disk.ErrInput, w.Field)
		case !a.isNumber && w.Any == nil:
			return nil, fmt.Errorf("%w: where: %q has names: ask for some of them", disk.ErrInput, w.Field)
		}
		if !a.isNumber {
			a.values = m.valuesOf(&a)
		}
		list = append(list, a)
	}
	return list, nil
}

// columnAsked finds the column of a condition. Its table is -1 if none of the field has it; no two have.
func (m *Model) columnAsked(field int, w *format.Condition) asked {
	for t, k := range m.known {
		if k.of != field {
			continue
		}
		named := len(k.table.Categorical) + len(k.table.Multi)
		if c := slices.Index(k.table.Columns(), w.Field); c >= named {
			return asked{Condition: w, table: t, column: c - named, isNumber: true}
		} else if c >= 0 {
			return asked{Condition: w, table: t, column: c}
		}
	}
	return asked{Condition: w, table: -1}
}

// valuesOf returns the places of the names that a condition asks for.
func (m *Model) valuesOf(a *asked) (at []int32) {
	t := m.known[a.table].table
	var values []string
	if a.column < len(t.Categorical) {
		values = t.Categorical[a.column].Values
	} else {
		values = t.Multi[a.column-len(t.Categorical)].Values
	}
	for _, name := range a.Any {
		if i, ok := slices.BinarySearch(values, name); ok {
			at = append(at, int32(i))
		}
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// holds reports whether the condition holds for a row of its table as it was loaded.
func (a *asked) holds(t *format.Table, row int32) bool {
	switch {
	case a.isNumber:
		return a.within(t.Numeric[a.column].Values[row])
	case a.column < len(t.Categorical):
		return a.wants(t.Categorical[a.column].At[row])
	}
	c, begin := &t.Multi[a.column-len(t.Categorical)], int32(0)
	if row > 0 {
		begin = c.Ends[row-1]
	}
	return slices.ContainsFunc(c.At[begin:c.Ends[row]], a.wants)
}

func (a *asked) wants(value int32) bool {
	if len(a.values) > 8 {
		_, ok := slices.BinarySearch(a.values, value)
		return ok
	}
	return slices.Contains(a.values, value)
}

func (a *asked) within(v float64) bool {
	return !math.IsNaN(v) && (a.Min == nil || v >= *a.Min) && (a.Max == nil || v <= *a.Max)
}

// holdsChanged is holds of a row that a delta has changed.
func (a *asked) holdsChanged(t *format.Table, r *format.TableRow) bool {
	switch {
	case r.Removed:
		return false
	case a.isNumber:
		return a.within(r.Numeric[a.column])
	case a.column < len(t.Categorical):
		return r.Categorical[a.column] != "" && slices.Contains(a.Any, r.Categorical[a.column])
	}
	return slices.ContainsFunc(r.Multi[a.column-len(t.Categorical)],
		func(name string) bool { return slices.Contains(a.Any, name) })
}

// holdsFor reports whether the condition holds for an entity.
func (m *Model) holdsFor(a *asked, name string) bool {
	k := m.known[a.table]
	if r, ok := k.changed[name]; ok {
		return a.holdsChanged(k.table, r)
	}
	row, ok := k.rows[name]
	return ok && a.holds(k.table, row)
}

// fewest returns the place of the condition that fewest names fulfil, -1 where lists say of none how many do.
func (m *Model) fewest(where []asked) (first int) {
	first, least := -1, math.MaxInt
	for i := range where {
		if where[i].isNumber {
			continue
		}
		n := 0
		for _, rows := range m.rowsOf(&where[i]) {
			n += len(rows)
		}
		if n < least {
			first, least = i, n
		}
	}
	return first
}

// whereCandidates is candidates for the names of a field for which all conditions hold and that are not excluded. It
// looks at the names of the condition that fewest fulfil, as far as lists say how many.
func (m *Model) whereCandidates(over *Overlay, field, output int, by ranking, k int, event *format.Input,
	where []asked, s *Scratch) error {
	first := m.fewest(where)
	scanned := &where[max(first, 0)]
	of := m.known[scanned.table]
	isCoded := m.isCoded(field)
	if isCoded {
		m.encodeOver(over, event, s)
		s.coding.begin(m, of, s)
	}
	named := func(name string, from int) error {
		for i := range where {
			if i != from && !m.holdsFor(&where[i], name) {
				return nil
			}
		}
		j, ok := m.placeOf(field, name)
		if !ok {
			return nil
		}
		if i := m.exclusion(field, j); s.excluded[i/64]&(1<<(i%64)) != 0 {
			return nil
		}
		return m.exactCandidate(over, field, j, output, by, k, event, s)
	}
	try := func(row int32) error {
		if of.isChanged(row) {
			return nil
		}
		if !isCoded {
			return named(of.table.Names[row], first)
		}
		if !allHold(where, first, of.table, row) {
			return nil
		}
		if s.coding.rows = append(s.coding.rows, row); len(s.coding.rows) < codedRows {
			return nil
		}
		return m.codedCandidates(field, output, by, k, s)
	}
	if err := m.eachRow(of, scanned, s, try); err != nil {
		return err
	}
	if isCoded {
		if err := m.codedCandidates(field, output, by, k, s); err != nil {
			return err
		}
	}
	return of.eachChanged(func(name string) error { return named(name, -1) })
}

// allHold reports whether all conditions but one, which is known to, hold for a row of a table as it was loaded.
func allHold(where []asked, but int, t *format.Table, row int32) bool {
	for i := range where {
		if i != but && !where[i].holds(t, row) {
			return false
		}
	}
	return true
}

// isChanged reports whether a delta has changed a row of the table as it was loaded.
func (k *known) isChanged(row int32) bool {
	if len(k.changed) == 0 {
		return false
	}
	_, changed := k.changed[k.table.Names[row]]
	return changed
}

// eachChanged calls do with the entities whose rows deltas have brought or changed.
func (k *known) eachChanged(do func(name string) error) error {
	for name, r := range k.changed {
		if r.Removed {
			continue
		}
		if err := do(name); err != nil {
			return err
		}
	}
	return nil
}

// eachRow calls do with the rows of a table as it was loaded that have one of the names that a condition asks for, each
// once; with all rows where it asks for numbers.
func (m *Model) eachRow(of *known, a *asked, s *Scratch, do func(row int32) error) error {
	if a.isNumber {
		for row := range of.table.Names {
			if err := do(int32(row)); err != nil {
				return err
			}
		}
		return nil
	}
	lists := m.rowsOf(a)
	s.seen = s.seen[:0]
	if len(lists) > 1 && a.column >= len(of.table.Categorical) { // a row may have several of the names
		s.seen = slices.Grow(s.seen, (len(of.table.Names)+63)/64)[:(len(of.table.Names)+63)/64]
		clear(s.seen)
	}
	for _, rows := range lists {
		for _, row := range rows {
			if len(s.seen) > 0 {
				if s.seen[row/64]&(1<<(row%64)) != 0 {
					continue
				}
				s.seen[row/64] |= 1 << (row % 64)
			}
			if err := do(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// rowsOf returns the rows of a table that have one of the names that a condition asks for, a list for each name.
func (m *Model) rowsOf(a *asked) (lists [][]int32) {
	k := m.known[a.table]
	posted := k.posted.of(k.table, a.column)
	for _, at := range a.values {
		lists = append(lists, posted[at])
	}
	return lists
}
