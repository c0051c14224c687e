package fitted

import (
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
)

// Plain returns a champion whose vocabulary has no crosses other than those of the schema: itself, or a copy without
// the columns of the others. Fold-in and refits start from it.
func (ch *Fitted) Plain(schema *event.Schema) *Fitted {
	v := ch.Vocabulary
	if v.Own == 0 {
		return ch
	}
	first := v.FirstOwn()
	out, names := *ch, &encode.Vocabulary{Numeric: v.Numeric, Augment: v.Augment, Map: v.Map, Schema: schema}
	names.Names = slices.Concat(v.Names[:first], v.Names[first+v.Own:])
	names.Number()
	model, m, k := *ch.Model, ch.Model.NumOutputs, ch.Model.NumBasis
	model.NumFeatures, model.Basis, model.Linear = names.NumColumns(), nil, nil
	for j, f := range v.Field {
		if int(f) >= first && int(f) < first+v.Own {
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
