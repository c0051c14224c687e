package tables

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
)

// Row is what the last record of a key says of an entity. Its event has the entity's name in Categorical[0], and the
// columns behind it, in the order of config.Table; what the record lacks is absent as in events. It never changes.
type Row struct {
	Topic     string
	Partition int32
	Offset    int64
	Event     event.Event
	Vectors   []float32 // those of the columns, one behind the other; NaN where the record lacks one
	History   []byte    // all values of the key, Event the newest; nil in a table that is joined by its latest
	Ended     bool      // whether the newest value is that nothing is known
	since     int64     // offset of the newest value of a history
	Bytes     int       // that it takes in the state
}

// TakeVectors moves the numbers of vectors out of the event of a row of a table with so many numeric columns.
func (r *Row) TakeVectors(numeric int) {
	ev := &r.Event
	if len(ev.Numeric) <= numeric {
		return
	}
	vectors := ev.Numeric[numeric:]
	ev.Numeric = slices.Clone(ev.Numeric[:numeric])
	if !slices.ContainsFunc(vectors, func(v float64) bool { return !math.IsNaN(v) }) {
		return
	}
	r.Vectors = make([]float32, len(vectors))
	for i, v := range vectors {
		r.Vectors[i] = float32(v)
	}
}

// Name returns the name of the entity.
func (r *Row) Name() string { return r.Event.Categorical[0] }

// Set has the rows of all tables of a model. A nil Set is one without tables.
type Set struct {
	schema  event.Schema
	crossed bool // a cross has a joined field
	tables  []table

	mu      sync.RWMutex // guards rows and bytes of tables, and what follows
	touched []*Touched
	copied  *Set // what Snapshot returned last; nil after a change
	memo    any  // what Memo has made; nil after a change

	covered coverage
}

// table is one of them.
type table struct {
	config                      *config.Table
	of                          int    // field of events
	categorical, numeric, multi []int  // fields of events, by column
	ofNames, ofLists            []bool // of the columns of names and of lists, whether events get them: all but filters
	rows                        map[string][]*Row
	ended                       int // names of which nothing is known any more, but their history
	bytes                       int64
	newest                      int64 // time of the newest record that was put, in ms; 0 before one
	changes                     changes
	earlier                     *atomic.Int64 // joins with the oldest value that is kept, which is newer than the event
}

// Touched lists the entities whose rows changed since it was asked last, each once, in no order.
type Touched struct{ names map[Entity]struct{} }

// Entity is a name of a table.
type Entity struct {
	Table int // index in the configuration
	Name  string
}

// New returns a set without rows, nil for a model without tables.
func New(m *config.Model) *Set {
	if len(m.Tables) == 0 {
		return nil
	}
	s := &Set{schema: m.Schema.Event(), tables: make([]table, len(m.Tables))}
	for i := range m.Tables {
		c := &m.Tables[i]
		t := &s.tables[i]
		t.config, t.of, t.rows = c, slices.Index(m.Schema.Categorical, c.Of), make(map[string][]*Row)
		t.earlier = new(atomic.Int64)
		indices := func(columns, fields []string) (at []int) {
			for _, name := range columns {
				at = append(at, slices.Index(fields, name))
			}
			return at
		}
		t.categorical = indices(c.Categorical, m.Schema.Categorical)
		t.numeric, t.multi = indices(c.Numeric, m.Schema.Numeric), indices(c.Multi, m.Schema.Multi)
		t.ofNames, t.ofLists = t.learned(c.Categorical), t.learned(c.Multi)
	}
	for _, parts := range s.schema.Cross {
		s.crossed = s.crossed || slices.ContainsFunc(parts, func(f int) bool {
			return slices.ContainsFunc(s.schema.Joined,
				func(j event.Joined) bool { return !j.Numeric && !j.Multi && j.At == f })
		})
	}
	return s
}

// learned reports of columns whether they are more than filters.
func (t *table) learned(columns []string) (is []bool) {
	for _, name := range columns {
		is = append(is, !slices.Contains(t.config.Filter, name))
	}
	return is
}

// newer orders the last rows of partitions by time, then topic and partition. One that says nothing is behind all.
func newer(a, b *Row) int {
	switch {
	case a.Ended && !b.Ended:
		return 1
	case b.Ended && !a.Ended:
		return -1
	}
	return cmp.Or(cmp.Compare(b.Event.Time, a.Event.Time), cmp.Compare(b.Topic, a.Topic),
		cmp.Compare(b.Partition, a.Partition), cmp.Compare(b.since, a.since))
}

// rank puts the row that counts first: the newest of those that are the last of their partition. It depends on the rows
// alone, not on their order. Of rows with histories it is the one with the newest value that is in force.
func rank(rows []*Row) {
	best := -1
	for i, r := range rows {
		isLast := r.History != nil || !slices.ContainsFunc(rows, func(o *Row) bool {
			return o.Topic == r.Topic && o.Partition == r.Partition && o.Offset > r.Offset
		})
		if isLast && (best < 0 || newer(r, rows[best]) < 0) {
			best = i
		}
	}
	rows[0], rows[best] = rows[best], rows[0]
}

// Put adds a row to a table.
func (s *Set) Put(table int, r *Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.tables[table]
	if r.History == nil && t.config.HasHistory() { // another as_of wrote it
		r.begin()
	}
	defer t.count(r.Name())()
	rows := append(slices.Clip(t.rows[r.Name()]), r)
	if len(rows) > 1 {
		rank(rows)
	}
	t.rows[r.Name()] = rows
	t.bytes += int64(r.Bytes)
	t.newest = max(t.newest, r.Event.Time)
	s.touch(table, r.Name())
}

// Remove takes a row out of a table that has it.
func (s *Set) Remove(table int, r *Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.tables[table]
	name := r.Name()
	defer t.count(name)()
	rows := slices.DeleteFunc(slices.Clone(t.rows[name]), func(o *Row) bool { return o == r })
	if len(rows) == len(t.rows[name]) {
		return
	}
	if len(rows) == 0 {
		delete(t.rows, name)
	} else {
		rank(rows)
		t.rows[name] = rows
	}
	t.bytes -= int64(r.Bytes)
	s.touch(table, name)
}

// Clear takes out all rows.
func (s *Set) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.tables {
		for name := range s.tables[i].rows {
			s.touch(i, name)
		}
		clear(s.tables[i].rows)
		s.tables[i].bytes, s.tables[i].ended = 0, 0
	}
}

// now returns the row of a name that counts, nil without one.
func (t *table) now(name string) *Row {
	if rows := t.rows[name]; rows != nil && !rows[0].Ended {
		return rows[0]
	}
	return nil
}

// count keeps in ended how many names have a history alone: what it returns is called after a change of that name.
func (t *table) count(name string) (after func()) {
	is := func() (n int) {
		if t.rows[name] != nil && t.now(name) == nil {
			n = 1
		}
		return n
	}
	was := is()
	return func() { t.ended += is() - was }
}

func (s *Set) touch(table int, name string) {
	s.copied, s.memo = nil, nil
	for _, t := range s.touched {
		t.names[Entity{table, name}] = struct{}{}
	}
}

// Snapshot returns the rows as they are now, which nothing may change: the same copy until a row does. It is nil of a
// nil Set. O(entities) after a change.
func (s *Set) Snapshot() *Set {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.copied == nil {
		s.copied = &Set{schema: s.schema, crossed: s.crossed, tables: slices.Clone(s.tables)}
		for i := range s.copied.tables {
			s.copied.tables[i].rows = maps.Clone(s.tables[i].rows)
		}
	}
	return s.copied
}

// Memo returns what was made of the rows before, or makes it: once, as long as no row changes. The function must not
// put rows.
func (s *Set) Memo(of func() any) any {
	s.mu.RLock()
	memo := s.memo
	s.mu.RUnlock()
	if memo != nil {
		return memo
	}
	memo = of()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memo = memo
	return memo
}

// Follow returns a list of what changes from now on, until Unfollow. It is nil of a nil Set.
func (s *Set) Follow() *Touched {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &Touched{names: make(map[Entity]struct{})}
	s.touched = append(s.touched, t)
	return t
}

// Unfollow ends a list.
func (s *Set) Unfollow(t *Touched) {
	if s == nil || t == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touched = slices.DeleteFunc(s.touched, func(o *Touched) bool { return o == t })
}

// Take moves at most limit entities out of a list, in the order of tables and names.
func (s *Set) Take(t *Touched, limit int) []Entity {
	if s == nil || t == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.SortedFunc(maps.Keys(t.names), func(a, b Entity) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Name, b.Name))
	})
	list = list[:min(len(list), limit)]
	for _, e := range list {
		delete(t.names, e)
	}
	return list
}

// Differing adds to a list the entities whose rows are not the same in another set of the model.
func (s *Set) Differing(t *Touched, other *Set) {
	if s == nil || t == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other != nil && other != s {
		other.mu.RLock()
		defer other.mu.RUnlock()
	}
	for i := range s.tables {
		theirs := new(table)
		if other != nil {
			theirs = &other.tables[i]
		}
		for name := range s.tables[i].rows {
			is, was := s.tables[i].now(name), theirs.now(name)
			if is != nil && (was == nil || !SameColumns(&was.Event, &is.Event)) {
				t.names[Entity{i, name}] = struct{}{}
			}
		}
		for name := range theirs.rows {
			if theirs.now(name) != nil && s.tables[i].now(name) == nil {
				t.names[Entity{i, name}] = struct{}{}
			}
		}
	}
}

// Vectors returns the names of a table that have a vector of a column, ascending, and these, which must not be changed.
func (s *Set) Vectors(table, column int) (names []string, vectors [][]float32) {
	for _, r := range s.Rows(table) {
		if v := s.vectorOf(r, table, column); v != nil {
			names, vectors = append(names, r.Name()), append(vectors, v)
		}
	}
	return names, vectors
}

// Vector returns the vector of an entity in a column of its table, nil without one. It must not be changed.
func (s *Set) Vector(e Entity, column int) []float32 {
	if r := s.Find(e); r != nil {
		return s.vectorOf(r, e.Table, column)
	}
	return nil
}

func (s *Set) vectorOf(r *Row, table, column int) []float32 {
	at, list := 0, s.tables[table].config.Vector
	for i := range column {
		at += list[i].Dim
	}
	if v := r.Vectors; at+list[column].Dim <= len(v) && !math.IsNaN(float64(v[at])) {
		return v[at : at+list[column].Dim : at+list[column].Dim]
	}
	return nil
}

// SameColumns reports whether two rows of a table say the same.
func SameColumns(a, b *event.Event) bool {
	return slices.Equal(a.Categorical, b.Categorical) &&
		slices.EqualFunc(a.Numeric, b.Numeric, func(x, y float64) bool {
			return x == y || math.IsNaN(x) && math.IsNaN(y)
		}) && slices.EqualFunc(a.Multi, b.Multi, slices.Equal[[]string])
}

// Find returns the row of an entity, nil without one.
func (s *Set) Find(e Entity) *Row {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tables[e.Table].now(e.Name)
}

// Knew reports whether there is a row of an entity, or the history of one.
func (s *Set) Knew(e Entity) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tables[e.Table].rows[e.Name] != nil
}

// NumTables returns how many tables there are.
func (s *Set) NumTables() int {
	if s == nil {
		return 0
	}
	return len(s.tables)
}

// Field returns the field of events whose names are the entities of a table.
func (s *Set) Field(table int) int { return s.tables[table].of }

// Config returns the settings of a table.
func (s *Set) Config(table int) *config.Table { return s.tables[table].config }

// Count returns how many entities a table has, and the bytes of their rows.
func (s *Set) Count(table int) (rows int, bytes int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.tables[table].rows) - s.tables[table].ended, s.tables[table].bytes
}

// Rows returns the rows of a table, by name.
func (s *Set) Rows(table int) []*Row {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]*Row, 0, len(s.tables[table].rows))
	for _, rows := range s.tables[table].rows {
		if !rows[0].Ended {
			list = append(list, rows[0])
		}
	}
	slices.SortFunc(list, func(a, b *Row) int { return cmp.Compare(a.Name(), b.Name()) })
	return list
}

// all returns every row of a table, by name, topic, partition and offset.
func (s *Set) all(table int) (list []*Row) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, rows := range s.tables[table].rows {
		list = append(list, rows...)
	}
	slices.SortFunc(list, func(a, b *Row) int {
		return cmp.Or(cmp.Compare(a.Name(), b.Name()), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.Offset, b.Offset))
	})
	return list
}

// Join gives an event the columns of its entities but for filters, and the crosses that have some: as they are now, or
// in a table with a history as they were at the event's time, if it has one. What no row has the event lacks. The
// event's slices are its own, and are as long as the schema's. It reports for each table, by bit, whether there was a
// row.
func (s *Set) Join(ev *event.Event) (found uint32) {
	if s == nil {
		return 0
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var old event.Event
	for i := range s.tables {
		t := &s.tables[i]
		row := t.rowFor(ev, &old)
		if row != nil {
			found |= 1 << i
		}
		t.join(ev, row)
	}
	if s.crossed {
		s.schema.Complete(ev)
	}
	return found
}

// rowFor returns the row that an event is joined with, nil for none. into may be used.
func (t *table) rowFor(ev, into *event.Event) *event.Event {
	name := ev.Categorical[t.of]
	rows := t.rows[name]
	if name == "" || rows == nil {
		return nil
	}
	if !t.config.HasHistory() || ev.Time <= 0 {
		if now := t.now(name); now != nil {
			return &now.Event
		}
		return nil
	}
	row, isEarlier := at(rows, ev.Time, into)
	if row == nil || !t.fits(row) {
		return nil
	}
	if isEarlier {
		t.earlier.Add(1)
	}
	return row
}

// join stores the columns of a row, nil for none.
func (t *table) join(ev, row *event.Event) {
	for c, at := range t.categorical {
		if ev.Categorical[at] = ""; row != nil && t.ofNames[c] {
			ev.Categorical[at] = row.Categorical[1+c]
		}
	}
	for c, at := range t.numeric {
		if ev.Numeric[at] = math.NaN(); row != nil {
			ev.Numeric[at] = row.Numeric[c]
		}
	}
	for c, at := range t.multi {
		if ev.Multi[at] = ev.Multi[at][:0]; row != nil && t.ofLists[c] {
			ev.Multi[at] = append(ev.Multi[at], row.Multi[c]...)
		}
	}
}

// JoinAll joins events.
func (s *Set) JoinAll(lists ...[]event.Event) {
	if s == nil {
		return
	}
	for _, events := range lists {
		for i := range events {
			s.Join(&events[i])
		}
	}
}
