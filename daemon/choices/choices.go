// Package choices says how well what is chosen next was foreseen: how often it is in the list of ten that was made
// before it was known, of all names that its entity has not chosen yet. It keeps what lists have to leave out, and the
// list that needs no model: the most popular names.
package choices

import (
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// Listed is how long the lists are that choices are looked for in.
const Listed = 10

// Hits counts choices by where they stood: recall of one relevant name, and nDCG with gain 1 and discount log2(rank+1),
// both the mean over choices. The zero value is empty.
type Hits struct {
	n, found int64
	gain     float64
}

// Add counts a choice at a place of the list, from 1; 0 is not in it.
func (h *Hits) Add(place int) {
	h.n++
	if place > 0 {
		h.found++
		h.gain += 1 / math.Log2(float64(place)+1)
	}
}

// N returns how many choices were counted.
func (h *Hits) N() int64 { return h.n }

// AddTo stores the means in m, if there are any.
func (h *Hits) AddTo(m *report.Metrics) {
	if h.n > 0 {
		m.Recall10, m.NDCG10 = report.Some(float64(h.found)/float64(h.n)), report.Some(h.gain/float64(h.n))
	}
}

// Known is what is known of earlier choices when lists are made: what each entity has chosen, and how popular names
// are. It is for one goroutine.
type Known struct {
	field, by int // what is chosen and who chooses, of schema.categorical; by is -1 where nobody does
	over      string
	seen      map[string]map[string]int // how often, by entity and name
	popular   popularity
	items     []snapshot.Item
	limit     int // of last; 0 for none
	// entity and name of each choice with a limit, the oldest at oldest once there are as many as may be
	last   [][2]string
	oldest int
}

// New knows no choices yet; it is nil for a model whose events have labels. Who chooses is the first entity of the
// fold-in. Of more choices than limit only the last are known; 0 is no limit.
func New(m *config.Model, limit int) *Known {
	field := m.ChosenField()
	if field < 0 {
		return nil
	}
	k := &Known{
		field:   field,
		by:      -1,
		over:    m.Input.Negatives.Of,
		seen:    make(map[string]map[string]int),
		popular: popularity{at: make(map[string]int)},
		limit:   limit,
	}
	for _, name := range m.Train.FoldIn.By {
		if f := slices.Index(m.Schema.Categorical, name); f != field && k.by < 0 {
			k.by = f
		}
	}
	return k
}

// knownBytes is what a choice takes in Known with a limit: two strings, their places in two maps and a count. It does
// not include the bytes of the names, which events share.
const knownBytes = 256

// Footprint returns the bytes of a Known with a limit whose names have at most maxName bytes.
func Footprint(limit, maxName int) int64 { return int64(limit) * int64(knownBytes+2*maxName) }

// Chosen returns the name that an event chooses.
func (k *Known) Chosen(ev *event.Event) string { return ev.Categorical[k.field] }

// of returns what the entity of an event has chosen, nil if nothing is known.
func (k *Known) of(ev *event.Event) map[string]int {
	if k.by < 0 {
		return nil
	}
	return k.seen[ev.Categorical[k.by]]
}

// Note takes up a choice. The event is not kept, its names are.
func (k *Known) Note(ev *event.Event) {
	choice := [2]string{"", k.Chosen(ev)}
	if k.by >= 0 {
		choice[0] = ev.Categorical[k.by]
	}
	switch {
	case k.limit == 0:
	case len(k.last) < k.limit:
		k.last = append(k.last, choice)
	default:
		k.drop(k.last[k.oldest])
		k.last[k.oldest] = choice
		k.oldest = (k.oldest + 1) % k.limit
	}
	k.popular.add(choice[1])
	if choice[0] == "" {
		return
	}
	if k.seen[choice[0]] == nil {
		k.seen[choice[0]] = make(map[string]int)
	}
	k.seen[choice[0]][choice[1]]++
}

// drop forgets a choice.
func (k *Known) drop(choice [2]string) {
	k.popular.remove(choice[1])
	seen := k.seen[choice[0]]
	if seen == nil {
		return
	}
	if seen[choice[1]]--; seen[choice[1]] == 0 {
		delete(seen, choice[1])
	}
	if len(seen) == 0 {
		delete(k.seen, choice[0])
	}
}

// Lister makes lists: a version, or one with a history.
type Lister interface {
	TopK(dst []snapshot.Item, q *snapshot.Query, s *snapshot.Scratch) ([]snapshot.Item, error)
}

// Query asks for the list that an event's choice is looked for in. It shares the memory of in.
func (k *Known) Query(ev *event.Event, in *snapshot.Input) *snapshot.Query {
	q := &snapshot.Query{Input: *in, Over: k.over, K: Listed}
	for name := range k.of(ev) {
		q.Exclude = append(q.Exclude, name)
	}
	return q
}

// Place returns the place of a name in the list that a version makes, 0 if it is not in it.
func Place(version Lister, q *snapshot.Query, name string, items []snapshot.Item,
	scratch *snapshot.Scratch) (place int, list []snapshot.Item, err error) {
	list, err = version.TopK(items[:0], q, scratch)
	return 1 + slices.IndexFunc(list, func(i snapshot.Item) bool { return i.Name == name }), list, err
}

// Place returns the place of what an event chooses in the list that a version makes for it, 0 if it is not in it.
func (k *Known) Place(version Lister, ev *event.Event, in *snapshot.Input,
	scratch *snapshot.Scratch) (place int, err error) {
	place, k.items, err = Place(version, k.Query(ev, in), k.Chosen(ev), k.items, scratch)
	return place, err
}

// PopularPlace returns the place of what an event chooses among the most popular names that its entity has not chosen,
// 0 if it is not among the first.
func (k *Known) PopularPlace(ev *event.Event) int { return k.popular.place(k.Chosen(ev), k.of(ev)) }
