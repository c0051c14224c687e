package encode

import (
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/snapshot/format"
)

// crossing returns a schema with further crosses, each of two fields, as the last of its categorical ones. An update
// has them where it is made of pairs of names: its consumers compute them as they do those of the schema, events of the
// daemon do not have them.
func crossing(s *event.Schema, pairs []event.Cross) *event.Schema {
	out := *s
	out.Categorical, out.Cross = slices.Clone(s.Categorical), slices.Concat(s.Cross, pairs)
	for _, p := range pairs {
		out.Categorical = append(out.Categorical, crossName(s, p))
	}
	return &out
}

// crossName returns the name of a cross.
func crossName(s *event.Schema, c event.Cross) string { return event.CrossName(partsOf(s, c)...) }

// partsOf returns the names of the fields of a cross.
func partsOf(s *event.Schema, c event.Cross) (names []string) {
	for _, f := range c {
		names = append(names, s.Categorical[f])
	}
	return names
}

// Crosses returns the crosses of the vocabulary by the names of their fields.
func (v *Vocabulary) Crosses() (all [][]string) {
	for _, c := range v.Schema.Cross {
		all = append(all, partsOf(v.Schema, c))
	}
	return all
}

// ownCrosses returns the crosses of two fields that the vocabulary has in addition to those of the model's schema.
func (v *Vocabulary) ownCrosses() []event.Cross { return v.Schema.Cross[len(v.Schema.Cross)-v.Own:] }

// FirstOwn returns the field of the first of ownCrosses.
func (v *Vocabulary) FirstOwn() int { return len(v.Schema.Categorical) - v.Own }

// encodeOwn appends the columns of the vocabulary's own crosses, which events do not have.
func (v *Vocabulary) encodeOwn(index []int32, value []float64, ev *event.Event) ([]int32, []float64) {
	var room [64]byte
	for i, c := range v.ownCrosses() {
		a, b := ev.Categorical[c[0]], ev.Categorical[c[1]]
		if a == "" || b == "" { // absent
			continue
		}
		joined := append(append(append(room[:0], a...), event.CrossSign...), b...)
		if j, ok := v.Index[v.FirstOwn()+i][string(joined)]; ok {
			index, value = append(index, j), append(value, 1)
		}
	}
	return index, value
}

// VocabularyOf returns the vocabulary of a version, whose crosses may be more than those of the model's schema, and
// whether it has the fields of that.
func VocabularyOf(schema *event.Schema, c *format.Contents) (v *Vocabulary, ok bool) {
	v = &Vocabulary{
		Names:   c.Vocabulary,
		Numeric: c.Schema.Numeric,
		Augment: c.Schema.Augment,
		Map:     c.Schema.FeatureMap,
		Trees:   c.Trees,
		Schema:  schema,
	}
	var own []event.Cross
	for i, parts := range c.Schema.Cross {
		if i < len(schema.Cross) {
			if !slices.Equal(parts, partsOf(schema, schema.Cross[i])) {
				return nil, false
			}
			continue
		}
		cross := event.Cross{slices.Index(schema.Categorical, parts[0]), slices.Index(schema.Categorical, parts[1])}
		if len(parts) > 2 || cross[0] < 0 || cross[1] < 0 {
			return nil, false
		}
		own = append(own, cross)
	}
	if v.Own = len(own); v.Own > 0 {
		v.Schema = crossing(schema, own)
	}
	if len(v.Names) != len(v.Schema.Categorical)+len(schema.Multi) || len(v.Numeric) != len(schema.Numeric) {
		return nil, false
	}
	v.Number()
	return v, true
}

// WithCrosses returns the vocabulary with the crosses own. names holds the names of each, sorted.
func (v *Vocabulary) WithCrosses(own []event.Cross, names [][]string) *Vocabulary {
	out := &Vocabulary{
		Numeric: v.Numeric,
		Augment: v.Augment,
		Map:     v.Map,
		Schema:  crossing(v.Schema, own),
		Own:     len(own),
	}
	first := len(v.Schema.Categorical)
	out.Names = slices.Concat(v.Names[:first], names, v.Names[first:])
	out.Number()
	return out
}
