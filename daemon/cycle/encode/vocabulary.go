package encode

import (
	"cmp"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/snapshot/format"
)

// Vocabulary maps the features of events to the columns 0..d-1 of a model: the names of every categorical field, then
// of every multi field, then one column per numeric field, then the constant if there is one. It is read-only once
// built.
type Vocabulary struct {
	Names   [][]string            // per categorical field, then per multi field, in column order
	Numeric []format.NumericField // by scaleOf, over the sample
	Augment bool
	Dropped int // names of the sample that there was no room for

	// Map makes further columns of the numbers, which have linear weights alone, of models that have some
	// (solver.Model.Map). Nil without.
	Map *format.FeatureMap

	// Trees are what a version adds to the outputs of its model. Nil without, and for learners.
	Trees *format.Trees

	// of the model's, or that with crosses of this version's own at the end of its categorical fields: see crossing
	Schema *event.Schema
	Own    int // how many these are
	Index  []map[string]int32
	Field  []int32 // of each column
}

// NameCount is a feature of the sample and how many rows have it.
type NameCount struct {
	Field int
	Name  string
	Rows  int
}

// BuildVocabulary collects the names of the events, at most limit of them, by number of rows and then by field and
// name. Numbers have the limits given, nil for NumericClip, and their last scales, nil for none, where these still fit.
func BuildVocabulary(schema *event.Schema, events []event.Event, augment bool, limit int, limits []float64,
	last []format.NumericField) *Vocabulary {
	fields := len(schema.Categorical) + len(schema.Multi)
	all := countNames(schema, events)
	slices.SortFunc(all, func(a, b NameCount) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Name, b.Name))
	})
	// Order and ties do not depend on the order of maps or rows: versions of the same sample are equal.
	dropped := max(0, len(all)-limit)
	all = all[:len(all)-dropped]
	names := make([][]string, fields)
	for _, n := range all {
		names[n.Field] = append(names[n.Field], n.Name)
	}
	for _, list := range names {
		slices.Sort(list)
	}
	v := &Vocabulary{Names: names, Augment: augment, Dropped: dropped, Schema: schema}
	values := make([]float64, 0, len(events))
	for f, name := range schema.Numeric {
		values = values[:0]
		for i := range events {
			if x := events[i].Numeric[f]; !math.IsNaN(x) { // absent
				values = append(values, x)
			}
		}
		scale := scaleOf(name, values, fields > 0)
		// The last center and scale stay where they fit, so that weights mean the same from refit to refit; the range
		// is always new.
		if f < len(last) && stillFits(&last[f], &scale) {
			scale.Center, scale.Scale = last[f].Center, last[f].Scale
		}
		if f < len(limits) {
			scale.Clip = limits[f]
		}
		v.Numeric = append(v.Numeric, scale)
	}
	v.Number()
	return v
}

// AddNames gives names of a field columns that they lack, in their order as long as there are fewer than limit columns
// of names.
func (v *Vocabulary) AddNames(field int, names []string, limit int) {
	total, before := int(v.NumNames()), len(v.Names[field])
	for _, name := range names {
		if total < limit && v.Column(field, name) < 0 {
			v.Names[field] = append(v.Names[field], name)
			total++
		}
	}
	if len(v.Names[field]) > before {
		slices.Sort(v.Names[field])
		v.Index, v.Field = nil, nil
		v.Number()
	}
}

// countNames returns the names of the events with how many rows have each, in no order.
func countNames(schema *event.Schema, events []event.Event) (all []NameCount) {
	counts := make([]map[string]int, len(schema.Categorical)+len(schema.Multi))
	for f := range counts {
		counts[f] = make(map[string]int)
	}
	for i := range events {
		ev := &events[i]
		for f, name := range ev.Categorical {
			if name != "" { // absent
				counts[f][name]++
			}
		}
		for f, names := range ev.Multi {
			for _, name := range names {
				counts[len(schema.Categorical)+f][name]++
			}
		}
	}
	for f, m := range counts {
		for name, rows := range m {
			all = append(all, NameCount{f, name, rows})
		}
	}
	return all
}

// Number fills the index and the fields of the columns.
func (v *Vocabulary) Number() {
	column := int32(0)
	for f, names := range v.Names {
		index := make(map[string]int32, len(names))
		for _, name := range names {
			index[name] = column
			v.Field = append(v.Field, int32(f))
			column++
		}
		v.Index = append(v.Index, index)
	}
	extra := len(v.Numeric)
	if v.Augment {
		extra++
	}
	for f := range extra {
		v.Field = append(v.Field, int32(len(v.Names)+f))
	}
}

// NumColumns returns d.
func (v *Vocabulary) NumColumns() int { return len(v.Field) }

// NumNames returns the number of columns of names: the first ones.
func (v *Vocabulary) NumNames() int32 {
	return int32(v.NumColumns() - (v.NumFields() - len(v.Names)))
}

// NumFields returns the number of fields, the constant included.
func (v *Vocabulary) NumFields() int {
	n := len(v.Names) + len(v.Numeric)
	if v.Augment {
		n++
	}
	return n
}

// FieldNames returns the names of the chosen fields, in their order.
func (v *Vocabulary) FieldNames(chosen []bool) []string {
	all := slices.Concat(v.Schema.Categorical, v.Schema.Multi, v.Schema.Numeric)
	var out []string
	for f, name := range all {
		if chosen != nil && chosen[f] {
			out = append(out, name)
		}
	}
	return out
}

// Column returns the column of a name in a categorical or multi field, or -1.
func (v *Vocabulary) Column(field int, name string) int32 {
	if j, ok := v.Index[field][name]; ok {
		return j
	}
	return -1
}

// Encode appends the columns and values of an event, columns increasing. Names outside the vocabulary, and what the
// event lacks, are left out.
func (v *Vocabulary) Encode(index []int32, value []float64, ev *event.Event) ([]int32, []float64) {
	for f, name := range ev.Categorical {
		if j := v.Column(f, name); j >= 0 {
			index, value = append(index, j), append(value, 1)
		}
	}
	fields := len(ev.Categorical)
	if v.Own > 0 {
		index, value = v.encodeOwn(index, value, ev)
		fields = len(v.Schema.Categorical)
	}
	for f, names := range ev.Multi {
		start := len(index)
		for _, name := range names {
			if j := v.Column(fields+f, name); j >= 0 {
				index = append(index, j)
			}
		}
		// Columns have to increase, and a list may have a name twice: it counts once.
		slices.Sort(index[start:])
		index = index[:start+len(slices.Compact(index[start:]))]
		for range index[start:] {
			value = append(value, format.MultiValue(v.Schema.MultiWeights, f, len(names)))
		}
	}
	numeric := int32(len(v.Field) - len(v.Numeric))
	if v.Augment {
		numeric--
	}
	for f, x := range ev.Numeric {
		if x = v.Numeric[f].Scaled(x); x != 0 && !math.IsNaN(x) {
			index, value = append(index, numeric+int32(f)), append(value, x)
		}
	}
	if v.Augment {
		index, value = append(index, int32(len(v.Field)-1)), append(value, 1)
	}
	return index, value
}

// With returns the vocabulary plus the names that hold a slot, at most limit names in all; the scaling stays.
func (v *Vocabulary) With(s *rows.Slots, limit int) *Vocabulary {
	out := &Vocabulary{
		Names:   make([][]string, len(v.Names)),
		Numeric: v.Numeric,
		Augment: v.Augment,
		Map:     v.Map,
		Schema:  v.Schema,
		Own:     v.Own,
	}
	total := 0
	for f, names := range v.Names {
		out.Names[f] = slices.Clone(names)
		total += len(names)
	}
	// From the newest on: where there is no room, names that came long ago are left out.
	for at := s.Newest; at >= 0 && total < limit; at = s.Items[at].Older {
		item := &s.Items[at]
		if int(item.Field) < len(v.Names) && v.Column(int(item.Field), item.Name) < 0 {
			out.Names[item.Field] = append(out.Names[item.Field], item.Name)
			total++
		}
	}
	for _, names := range out.Names {
		slices.Sort(names)
	}
	out.Number()
	return out
}
