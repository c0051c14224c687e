package offline

import (
	"math"
	"slices"
	"sort"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// rankedItems is how long the lists are that choices are looked for in.
const rankedItems = 10

// hits says how often what was chosen is in the list of ten that was made before it was known, among all names that its entity had not chosen yet: recall
// of one relevant name, and nDCG with gain 1 and discount log2(rank+1), both the mean over choices. The zero value is empty.
type hits struct {
	n, found int64
	gain     float64
}

// add counts a choice at a place of the list, from 1; 0 is not in it.
func (h *hits) add(place int) {
	h.n++
	if place > 0 {
		h.found++
		h.gain += 1 / math.Log2(float64(place)+1)
	}
}

// addTo stores the means in m, if there are any.
func (h *hits) addTo(m *report.Metrics) {
	if h.n > 0 {
		m.Recall10, m.NDCG10 = report.Some(float64(h.found)/float64(h.n)), report.Some(h.gain/float64(h.n))
	}
}

// choices is what is known of earlier choices when lists are made: what each entity has chosen, and how popular names are.
type choices struct {
	field, by int // what is chosen and who chooses, of schema.categorical
	over      string
	seen      map[string]map[string]bool
	popular   popularity
	items     []snapshot.Item
	excluded  []string
}

// newChoices returns none yet; nil for a model whose events have labels. Who chooses is the first entity of the fold-in.
func newChoices(m *config.Model) *choices {
	field := m.ChosenField()
	if field < 0 {
		return nil
	}
	c := &choices{field: field, by: -1, over: m.Input.Negatives.Of, seen: make(map[string]map[string]bool), popular: popularity{at: make(map[string]int)}}
	for _, name := range m.Train.FoldIn.By {
		if f := slices.Index(m.Schema.Categorical, name); f != field && c.by < 0 {
			c.by = f
		}
	}
	return c
}

// of returns what the entity of an event has chosen, nil if nothing is known.
func (c *choices) of(ev *event.Event) map[string]bool {
	if c.by < 0 {
		return nil
	}
	return c.seen[ev.Categorical[c.by]]
}

// note takes up a choice.
func (c *choices) note(ev *event.Event) {
	c.popular.add(ev.Categorical[c.field])
	if c.by < 0 || ev.Categorical[c.by] == "" {
		return
	}
	seen := c.seen[ev.Categorical[c.by]]
	if seen == nil {
		seen = make(map[string]bool)
		c.seen[ev.Categorical[c.by]] = seen
	}
	seen[ev.Categorical[c.field]] = true
}

// topper makes lists: a version, or one with a history.
type topper interface {
	TopK(dst []snapshot.Item, q *snapshot.Query, s *snapshot.Scratch) ([]snapshot.Item, error)
}

// place returns the place of what an event chooses in the list that a version makes for it, 0 if it is not in it.
func (c *choices) place(version topper, ev *event.Event, in *snapshot.Input, scratch *snapshot.Scratch) (int, error) {
	c.excluded = c.excluded[:0]
	for name := range c.of(ev) {
		c.excluded = append(c.excluded, name)
	}
	var err error
	c.items, err = version.TopK(c.items[:0], &snapshot.Query{Input: *in, Over: c.over, K: rankedItems, Exclude: c.excluded}, scratch)
	return 1 + slices.IndexFunc(c.items, func(i snapshot.Item) bool { return i.Name == ev.Categorical[c.field] }), err
}

// popularity keeps names by how often they were chosen, the most popular first. Of equally popular ones the order is any, but the same each time.
type popularity struct {
	names  []string
	counts []int
	at     map[string]int
}

// add counts a choice of a name.
func (p *popularity) add(name string) {
	i, known := p.at[name]
	if !known {
		i = len(p.names)
		p.names, p.counts = append(p.names, name), append(p.counts, 0)
		p.at[name] = i
	}
	count := p.counts[i]
	first := sort.Search(i, func(j int) bool { return p.counts[j] <= count }) // of the names as popular as this one
	p.names[i], p.names[first] = p.names[first], name
	p.at[p.names[i]], p.at[name] = i, first
	p.counts[first]++
}

// place returns the place of a name among the most popular ones that are not in seen, 0 if it is not among the first rankedItems.
func (p *popularity) place(name string, seen map[string]bool) int {
	place := 0
	for _, other := range p.names {
		if seen[other] {
			continue
		}
		if place++; other == name {
			return place
		} else if place == rankedItems {
			break
		}
	}
	return 0
}
