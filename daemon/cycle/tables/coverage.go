package tables

import (
	"slices"
	"sync"
	"time"
)

// coverageEvents is how many events a share is of. Chosen by hand.
const coverageEvents = 1000

// coverage counts the events that have a row in each table.
type coverage struct {
	mu     sync.Mutex
	events int
	rows   []int     // of events, by table
	share  []float64 // of the last coverageEvents before them; nil before there are so many
}

// Cover counts events, of which some have a row in each table. It does nothing to a nil Set.
func (s *Set) Cover(events int, rows []int) {
	if s == nil {
		return
	}
	c := &s.covered
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows == nil {
		c.rows = make([]int, len(s.tables))
	}
	c.events += events
	for i, n := range rows {
		c.rows[i] += n
	}
	if c.events < coverageEvents {
		return
	}
	c.share = make([]float64, len(c.rows))
	for i, n := range c.rows {
		c.share[i] = float64(n) / float64(c.events)
	}
	c.events = 0
	clear(c.rows)
}

// Coverage returns the share of a thousand events or more that had a row in a table, and whether there were so many.
func (s *Set) Coverage(table int) (share float64, known bool) {
	c := &s.covered
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.share == nil {
		return 0, false
	}
	return c.share[table], true
}

// Newest returns the time of the newest record of a table that gave it a row, in milliseconds since 1970, 0 for none.
func (s *Set) Newest(table int) int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tables[table].newest
}

// A column changes too often to be joined by its latest value where it has changed in so many rows within a week, by
// the times of records, as a share of all rows and at least. Chosen by hand.
const (
	changesWindow = int64(7 * 24 * time.Hour / time.Millisecond)
	changesShare  = 0.1
	leastChanges  = 10
)

// changes counts those of the columns of a table: names, then lists, then numbers.
type changes struct {
	began  int64 // time of the first record that is counted
	counts []int
}

// Changed counts the columns in which a row differs from the one before it.
func (s *Set) Changed(table int, old, row *Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, a, b := &s.tables[table], &old.Event, &row.Event
	c, names := &t.changes, len(t.categorical)
	if old.Name() != row.Name() || t.config.HasHistory() {
		return
	}
	if c.counts == nil || b.Time-c.began > changesWindow {
		c.began, c.counts = b.Time, make([]int, names+len(t.multi)+len(t.numeric))
	}
	for i := range c.counts {
		var same bool
		switch list := i - names; {
		case list < 0:
			same = a.Categorical[1+i] == b.Categorical[1+i]
		case list < len(t.multi):
			same = slices.Equal(a.Multi[list], b.Multi[list])
		default:
			x, y := a.Numeric[list-len(t.multi)], b.Numeric[list-len(t.multi)]
			same = x == y || x != x && y != y
		}
		if !same {
			c.counts[i]++
		}
	}
}

// Changing returns the columns of a table that change too often to be joined by their latest value, none of one with
// histories.
func (s *Set) Changing(table int) (columns []string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := &s.tables[table]
	if t.config.HasHistory() {
		return nil
	}
	all := slices.Concat(t.config.Categorical, t.config.Multi, t.config.Numeric)
	for i, n := range t.changes.counts {
		if n >= leastChanges && float64(n) > changesShare*float64(len(t.rows)) && !slices.Contains(t.config.Filter, all[i]) {
			columns = append(columns, all[i])
		}
	}
	return columns
}

// Earlier returns how many events were joined with a value that is newer than they are, as no older one is kept.
func (s *Set) Earlier(table int) int64 { return s.tables[table].earlier.Load() }
