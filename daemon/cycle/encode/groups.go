package encode

import (
	"math"
	"slices"
	"strings"

	"github.com/refitd/refitd/consumer/event"
)

// What makes a field a function of another: names of the other that come at least twice carry at least groupRows of the
// rows, and in groupAgree of those rows a name comes with the value that it came with most often. Chosen by hand.
const (
	groupRows  = 0.5
	groupAgree = 0.99
)

// crossShare is the share of a field's names that its dependents' pairs have to reach for the field to be their cross.
// Chosen by hand.
const crossShare = 0.95

// FindGroups returns the group of every field of a vocabulary, nil if each is a separate group or all are one: a
// categorical or multi field that is a function of another in these events (the age of a user, the genres of an item),
// or said to be by the schema, is in that one's group. A field that is the cross of two others has none.
func FindGroups(schema *event.Schema, events []event.Event, fields int) []int32 {
	names := len(schema.Categorical) + len(schema.Multi)
	// Two fields can only be one group, which says nothing.
	if names < 3 {
		return nil
	}
	parent := newGrouping(schema, events).parents(schema)
	group := make([]int32, fields)
	found := false
	for f := range group {
		group[f] = int32(f)
		if f < names {
			root := rootOf(parent, f)
			group[f], found = int32(root), found || root != f
		}
	}
	if groups := slices.Compact(slices.Sorted(slices.Values(group))); !found || len(groups) < 2 {
		return nil
	}
	return group
}

// saidParents returns, for each field, the field that the schema says it is a function of, or -1.
func saidParents(schema *event.Schema) []int {
	fields := slices.Concat(schema.Categorical, schema.Multi, schema.Numeric)
	parent := make([]int, len(fields))
	for f, name := range fields {
		parent[f] = -1
		if of, ok := schema.Of[name]; ok {
			parent[f] = slices.Index(schema.Categorical, of)
		}
	}
	return parent
}

// rootOf returns the field that a field is, by others, a function of, and that is a function of none.
func rootOf(parent []int, f int) int {
	for parent[f] >= 0 {
		f = parent[f]
	}
	return f
}

// grouping has what events say in each field: categorical, multi and numeric ones.
type grouping struct {
	events   []event.Event
	columns  [][]int32 // per field, the value of each row as a number
	distinct []int     // of a numeric field 0 where it has more values than any field has names
	numeric  int       // the first numeric field
}

func newGrouping(schema *event.Schema, events []event.Event) *grouping {
	names := len(schema.Categorical) + len(schema.Multi)
	fields := names + len(schema.Numeric)
	g := &grouping{events: events, columns: make([][]int32, fields), distinct: make([]int, fields), numeric: names}
	most := 0
	for f := range names {
		if g.columns[f], g.distinct[f] = numbered(schema, events, f); f < schema.NumGiven() {
			most = max(most, g.distinct[f])
		}
	}
	for f := range schema.Numeric {
		g.columns[names+f], g.distinct[names+f] = numberedNumbers(events, f, most)
	}
	return g
}

// parents returns, for each field, the one that it is a function of, or -1. Numeric fields have none.
func (g *grouping) parents(schema *event.Schema) []int {
	said := saidParents(schema)
	parent := slices.Clone(said)
	for f := range parent[:g.numeric] {
		// What the schema says counts, whatever the events look like.
		if said[f] < 0 && !schema.IsCross(f) {
			if a := g.determinant(f, schema); a >= 0 && rootOf(parent, a) != f { // no circles
				parent[f] = a
			}
		}
	}
	for f := range parent[:g.numeric] {
		g.dropCross(f, parent, said)
	}
	return parent
}

// numbered gives the values of a field numbers in order of appearance; a list of names is one value.
func numbered(schema *event.Schema, events []event.Event, field int) ([]int32, int) {
	column, numbers := make([]int32, len(events)), make(map[string]int32)
	for i := range events {
		value := ""
		if field < len(schema.Categorical) {
			value = events[i].Categorical[field]
		} else {
			list := slices.Clone(events[i].Multi[field-len(schema.Categorical)])
			slices.Sort(list)
			value = strings.Join(list, "\x00")
		}
		n, ok := numbers[value]
		if !ok {
			n = int32(len(numbers))
			numbers[value] = n
		}
		column[i] = n
	}
	return column, len(numbers)
}

// numberedNumbers is numbered of a numeric field, which has at most so many values, else nil.
func numberedNumbers(events []event.Event, field, most int) ([]int32, int) {
	column, numbers := make([]int32, len(events)), make(map[uint64]int32)
	for i := range events {
		bits := math.Float64bits(events[i].Numeric[field])
		n, ok := numbers[bits]
		if !ok {
			if n = int32(len(numbers)); len(numbers) == most {
				return nil, 0
			}
			numbers[bits] = n
		}
		column[i] = n
	}
	return column, len(numbers)
}

// determinant returns the categorical field with the fewest names that field f is a function of, or -1.
func (g *grouping) determinant(f int, schema *event.Schema) int {
	best := -1
	for a := range schema.Categorical[:schema.NumGiven()] {
		least := g.distinct[f] + 1
		if f >= g.numeric {
			least-- // two items seldom have one price
		}
		if a != f && g.distinct[a] >= least && (best < 0 || g.distinct[a] < g.distinct[best]) && g.determines(a, f) {
			best = a
		}
	}
	return best
}

// determines reports whether field b is a function of field a.
func (g *grouping) determines(a, b int) bool {
	if g.distinct[b] < 2 {
		return false
	}
	rows := make([]int, g.distinct[a])
	counts := make(map[int64]int)
	// Rows that disagree only become more: too many of them end the count.
	others, most := 0, make([]int, g.distinct[a])
	for i, name := range g.columns[a] {
		rows[name]++
		pair := int64(name)<<32 | int64(g.columns[b][i]) // both are numbered from 0
		counts[pair]++
		if counts[pair] > most[name] {
			most[name] = counts[pair]
		} else if others++; float64(others) > (1-groupAgree)*float64(len(g.events)) {
			return false
		}
	}
	// A name that comes once agrees with itself: it says nothing.
	repeated, agree := 0, 0
	for name, n := range rows {
		if n > 1 {
			repeated += n
			agree += most[name]
		}
	}
	return float64(repeated) >= groupRows*float64(len(g.events)) && float64(agree) >= groupAgree*float64(repeated)
}

// dropCross takes its dependents away, but for those that are said to be, from a field that is the cross of two of
// them.
func (g *grouping) dropCross(f int, parent, said []int) {
	var dependents []int
	for b, a := range parent[:g.numeric] {
		if a == f {
			dependents = append(dependents, b)
		}
	}
	for i, a := range dependents {
		for _, b := range dependents[:i] {
			pairs := make(map[int64]struct{})
			for row, v := range g.columns[a] {
				pairs[int64(v)<<32|int64(g.columns[b][row])] = struct{}{}
			}
			// As many pairs as names of f: f is "user×day", say, and its parts are no properties of it. Fields of two
			// values would pass by chance.
			if float64(len(pairs)) >= crossShare*float64(g.distinct[f]) && g.distinct[a] > 2 && g.distinct[b] > 2 {
				for _, d := range dependents {
					parent[d] = said[d]
				}
				return
			}
		}
	}
}
