package tables

import "sync"

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
