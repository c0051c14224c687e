package binding

import (
	"fmt"

	"github.com/refitd/refitd/daemon/config"
)

// Agreement returns, by key, what all processes have to have the same that read a model's topics for one sample, in
// addition to the settings that a state is bound to: rows are stored without the names of their fields, and which
// events are valid decides what is in the accounts.
func Agreement(m *config.Model) map[string]string {
	s, in := &m.Schema, &m.Input
	said := map[string]string{"sample.max_bytes": fmt.Sprint(int64(m.Sample.MaxBytes))}
	for key, value := range map[string]any{
		"schema.task": s.Task, "schema.label": s.Label, "schema.time": s.Time, "schema.time_unit": s.TimeUnit,
		"schema.categorical": s.Categorical,
		"schema.cross":       s.Cross, "schema.numeric": s.Numeric, "schema.multi": s.Multi, "schema.optional": s.Optional,
		"schema.positive": s.Positive,
		"schema.negative": s.Negative, "schema.levels": s.Levels, "schema.classes": s.Classes, "schema.label_min": s.LabelMin,
		"schema.label_max":     s.LabelMax,
		"schema.event_weights": s.EventWeights, "input.max_event_bytes": int64(in.MaxEventBytes), "input.max_id_bytes": int64(
			in.MaxIDBytes),
		"input.max_list_names": in.MaxListNames, "input.max_future_skew": in.MaxFutureSkew, "input.mapping": in.Mapping,
	} {
		said[key] = fmt.Sprint(value)
	}
	if o := in.Outcomes; o.IsSet() { // the window, the default and the way to make a label count where rows are read
		said["input.outcomes"] = fmt.Sprint(o.Topics, o.Values, o.Key, o.Label, o.Time)
	}
	return said
}
