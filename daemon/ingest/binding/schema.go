package binding

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
)

// CheckSchema returns a *ConfigError if the rows in a state directory cannot be used under a model's schema: they are
// stored without the names of their fields, and have the labels that the old schema allowed. A directory without a
// model says nothing.
func CheckSchema(dir string, m *config.Model) error {
	was, err := config.ReadStored(dir)
	if errors.Is(err, config.ErrNoModelFile) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	old, now := &was.Schema, &m.Schema
	for _, k := range []struct {
		key             string
		stored, current any
		fits            bool
	}{
		{"schema.task", old.Task, now.Task, old.Task == now.Task},
		{"schema.label", old.Label, now.Label, old.Label == now.Label},
		{"schema.positive", old.Positive, now.Positive, old.Positive == now.Positive},
		{"schema.time", old.Time, now.Time, old.Time == now.Time},
		{"schema.time_unit", old.TimeUnit, now.TimeUnit, old.TimeUnit == now.TimeUnit},
		{"schema.derived", old.Derived, now.Derived, slices.Equal(old.Derived, now.Derived) && sameBins(old, now)},
		{"tables", tablesText(was), tablesText(m), tablesText(was) == tablesText(m)},
		{"schema.categorical", old.Categorical, now.Categorical, slices.Equal(old.Categorical, now.Categorical)},
		{"schema.cross", old.Cross, now.Cross, slices.EqualFunc(old.Cross, now.Cross, slices.Equal)},
		{"schema.numeric", old.Numeric, now.Numeric, slices.Equal(old.Numeric, now.Numeric)},
		{"schema.multi", old.Multi, now.Multi, slices.Equal(old.Multi, now.Multi)},
		{"schema.levels", old.Levels, now.Levels, old.Levels <= now.Levels},
		{"schema.classes", old.Classes, now.Classes, isWider(old.Classes, now.Classes)},
		{"schema.label_min", old.LabelMin, now.LabelMin, isOpen(now) || !isOpen(old) && now.LabelMin <= old.LabelMin},
		{"schema.label_max", old.LabelMax, now.LabelMax, isOpen(now) || !isOpen(old) && now.LabelMax >= old.LabelMax},
	} {
		if !k.fits {
			return &ConfigError{Key: k.key, Stored: fmt.Sprint(k.stored), Configured: fmt.Sprint(k.current)}
		}
	}
	for _, list := range []struct {
		key   string
		names []string
	}{{"schema.categorical", now.Categorical}, {"schema.numeric", now.Numeric}, {"schema.multi", now.Multi}} {
		for _, name := range list.names {
			if slices.Contains(old.Optional, name) && !slices.Contains(now.Optional, name) {
				return &ConfigError{
					Key:        list.key,
					Stored:     fmt.Sprintf("{name: %s, optional: true}", name),
					Configured: name,
				}
			}
		}
	}
	return nil
}

// tablesText says of which topics, by which key and with which columns the stored rows of tables are.
func tablesText(m *config.Model) string {
	var texts []string
	for i := range m.Tables {
		t := &m.Tables[i]
		texts = append(texts, fmt.Sprint(t.Name, t.Topics, t.Of, " ", t.Key, t.Categorical, t.Numeric, t.Multi))
	}
	return strings.Join(texts, "; ")
}

// isWider reports whether every class of old is allowed now; an empty list allows any.
func isWider(old, now []string) bool {
	return len(now) == 0 ||
		len(old) > 0 && !slices.ContainsFunc(old, func(c string) bool { return !slices.Contains(now, c) })
}

// sameBins reports whether the labels of a regression are put into the bins that they were put into.
func sameBins(old, now *config.Schema) bool {
	return !slices.ContainsFunc(now.Derived,
		func(d config.Derived) bool { return d.Kind == string(event.PreviousLabel) }) ||
		old.LabelMin == now.LabelMin && old.LabelMax == now.LabelMax
}

// isOpen reports whether labels have no bounds.
func isOpen(s *config.Schema) bool { return s.LabelMin == 0 && s.LabelMax == 0 }

// Rules digests what decides whether an event is valid, in addition to the schema's fields: with other rules the
// log gives another state.
func Rules(m *config.Model) string {
	s, in := &m.Schema, &m.Input
	rules := fmt.Sprint(s.Levels, s.Classes, s.LabelMin, s.LabelMax, int64(in.MaxEventBytes), int64(in.MaxIDBytes),
		in.MaxFutureSkew)
	if n := in.MaxListNames; n != event.DefaultLimits().MaxMulti { // as it was before there was a choice
		rules += fmt.Sprint(" list ", n)
	}
	if in.Mapping.IsSet() {
		rules += fmt.Sprintf(" mapping %q", fmt.Sprint(in.Mapping))
	}
	if in.IsFramed() {
		written, _ := json.Marshal(in.Written) // text
		rules += fmt.Sprintf(" format %q", []string{in.Format, in.KeyFormat, string(written)})
	}
	for i := range m.Tables {
		rules += fmt.Sprintf(" table %q", fmt.Sprint(tablesText(m), m.Tables[i].Mapping, m.Tables[i].Format,
			m.Tables[i].KeyFormat, m.Tables[i].MaxRows, int64(m.Tables[i].MaxBytes)))
		if t := &m.Tables[i]; t.HasHistory() {
			rules += fmt.Sprintf(" as_of %q", fmt.Sprint(t.History, t.Time, t.TimeUnit))
		}
	}
	if s.Positive != "" {
		rules += fmt.Sprintf(" labels %q", []string{s.Positive, s.Negative})
	}
	if len(s.EventWeights) > 0 {
		rules += fmt.Sprintf(" weights %q", fmt.Sprint(s.EventWeights))
	}
	if o := &in.Outcomes; o.IsSet() {
		rules += fmt.Sprintf(" outcomes %q", fmt.Sprint(o.Topics, o.Values, o.Key, o.Label, o.Time))
	}
	if limit := m.RowLimit(); limit > 0 {
		rules += fmt.Sprint(" row ", int64(limit))
	}
	if len(s.Optional) > 0 { // the rules of states from before there was such a thing stay what they are
		rules += fmt.Sprintf(" optional %q", s.Optional)
	}
	return rules
}
