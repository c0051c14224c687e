package cycle

import "github.com/refitd/refitd/snapshot"

// popularRows are those of versions of popularity alone, to which the popularity of names is added.
type popularRows struct{}

func (popularRows) stale() string { return "" }

func (popularRows) row(_, _ []float64, _ int, _ string) (exists, whole bool) { return true, true }

func (popularRows) rest(d *snapshot.Delta, _ func(rowChange)) { d.Bias = make([]float64, 1) }

// movedPopularity is what a delta has of popularity; nil where versions have none.
type movedPopularity struct {
	before, now *popularWeights
	names       []string // whose weights are others now
}

// movePopularity returns the popularity after what was observed, of which a delta may have so many rows. Where others
// observe the choices, it stays that of the refit. c.mu is held.
func (f *following) movePopularity(c *Cycle, limit int) *movedPopularity {
	if f.popular == nil {
		return nil
	}
	moved := &movedPopularity{before: f.popular, now: f.popular}
	if len(c.popular.names) > 0 {
		moved.now, moved.names = c.popular.moved(f.popular, limit)
	}
	f.popular = moved.now
	return moved
}

// addTo adds the popularity of a name to its row.
func (p *movedPopularity) addTo(change *rowChange) {
	if p != nil && change.field == p.now.Field {
		change.linear[0] += p.now.name(change.name)
	}
}

// addMoved adds the rows of names of which nothing has moved but their popularity: as they were published, or of a new
// name nothing but that.
func (f *follower) addMoved(p *movedPopularity) {
	if p == nil || len(p.names) == 0 {
		return
	}
	there := make(map[string]struct{})
	for i := range f.changes {
		if x := &f.changes[i]; x.field == p.now.Field {
			there[x.name] = struct{}{}
		}
	}
	for _, name := range p.names {
		if _, ok := there[name]; ok {
			continue
		}
		change := rowChange{field: p.now.Field, name: name, linear: make([]float64, f.model.NumOutputs()), basis: make([]float64, f.basis)}
		if f.place(&change); change.column >= 0 {
			basis, linear := f.model.Row(change.column)
			copy(change.basis, basis)
			copy(change.linear, linear)
			change.linear[0] -= p.before.name(name)
		}
		p.addTo(&change)
		f.changes = append(f.changes, change)
	}
}
