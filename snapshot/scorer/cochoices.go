package scorer

import (
	"math"
	"slices"

	"github.com/refitd/refitd/snapshot/format"
)

// lifted is what co-choices add to the names of a field, in Scratch.
type lifted struct {
	sums    []float64 // Σ_k 2^(−k/HalfLife) lift(h_k, i), by place in the version's vocabulary
	touched []int32   // places of those that are not 0
}

// lift sums the lifts of the names that go with what who asks has chosen last. clear undoes it.
func (m *Model) lift(over *Overlay, field int, event *format.Input, s *Scratch) {
	x := m.contents.CoChoices
	s.lifted.touched = s.lifted.touched[:0]
	if x == nil {
		return
	}
	of, by := x.Fields(&m.contents.Schema)
	if of != field || event.Categorical[by] == "" {
		return
	}
	if n := len(m.contents.Vocabulary[field]); len(s.lifted.sums) < n {
		s.lifted.sums = make([]float64, n)
	}
	age := 0.0
	add := func(place int32) {
		weight := math.Exp2(-age / x.HalfLife)
		age++
		if place < 0 || int(place) >= len(x.Neighbours) {
			return
		}
		for _, n := range x.Neighbours[place] {
			if s.lifted.sums[n.Place] == 0 {
				s.lifted.touched = append(s.lifted.touched, n.Place)
			}
			s.lifted.sums[n.Place] += weight * float64(n.Lift)
		}
	}
	entity := event.Categorical[by]
	if over != nil {
		for i := len(over.chosen) - 1; i >= 0 && age < format.MaxRecent; i-- {
			if over.chosen[i].entity == entity {
				add(over.chosen[i].place)
			}
		}
	}
	if j, ok := m.column(by, entity); ok && age == 0 {
		if at := int(j - m.first[by]); at < len(x.Recent) && int(j) < m.contents.NumFeatures {
			for _, place := range slices.Backward(x.Recent[at]) {
				add(place)
			}
		}
	}
}

// unlift makes the sums of lift 0 again.
func (s *Scratch) unlift() {
	for _, place := range s.lifted.touched {
		s.lifted.sums[place] = 0
	}
	s.lifted.touched = s.lifted.touched[:0]
}

// liftOf returns what co-choices add to the output of the name of a column.
func (m *Model) liftOf(field int, j int32, s *Scratch) float64 {
	if len(s.lifted.touched) == 0 || int(j) >= m.contents.NumFeatures {
		return 0
	}
	x := m.contents.CoChoices
	return x.Scale * math.Log1p(x.Weight*s.lifted.sums[j-m.first[field]])
}

// lift puts the names that co-choices lift among the best of the others, where they are. As what is lifted only gains,
// no other name can be among the best.
func (w *search) lift(s *Scratch) {
	if len(s.lifted.touched) == 0 {
		return
	}
	m := w.model
	best := slices.DeleteFunc(s.heap, func(x scored) bool { return m.liftOf(w.field, x.column, s) > 0 })
	s.heap = s.heap[:0]
	for _, x := range best { // as a heap again
		s.heap = pushed(s.heap, x, w.k)
	}
	for _, place := range s.lifted.touched {
		if s.excluded[place/64]&(1<<(place%64)) != 0 {
			continue
		}
		x := scored{column: m.first[w.field] + place}
		w.leadingOf(w.values[:1], int(x.column))
		x.key = w.values[0] + m.liftOf(w.field, x.column, s)
		if len(s.heap) < w.k || s.heap[0].worse(x) {
			s.heap = pushed(s.heap, x, w.k)
		}
	}
}

// chosenName is a choice of a history.
type chosenName struct {
	entity string
	place  int32 // in the version's vocabulary, or -1
}

// note keeps the choice of an event of a history, if lists take it into account.
func (o *Overlay) note(e *format.LabelledEvent) {
	x := o.model.contents.CoChoices
	if x == nil || !(e.Label > 0) || e.Categorical == nil {
		return
	}
	over, by := x.Fields(&o.model.contents.Schema)
	entity, name := e.Categorical[by], e.Categorical[over]
	if entity == "" || name == "" {
		return
	}
	place := int32(-1)
	if j, ok := o.model.column(over, name); ok && int(j) < o.model.contents.NumFeatures {
		place = j - o.model.first[over]
	}
	o.chosen = append(o.chosen, chosenName{entity, place})
}
