package ingest

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/daemon/ingest/pasts"
	"github.com/refitd/refitd/sketch"
)

// groupOf returns what quotas or a cap divide a model's events by, nil if it has neither: the class of the label, as
// config.Quota names it, or the name in the cap's field.
func groupOf(m *config.Model) func(*event.Event) []byte {
	if field := slices.Index(m.Schema.Categorical, m.Sample.Cap.By); field >= 0 {
		return func(ev *event.Event) []byte { return []byte(ev.Categorical[field]) }
	}
	if len(m.Sample.Quotas) == 0 {
		return nil
	}
	if m.Schema.Learned() == event.Multiclass {
		return func(ev *event.Event) []byte { return []byte(ev.Classes[0]) }
	}
	return func(ev *event.Event) []byte { return strconv.AppendInt(nil, int64(ev.Label), 10) }
}

// SubjectFields returns the fields by whose values a model's events can be forgotten: those that the rows carry, and
// the identity.
func SubjectFields(m *config.Model) []string {
	fields := slices.Concat(m.Schema.GivenFields())
	if id := m.Schema.Identity; id != "" && !slices.Contains(fields, id) {
		fields = append(fields, id)
	}
	return fields
}

// valuesOf returns the values that an event has in a field of SubjectFields.
func valuesOf(m *config.Model, field string, ev *event.Event) []string {
	if i := slices.Index(m.Schema.Categorical, field); i >= 0 {
		values := ev.Categorical[i : i+1 : i+1]
		for _, d := range m.Schema.Derived { // an event of another entity may name the subject, too
			if d.Kind == string(event.Last) && d.Field == field {
				values = append(values, ev.Multi[slices.Index(m.Schema.Multi, d.Name)]...)
			}
		}
		return values
	}
	if i := slices.Index(m.Schema.Multi, field); i >= 0 {
		return ev.Multi[i]
	}
	if field == m.Schema.Identity {
		return []string{ev.Identity}
	}
	return nil
}

// Erase takes the rows of forgotten subjects out of a store that are still in it, and what derived fields know of them:
// after a process ended in the middle of it, or in a state from a backup. Nothing may be applied before.
func Erase(ctx context.Context, m *config.Model, store *sketch.Store) (rows int, err error) {
	if err := pasts.Erase(m, store); err != nil {
		return 0, err
	}
	var damage error
	values := Values(m)
	rows, err = store.Erase(ctx, func(field string, payload []byte) [][]byte {
		out, err := values(field, payload)
		if err != nil {
			damage = err
		}
		return out
	})
	if err == nil {
		err = damage
	}
	return rows, err
}

// Values returns a function that returns the values that the payload of a row has in a field.
func Values(m *config.Model) func(field string, payload []byte) ([][]byte, error) {
	var ev event.Event
	names := make(map[string]string)
	return func(field string, payload []byte) (out [][]byte, err error) {
		clear(names)
		if err := rows.DecodeEvent(&ev, payload, names); err != nil {
			return nil, fmt.Errorf("ingest: forget: %w", err)
		}
		for _, value := range valuesOf(m, field, &ev) {
			out = append(out, []byte(value))
		}
		return out, nil
	}
}

// Names returns a function that reports whether the payload of a row has a value in a field. Of the identity field rows
// say nothing: any may.
func Names(field, value string) func(m *config.Model, payload []byte) (bool, error) {
	names := make(map[string]string)
	var ev event.Event
	return func(m *config.Model, payload []byte) (bool, error) {
		if field == m.Schema.Identity {
			return true, nil
		}
		clear(names)
		if err := rows.DecodeEvent(&ev, payload, names); err != nil {
			return false, fmt.Errorf("ingest: forget: %w", err)
		}
		return slices.Contains(valuesOf(m, field, &ev), value), nil
	}
}

// CountRows returns how many rows of the samples have a value in a field, by reading them all. Of the identity field,
// which rows do not carry, it knows nothing.
func CountRows(m *config.Model, store *sketch.Store, field, value string) (n int, err error) {
	sample, err := store.Sample()
	if err != nil {
		return 0, err
	}
	if field == m.Schema.Identity {
		return 0, nil
	}
	names := Names(field, value)
	for _, rows := range [][]sketch.Row{sample.Train, sample.Select, sample.Gate} {
		for i := range rows {
			named, err := names(m, rows[i].Payload)
			if err != nil {
				return 0, err
			}
			if named {
				n++
			}
		}
	}
	known := tables.New(m)
	if err := LoadTables(m, store, known); err != nil {
		return 0, err
	}
	for i := range known.NumTables() {
		if known.Config(i).Of == field && known.Knew(tables.Entity{Table: i, Name: value}) {
			n++
		}
	}
	return n, nil
}
