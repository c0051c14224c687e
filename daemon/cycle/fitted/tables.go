package fitted

import (
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/snapshot/format"
)

// versionTables returns what a version says of the rows of a set, nil of a nil set. That of a set that has not changed
// is made once.
func versionTables(s *tables.Set) []*format.Table {
	if s == nil {
		return nil
	}
	return s.Memo(func() any {
		out := make([]*format.Table, s.NumTables())
		for i := range out {
			c, list := s.Config(i), s.Rows(i)
			rows := make([]*format.TableRow, len(list))
			for k, r := range list {
				rows[k] = rowOf(i, r)
			}
			out[i] = format.NewTable(c.Name, c.Of, c.Categorical, c.Multi, c.Numeric, rows)
		}
		return out
	}).([]*format.Table)
}

// rowOf returns a row as versions have it. It shares the memory of lists.
func rowOf(table int, r *tables.Row) *format.TableRow {
	return &format.TableRow{Table: table, Name: r.Name(), Categorical: r.Event.Categorical[1:], Multi: r.Event.Multi,
		Numeric: r.Event.Numeric}
}

// TableRows returns what deltas say of entities whose rows have changed.
func TableRows(s *tables.Set, changed []tables.Entity) (rows []*format.TableRow) {
	for _, e := range changed {
		if r := s.Find(e); r != nil {
			rows = append(rows, rowOf(e.Table, r))
		} else {
			rows = append(rows, &format.TableRow{Table: e.Table, Name: e.Name, Removed: true})
		}
	}
	return rows
}

// TablesOf returns the rows that a version has of the tables of a model, nil of a model without tables. Tables that the
// version lacks, or has with other columns, are empty.
func TablesOf(m *config.Model, c *format.Contents) *tables.Set {
	s := tables.New(m)
	for i := range s.NumTables() {
		at := slices.IndexFunc(c.Tables, func(t *format.Table) bool { return t.Name == s.Config(i).Name })
		if at < 0 {
			continue
		}
		for k := range c.Tables[at].Names {
			r := c.Tables[at].Row(i, k)
			row := &tables.Row{Event: event.Event{Categorical: append([]string{r.Name}, r.Categorical...), Multi: r.Multi,
				Numeric: r.Numeric, Weight: 1}}
			if s.Fits(i, row) {
				s.Put(i, row)
			}
		}
	}
	return s
}

// propertiesOf returns what a version says that events said of names.
func propertiesOf(c *format.Contents) (list []*format.Table) {
	for _, t := range c.Tables {
		if encode.IsObserved(t) {
			list = append(list, t)
		}
	}
	return list
}
