package scorer

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/refitd/refitd/snapshot/format"
)

// known is a table of a version in memory, with what deltas have changed. It never changes.
type known struct {
	table                       *format.Table
	of                          int              // field of events
	categorical, numeric, multi []int            // fields of events, by column
	rows                        map[string]int32 // by name, of table
	changed                     map[string]*format.TableRow
	posted                      *postings // of table, made when first asked for
}

// indexTables notes the rows of the tables by name, and the names of entities that have no column.
func (m *Model) indexTables() {
	m.known = nil
	for i, t := range m.contents.Tables {
		m.known = append(m.known, m.indexTable(i, t))
	}
	m.listExtras()
}

func (m *Model) indexTable(at int, t *format.Table) *known {
	s := &m.contents.Schema
	k := &known{table: t, of: slices.Index(s.Categorical, t.Of), rows: indexOf(t.Names, 0), posted: new(postings)}
	for i := range t.Categorical {
		k.categorical = append(k.categorical, slices.Index(s.Categorical, t.Categorical[i].Field))
	}
	for i := range t.Multi {
		k.multi = append(k.multi, slices.Index(s.Multi, t.Multi[i].Field))
	}
	for i := range t.Numeric {
		k.numeric = append(k.numeric, slices.IndexFunc(s.Numeric,
			func(f format.NumericField) bool { return f.Name == t.Numeric[i].Field }))
	}
	return k
}

// listExtras lists, by categorical field, the names that tables have and the vocabulary has not, ascending: they can be
// ranked by what is known of them.
func (m *Model) listExtras() {
	m.extras = nil
	for i, k := range m.known {
		m.addExtras(k.of, func(yield func(string)) {
			for _, name := range k.table.Names {
				if k.changed[name] == nil {
					yield(name)
				}
			}
			for name, r := range m.known[i].changed {
				if !r.Removed {
					yield(name)
				}
			}
		})
	}
}

func (m *Model) addExtras(field int, each func(yield func(string))) {
	if m.extras == nil {
		m.extras = make([][]string, len(m.contents.Schema.Categorical))
	}
	names := slices.Clone(m.extras[field])
	each(func(name string) {
		if _, ok := m.column(field, name); !ok {
			names = append(names, name)
		}
	})
	slices.Sort(names)
	m.extras[field] = slices.Compact(names)
}

// updateExtras is listExtras after a delta, which looks at its names alone.
func (m *Model) updateExtras(d *format.Delta) {
	names := make(map[int][]string) // that may have come or gone, by field
	for _, a := range d.Added {
		if m.isOfTable(a.Field) {
			names[a.Field] = append(names[a.Field], a.Name)
		}
	}
	for _, r := range d.TableRows {
		field := m.known[r.Table].of
		names[field] = append(names[field], r.Name)
	}
	m.extras = slices.Clone(m.extras)
	for field, list := range names {
		m.extras[field] = m.changedExtras(field, list)
	}
}

// changedExtras returns the extras of a field after some names may have come or gone.
func (m *Model) changedExtras(field int, names []string) []string {
	old := m.extras[field]
	names = slices.DeleteFunc(names, func(name string) bool {
		_, was := slices.BinarySearch(old, name)
		return was == m.isExtra(field, name)
	})
	if len(names) == 0 {
		return old
	}
	slices.Sort(names)
	next := make([]string, 0, len(old)+len(names))
	for _, name := range slices.Compact(names) {
		at, was := slices.BinarySearch(old, name)
		next = append(next, old[:at]...)
		if old = old[at:]; was {
			old = old[1:]
		} else {
			next = append(next, name)
		}
	}
	return append(next, old...)
}

// isExtra reports whether a name of a field has a row of a table and no column.
func (m *Model) isExtra(field int, name string) bool {
	_, learned := m.column(field, name)
	return !learned && slices.ContainsFunc(m.known, func(k *known) bool {
		if r := k.changed[name]; k.of != field || r != nil {
			return k.of == field && !r.Removed
		}
		_, ok := k.rows[name]
		return ok
	})
}

// numExtras returns how many names of a field are known by tables alone.
func (m *Model) numExtras(field int) int {
	if m.extras == nil {
		return 0
	}
	return len(m.extras[field])
}

// placeOf returns the column of a name, or that behind all columns of one that tables alone know.
func (m *Model) placeOf(field int, name string) (int32, bool) {
	if j, ok := m.column(field, name); ok {
		return j, true
	}
	if m.extras != nil {
		if at, ok := slices.BinarySearch(m.extras[field], name); ok {
			return int32(m.NumColumns() + at), true
		}
	}
	return 0, false
}

// isOfTable reports whether tables know the names of a field.
func (m *Model) isOfTable(field int) bool {
	return slices.ContainsFunc(m.known, func(k *known) bool { return k.of == field })
}

// isColumnOfTable reports whether tables say a field: an event without it may have it by them, unlike one with a name.
func (m *Model) isColumnOfTable(field int) bool {
	return slices.ContainsFunc(m.known, func(k *known) bool { return slices.Contains(k.categorical, field) })
}

// isFilter reports whether a field, numbered with crosses and lists, is a column of tables that nothing has learned.
// Its names serve conditions alone, and none of them is unseen.
func (m *Model) isFilter(field int) bool {
	list := field - m.contents.Schema.FirstMulti()
	return len(m.contents.Vocabulary[field]) == 0 && slices.ContainsFunc(m.known, func(k *known) bool {
		return slices.Contains(k.categorical, field) || slices.Contains(k.multi, list)
	})
}

// joinedInput is the memory of an event with what is known of its entities.
type joinedInput struct {
	in      format.Input
	numbers []float64
	names   []string
	lists   [][]string
	own     [][]string // memory of lists
}

// join returns an event with what tables know of its entities in the columns that it lacks. It belongs to the scratch.
func (m *Model) join(in *format.Input, s *Scratch) *format.Input {
	if len(m.known) == 0 || in.Categorical == nil || in == &s.event.in {
		return in
	}
	j, schema := &s.event, &m.contents.Schema
	j.names = append(j.names[:0], in.Categorical...)
	if j.numbers = append(j.numbers[:0], in.Numeric...); in.Numeric == nil {
		for range schema.Numeric {
			j.numbers = append(j.numbers, math.NaN())
		}
	}
	if j.lists = append(j.lists[:0], in.Multi...); in.Multi == nil {
		j.lists = append(j.lists, make([][]string, len(schema.Multi))...)
	}
	for len(j.own) < len(j.lists) {
		j.own = append(j.own, nil)
	}
	for _, k := range m.known {
		if name := j.names[k.of]; name != "" {
			k.fill(j, name)
		}
	}
	j.in = format.Input{Categorical: j.names, Numeric: j.numbers, Multi: j.lists}
	return &j.in
}

// fill stores what the row of an entity says in the fields that the event lacks.
func (k *known) fill(j *joinedInput, name string) {
	if r, ok := k.changed[name]; ok {
		k.fillChanged(j, r)
		return
	}
	at, ok := k.rows[name]
	if !ok {
		return
	}
	for c, field := range k.categorical {
		if column := &k.table.Categorical[c]; j.names[field] == "" && column.At[at] >= 0 {
			j.names[field] = column.Values[column.At[at]]
		}
	}
	for c, field := range k.numeric {
		if !format.IsFinite(j.numbers[field]) {
			j.numbers[field] = k.table.Numeric[c].Values[at]
		}
	}
	for c, field := range k.multi {
		if len(j.lists[field]) > 0 {
			continue
		}
		column, begin := &k.table.Multi[c], int32(0)
		if at > 0 {
			begin = column.Ends[at-1]
		}
		list := j.own[field][:0]
		for _, v := range column.At[begin:column.Ends[at]] {
			list = append(list, column.Values[v])
		}
		j.own[field], j.lists[field] = list, list
	}
}

func (k *known) fillChanged(j *joinedInput, r *format.TableRow) {
	if r.Removed {
		return
	}
	for c, field := range k.categorical {
		if j.names[field] == "" {
			j.names[field] = r.Categorical[c]
		}
	}
	for c, field := range k.numeric {
		if !format.IsFinite(j.numbers[field]) {
			j.numbers[field] = r.Numeric[c]
		}
	}
	for c, field := range k.multi {
		if len(j.lists[field]) == 0 {
			j.lists[field] = r.Multi[c]
		}
	}
}

// without makes an event lack what tables say of a field, in place.
func (m *Model) without(field int, in *format.Input, s *Scratch) {
	for _, k := range m.known {
		if k.of != field {
			continue
		}
		for _, f := range k.categorical {
			in.Categorical[f] = ""
		}
		if in.Numeric != nil && len(k.numeric) > 0 {
			s.numbers = append(s.numbers[:0], in.Numeric...)
			for _, f := range k.numeric {
				s.numbers[f] = math.NaN()
			}
			in.Numeric = s.numbers
		}
		if in.Multi != nil && len(k.multi) > 0 {
			s.lists = append(s.lists[:0], in.Multi...)
			for _, f := range k.multi {
				s.lists[f] = nil
			}
			in.Multi = s.lists
		}
	}
}

// mostChanged is how many rows may be changed apart from a table, in addition to an eighth of its rows, before they are
// put into it. Chosen by hand: a delta copies the list of them.
const mostChanged = 4096

// withTableRows takes up the rows of a delta.
func (m *Model) withTableRows(rows []*format.TableRow) error {
	if len(rows) == 0 {
		return nil
	}
	m.known = slices.Clone(m.known)
	copied := make([]bool, len(m.known))
	for _, r := range rows {
		if r.Table < 0 || r.Table >= len(m.known) {
			return fmt.Errorf("a row of table %d, the version has %d", r.Table, len(m.known))
		}
		k := m.known[r.Table]
		if !r.Removed && (len(r.Categorical) != len(k.categorical) || len(r.Multi) != len(k.multi) ||
			len(r.Numeric) != len(k.numeric)) {
			return fmt.Errorf("a row of table %s has other columns", k.table.Name)
		}
		if !copied[r.Table] {
			next := *k
			if next.changed = maps.Clone(k.changed); next.changed == nil {
				next.changed = make(map[string]*format.TableRow)
			}
			k = &next
			m.known[r.Table], copied[r.Table] = k, true
		}
		k.changed[r.Name] = r
	}
	for i, k := range m.known {
		if len(k.changed) > mostChanged+len(k.rows)/8 {
			table := k.current(i)
			m.contents.Tables = slices.Clone(m.contents.Tables)
			m.contents.Tables[i], m.known[i] = table, m.indexTable(i, table)
		}
	}
	return nil
}

// current returns the table with all changes.
func (k *known) current(at int) *format.Table {
	if len(k.changed) == 0 {
		return k.table
	}
	changed := make([]*format.TableRow, 0, len(k.changed))
	for _, name := range slices.Sorted(maps.Keys(k.changed)) {
		changed = append(changed, k.changed[name])
	}
	return k.table.With(at, changed)
}

// Known returns what tables say of an entity, by field: a name, a list of names or a number; nil for nothing.
func (m *Model) Known(field, name string) map[string]any {
	s := &m.contents.Schema
	f := slices.Index(s.Categorical, field)
	if f < 0 || !m.isOfTable(f) {
		return nil
	}
	in := format.Input{Categorical: make([]string, len(s.Categorical))}
	in.Categorical[f] = name
	joined := s.ToMap(m.join(&in, new(Scratch)))
	said := make(map[string]any)
	for _, k := range m.known {
		for _, list := range []struct {
			fields []int
			name   func(int) string
		}{{k.categorical, func(i int) string { return s.Categorical[i] }},
			{k.multi, func(i int) string { return s.Multi[i] }},
			{k.numeric, func(i int) string { return s.Numeric[i].Name }}} {
			for _, i := range list.fields {
				if v, ok := joined[list.name(i)]; ok && k.of == f {
					said[list.name(i)] = v
				}
			}
		}
	}
	return said
}
