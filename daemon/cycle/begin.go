package cycle

import (
	"math"

	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/vectors"
)

// follow lets a fold-in know where rows of names with vectors begin, from the prior of the champion.
func (e *ensemble) follow(l *experts.FoldIn, ch *fitted.Fitted) {
	if old, ok := e.learner.(*experts.FoldIn); ok && old.Beginning != nil {
		e.tables.Unfollow(old.Waiting)
	}
	if ch == nil || len(ch.Vectors) == 0 {
		return
	}
	l.Beginning = &experts.Beginning{Waiting: e.tables.Follow(), Room: e.config.Train.FoldIn.MaxRows / 4,
		Row: func(field int, name string) []float64 {
			return vectors.Begins(ch.Vectors, e.tables, field, name, ch.Posterior.RowSize())
		}}
	e.tables.Differing(l.Waiting, nil) // all: also what came while the refit ran
}

// begin gives names that tables know, and neither events nor the champion, rows in the fold-in: updates and deltas have
// them before their first event. They take at most a quarter of its rows. c.mu is held.
func (e *ensemble) begin() {
	l, ok := e.learner.(*experts.FoldIn)
	if !ok || l.Beginning == nil {
		return
	}
	for _, name := range e.tables.Take(l.Waiting, math.MaxInt) {
		if l.Room > 0 && l.Know(e.tables.Field(name.Table), name.Name) {
			l.Room--
		}
	}
}
