package encode

import (
	"slices"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/snapshot/format"
)

// What is nearly always the same is no property of a name: it has to leave at most this share of the rows unexplained
// that the most frequent value of all rows leaves. Chosen by hand.
const propertyShare = 0.25

// observedPrefix begins the names of tables that events are the source of. No table of a configuration has such a name.
const observedPrefix = "events:"

// IsObserved reports whether a table of a version says what events said, rather than a table of the configuration.
func IsObserved(t *format.Table) bool { return strings.HasPrefix(t.Name, observedPrefix) }

// Observed returns a table for each categorical field that others are functions of, as FindGroups finds them or the
// schema says it: what the newest event of a name said, such as category and price of an item. Fields that events may
// lack are left out, as are crosses. ages are of the events; nil takes them in their order, the last one the newest.
func Observed(schema *event.Schema, events []event.Event, ages []float64) (tables []*format.Table) {
	if len(schema.Categorical) == 0 || len(schema.Categorical)+len(schema.Multi)+len(schema.Numeric) < 2 {
		return nil
	}
	g := newGrouping(schema, events)
	parent := g.parents(schema)
	for f := g.numeric; f < len(parent); f++ {
		if parent[f] < 0 {
			parent[f] = g.determinant(f, schema)
		}
	}
	said := saidParents(schema)
	fields := slices.Concat(schema.Categorical, schema.Multi, schema.Numeric)
	columns := make([][]int, len(schema.Categorical))
	for f := range parent {
		if parent[f] < 0 || slices.Contains(schema.Optional, fields[f]) {
			continue
		}
		root := rootOf(parent, f)
		if !slices.Contains(schema.Optional, fields[root]) && (said[f] >= 0 || g.explains(root, f)) {
			columns[root] = append(columns[root], f)
		}
	}
	for of, list := range columns {
		if len(list) > 0 {
			tables = append(tables, observed(schema, events, ages, of, list))
		}
	}
	return tables
}

// explains reports whether the names of field a say what field b is, rather than b being nearly always the same.
func (g *grouping) explains(a, b int) bool {
	counts, all := make(map[int64]int), make([]int, g.distinct[b])
	most, usual := make([]int, g.distinct[a]), 0
	for i, v := range g.columns[b] {
		name := g.columns[a][i]
		pair := int64(name)<<32 | int64(v) // both are numbered from 0
		counts[pair]++
		all[v]++
		most[name], usual = max(most[name], counts[pair]), max(usual, all[v])
	}
	left := len(g.events)
	for _, n := range most {
		left -= n
	}
	return float64(left) <= propertyShare*float64(len(g.events)-usual)
}

// observed returns the table of a field with the given columns, numbered as grouping has them.
func observed(schema *event.Schema, events []event.Event, ages []float64, of int, columns []int) *format.Table {
	newest := make(map[string]int)
	for i := range events {
		name := events[i].Categorical[of]
		if at, ok := newest[name]; name != "" && (!ok || ages == nil || ages[i] <= ages[at]) {
			newest[name] = i
		}
	}
	order := make([]string, 0, len(newest))
	for name := range newest {
		order = append(order, name)
	}
	slices.Sort(order)
	rows := make([]*format.TableRow, len(order))
	var categorical, multi, numeric []string
	for i, name := range order {
		ev, r := &events[newest[name]], &format.TableRow{Name: name}
		for _, f := range columns {
			switch lists := f - len(schema.Categorical); {
			case lists < 0:
				r.Categorical = append(r.Categorical, ev.Categorical[f])
			case lists < len(schema.Multi):
				r.Multi = append(r.Multi, ev.Multi[lists])
			default:
				r.Numeric = append(r.Numeric, ev.Numeric[lists-len(schema.Multi)])
			}
		}
		rows[i] = r
	}
	for _, f := range columns {
		switch lists := f - len(schema.Categorical); {
		case lists < 0:
			categorical = append(categorical, schema.Categorical[f])
		case lists < len(schema.Multi):
			multi = append(multi, schema.Multi[lists])
		default:
			numeric = append(numeric, schema.Numeric[lists-len(schema.Multi)])
		}
	}
	field := schema.Categorical[of]
	return format.NewTable(observedPrefix+field, field, categorical, multi, numeric, rows)
}
