package scorer

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
)

// postings are the rows of a table by value, of the columns that were asked for. They are made once, when asked for
// first.
type postings struct {
	mu      sync.Mutex
	columns map[int][][]int32 // by column, categorical ones first: rows of each value, ascending
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
	table, column int  // the column as postings number it, or of the numeric ones
	isNumber      bool // a numeric column
}

// conditions finds the columns that a query asks for. They are of tables of the ranked field.
func (m *Model) conditions(field int, where []format.Condition) ([]asked, error) {
	var list []asked
	for i := range where {
		w := &where[i]
		if err := w.Validate(); err != nil {
			return nil, err
		}
		a := asked{Condition: w, table: -1}
		for t, k := range m.known {
			if k.of != field {
				continue
			}
			for c := range k.table.Categorical {
				if k.table.Categorical[c].Field == w.Field {
					a.table, a.column = t, c
				}
			}
			for c := range k.table.Multi {
				if k.table.Multi[c].Field == w.Field {
					a.table, a.column = t, len(k.table.Categorical)+c
				}
			}
			for c := range k.table.Numeric {
				if k.table.Numeric[c].Field == w.Field {
					a.table, a.column, a.isNumber = t, c, true
				}
			}
		}
		switch {
		case a.table < 0:
			return nil, fmt.Errorf("%w: where: %q is no column of a table of %q", disk.ErrInput, w.Field,
				m.contents.Schema.Categorical[field])
		case a.isNumber && w.Any != nil:
			return nil, fmt.Errorf("%w: where: %q is a number: ask for min and max", disk.ErrInput, w.Field)
		case !a.isNumber && w.Any == nil:
			return nil, fmt.Errorf("%w: where: %q has names: ask for some of them", disk.ErrInput, w.Field)
		}
		list = append(list, a)
	}
	return list, nil
}

// holds reports whether the condition holds for a row of its table as it was loaded.
func (a *asked) holds(t *format.Table, row int32) bool {
	switch {
	case a.isNumber:
		return a.within(t.Numeric[a.column].Values[row])
	case a.column < len(t.Categorical):
		c := &t.Categorical[a.column]
		return c.At[row] >= 0 && slices.Contains(a.Any, c.Values[c.At[row]])
	}
	c, begin := &t.Multi[a.column-len(t.Categorical)], int32(0)
	if row > 0 {
		begin = c.Ends[row-1]
	}
	return slices.ContainsFunc(c.At[begin:c.Ends[row]],
		func(at int32) bool { return slices.Contains(a.Any, c.Values[at]) })
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

// eachWhere calls do with the places of the names of a field for which all conditions hold and that are not excluded,
// until it returns an error. It looks at the names of the condition that fewest fulfil, as far as lists say how many.
func (m *Model) eachWhere(field int, where []asked, s *Scratch, do func(j int32) error) error {
	first, fewest := -1, math.MaxInt
	for i := range where {
		a := &where[i]
		if a.isNumber {
			continue
		}
		n := 0
		for _, rows := range m.rowsOf(a) {
			n += len(rows)
		}
		if n < fewest {
			first, fewest = i, n
		}
	}
	consider := func(name string, but int) error {
		for i := range where {
			if i != but && !m.holdsFor(&where[i], name) {
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
		return do(j)
	}
	if first < 0 { // numbers alone: every row of the first one's table
		k := m.known[where[0].table]
		for _, name := range k.table.Names {
			if k.changed[name] == nil {
				if err := consider(name, -1); err != nil {
					return err
				}
			}
		}
		return m.eachChanged(k, func(name string) error { return consider(name, -1) })
	}
	k := m.known[where[first].table]
	lists := m.rowsOf(&where[first])
	s.seen = s.seen[:0]
	if len(lists) > 1 { // a row may have several of the names
		s.seen = slices.Grow(s.seen, (len(k.table.Names)+63)/64)[:(len(k.table.Names)+63)/64]
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
			name := k.table.Names[row]
			if _, changed := k.changed[name]; changed {
				continue
			}
			if err := consider(name, first); err != nil {
				return err
			}
		}
	}
	return m.eachChanged(k, func(name string) error { return consider(name, -1) })
}

func (m *Model) eachChanged(k *known, do func(name string) error) error {
	for name, r := range k.changed {
		if !r.Removed {
			if err := do(name); err != nil {
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
	var values []string
	if a.column < len(k.table.Categorical) {
		values = k.table.Categorical[a.column].Values
	} else {
		values = k.table.Multi[a.column-len(k.table.Categorical)].Values
	}
	for i, name := range a.Any {
		if at, ok := slices.BinarySearch(values, name); ok && !slices.Contains(a.Any[:i], name) {
			lists = append(lists, posted[at])
		}
	}
	return lists
}
