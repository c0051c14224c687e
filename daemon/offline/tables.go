package offline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// TableFiles says which files have the rows of the tables of a model.
type TableFiles struct {
	Table map[string]string `placeholder:"NAME=FILE" help:"Rows of a table of the configuration, as CSV, JSON Lines or Parquet. Repeatable."`
}

// ReadTables reads the rows of tables, by the index of each. Of a name the last one counts; with as_of: event
// all do, by time. Tables without a file have none. Topics that the configuration leaves out are called as their
// table.
func (f TableFiles) ReadTables(m *config.Model) (map[int][]event.Event, error) {
	rows := make(map[int][]event.Event)
	for _, name := range slices.Sorted(maps.Keys(f.Table)) {
		at := slices.IndexFunc(m.Tables, func(t config.Table) bool { return t.Name == name })
		if at < 0 {
			return nil, Usage("--table", "--table %s: the model has no table of that name", name)
		}
		t, path := &m.Tables[at], f.Table[name]
		if len(t.Topics) == 0 {
			t.Topics = []string{t.Name}
		}
		fail := func(err error) error {
			return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--table", Path: path}
		}
		kind, err := dataset.Detect(path)
		if err != nil {
			return nil, fail(err)
		}
		columns, recordTime := dataset.Columns{Spare: true}, int64(0)
		if t.Time != "" {
			recordTime = -1 // no record says when it is
		}
		if kind != dataset.JSONL {
			columns.Of = map[string]string{t.Of: t.Key}
		}
		schema, decoder := formats.NewTableDecoder(t, m, kind == dataset.JSONL)
		set, err := dataset.Read(path, dataset.Options{Format: kind, Schema: schema, Columns: columns,
			Decode: func(ev *event.Event, value []byte, _ int64) *event.Rejection {
				return decoder.Decode(ev, value, recordTime)
			}})
		if err != nil {
			return nil, fail(err)
		}
		if set.Skipped.Lines > 0 {
			return nil, fail(fmt.Errorf("dataset: %d lines of %s are no rows of table %s: %s", set.Skipped.Lines, path, name,
				set.Skipped.Why()))
		}
		if t.HasHistory() {
			if !set.HasTime {
				return nil, fail(fmt.Errorf("table %s has as_of: event, and no times in %s: tables[].time names their column",
					name, path))
			}
			for i := range set.Examples {
				rows[at] = append(rows[at], set.Examples[i].Event)
			}
			slices.SortStableFunc(rows[at], func(a, b event.Event) int { return cmp.Compare(a.Time, b.Time) })
			continue
		}
		last := make(map[string]int, len(set.Examples))
		for i := range set.Examples {
			last[set.Examples[i].Event.Categorical[0]] = i
		}
		for i := range set.Examples {
			if ev := &set.Examples[i].Event; last[ev.Categorical[0]] == i {
				rows[at] = append(rows[at], *ev)
			}
		}
	}
	return rows, nil
}

// Join reads the rows of tables and gives events what they know of their entities. It returns the rows, nil for a model
// without tables.
func (f TableFiles) Join(m *config.Model, sets ...*dataset.Set) (*tables.Set, error) {
	rows, err := f.ReadTables(m)
	if err != nil {
		return nil, err
	}
	known := tables.New(m)
	for at, list := range rows {
		c := &m.Tables[at]
		last := make(map[string]*tables.Row)
		for i := range list {
			r := &tables.Row{Offset: int64(i), Event: list[i]}
			if c.HasHistory() {
				name := r.Name()
				r.Follow(last[name], list[i].Time, &list[i], c.History, min(int(c.MaxBytes), sketch.MaxPayloadBytes), nil)
				last[name] = r
				continue
			}
			r.TakeVectors(len(c.Numeric))
			known.Put(at, r)
		}
		for _, r := range last {
			known.Put(at, r)
		}
	}
	for _, set := range sets {
		for i := range set.Examples {
			known.Join(&set.Examples[i].Event)
		}
	}
	return known, nil
}
