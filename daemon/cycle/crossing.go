package cycle

import (
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/snapshot"
)

// crossing returns a schema with further crosses, each of two fields, as the last of its categorical ones. An update has them where it is made of pairs of
// names: its consumers compute them as they do those of the schema, events of the daemon do not have them.
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

// crosses returns the crosses of the vocabulary by the names of their fields.
func (v *Vocabulary) crosses() (all [][]string) {
	for _, c := range v.schema.Cross {
		all = append(all, partsOf(v.schema, c))
	}
	return all
}

// ownCrosses returns the crosses of two fields that the vocabulary has beside those of the model's schema.
func (v *Vocabulary) ownCrosses() []event.Cross { return v.schema.Cross[len(v.schema.Cross)-v.own:] }

// firstOwn returns the field of the first of ownCrosses.
func (v *Vocabulary) firstOwn() int { return len(v.schema.Categorical) - v.own }

// encodeOwn appends the columns of the vocabulary's own crosses, which events do not have.
func (v *Vocabulary) encodeOwn(index []int32, value []float64, ev *event.Event) ([]int32, []float64) {
	var room [64]byte
	for i, c := range v.ownCrosses() {
		a, b := ev.Categorical[c[0]], ev.Categorical[c[1]]
		if a == "" || b == "" { // absent
			continue
		}
		joined := append(append(append(room[:0], a...), event.CrossSign...), b...)
		if j, ok := v.index[v.firstOwn()+i][string(joined)]; ok {
			index, value = append(index, j), append(value, 1)
		}
	}
	return index, value
}

// vocabularyOf returns the vocabulary of a version, whose crosses may be more than those of the model's schema, and whether it has the fields of that.
func vocabularyOf(schema *event.Schema, c *snapshot.Contents) (v *Vocabulary, ok bool) {
	v = &Vocabulary{Names: c.Vocabulary, Numeric: c.Schema.Numeric, Augment: c.Schema.Augment, Map: c.Schema.FeatureMap, schema: schema}
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
	if v.own = len(own); v.own > 0 {
		v.schema = crossing(schema, own)
	}
	if len(v.Names) != len(v.schema.Categorical)+len(schema.Multi) || len(v.Numeric) != len(schema.Numeric) {
		return nil, false
	}
	v.number()
	return v, true
}

// withCrosses returns the vocabulary with crosses of its own, whose names, sorted, are given for each.
func (v *Vocabulary) withCrosses(own []event.Cross, names [][]string) *Vocabulary {
	out := &Vocabulary{Numeric: v.Numeric, Augment: v.Augment, Map: v.Map, schema: crossing(v.schema, own), own: len(own)}
	first := len(v.schema.Categorical)
	out.Names = slices.Concat(v.Names[:first], names, v.Names[first:])
	out.number()
	return out
}

// plain returns a champion whose vocabulary has no crosses of its own, so that fold-in and refits can go on from it: itself, or a copy without the
// columns of these.
func (ch *Champion) plain(schema *event.Schema) *Champion {
	v := ch.Vocabulary
	if v.own == 0 {
		return ch
	}
	first := v.firstOwn()
	out, names := *ch, &Vocabulary{Numeric: v.Numeric, Augment: v.Augment, Map: v.Map, schema: schema}
	names.Names = slices.Concat(v.Names[:first], v.Names[first+v.own:])
	names.number()
	model, m, k := *ch.Model, ch.Model.NumOutputs, ch.Model.NumBasis
	model.NumFeatures, model.Basis, model.Linear = names.NumColumns(), nil, nil
	for j, f := range v.field {
		if int(f) >= first && int(f) < first+v.own {
			continue
		}
		model.Basis = append(model.Basis, ch.Model.Basis[j*k:(j+1)*k]...)
		if ch.Model.Linear != nil {
			model.Linear = append(model.Linear, ch.Model.Linear[j*m:(j+1)*m]...)
		}
	}
	out.Model, out.Vocabulary = &model, names
	out.Version.K, out.Version.Features = model.NumBasis, model.NumFeatures
	return &out
}
