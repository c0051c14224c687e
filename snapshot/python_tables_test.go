package snapshot

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/where"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/scorer"
)

// askedWhere adds lists with conditions, and what the version knows of items, for a filter of the whole list.
func (e *expectedModel) askedWhere(t *testing.T, m *scorer.Model) {
	t.Helper()
	e.Known = make(map[string]map[string]any)
	for _, table := range m.Contents().Tables {
		for _, name := range table.Names {
			if said := m.Known("item", name); table.Of == "item" && len(said) > 0 {
				e.Known[name] = said
			}
		}
	}
	s := m.Schema()
	var class string
	if len(s.Classes) > 0 {
		class = s.Classes[1]
	}
	for _, where := range conditions(m.Contents().Tables) {
		for _, exclude := range [][]string{nil, {"i1", "i7", "nobody"}} {
			top := expectedTop{Event: map[string]any{"user": "u1", "tags": []string{"b"}}, K: 3, Exclude: exclude, Class: class,
				Where: where}
			e.Tops = append(e.Tops, top.of(t, s, m.TopK))
			top.K = 100
			e.Tops = append(e.Tops, top.of(t, s, m.TopK))
		}
	}
}

// tabled adds what a version with tables says.
func (e expectedModel) tabled(t *testing.T, m *scorer.Model) expectedModel {
	t.Helper()
	e = e.of(t, m, 50)
	e.rankedAndExplained(t, m)
	e.askedWhere(t, m)
	return e
}

// conditions are some on each column of tables, some on two, and some that are refused.
func conditions(tables []*format.Table) []map[string]any {
	list := []map[string]any{nil, {}, {"nothing": "a"}, {"user": "u1"}}
	both := map[string]any{}
	for _, t := range tables {
		for i := range t.Categorical {
			field := t.Categorical[i].Field
			for _, want := range []any{"a", "true", true, false, "", "nobody", []any{"a", "b", true}, []any{},
				[]any{7, "a", "a"}, nil, 1.5, []any{1.5}, []any{nil}, []any{[]any{"a"}}, map[string]any{}, map[string]any{"min": 1},
				slices.Repeat([]any{"a"}, 1000), slices.Repeat([]any{"a"}, 1001)} {
				list = append(list, map[string]any{field: want})
			}
			both[field] = []any{"a", "b", "c", "true"}
			list = append(list, map[string]any{field: both[field], "stock": false})
		}
		for i := range t.Multi {
			field := t.Multi[i].Field
			for _, want := range []any{"a", []any{"a", "zzz"}, []any{"nobody"}, map[string]any{"max": 2}} {
				list = append(list, map[string]any{field: want})
			}
			both[field] = []any{"a", "b"}
		}
		for i := range t.Numeric {
			field := t.Numeric[i].Field
			for _, want := range []any{"a", 3, []any{"a"}, map[string]any{"min": 30}, map[string]any{"max": 30.5},
				map[string]any{"min": 20, "max": 50}, map[string]any{"min": 50, "max": 20}, map[string]any{"min": nil},
				map[string]any{"least": 1}, map[string]any{"min": "1"}, map[string]any{"max": true}, map[string]any{}} {
				list = append(list, map[string]any{field: want})
			}
			both[field] = map[string]any{"min": 10}
		}
		list = append(list, both, map[string]any{t.Of: "i1"})
		both = map[string]any{}
	}
	return list
}

// changedRows are changes of tables, by table and name, of which some take rows away.
func changedRows(rng *rand.Rand, tables []*format.Table) (rows []*format.TableRow) {
	for at, t := range tables {
		for _, r := range tableRows(rng, t, at, 10) { // i0 to i9 ascend
			switch rng.IntN(4) {
			case 0:
				rows = append(rows, r)
			case 1:
				rows = append(rows, &format.TableRow{Table: at, Name: r.Name, Removed: true})
			}
		}
	}
	return rows
}

// resealedTables are changes of the file of tables that no digest shows.
func resealedTables(file []byte) map[string]func(f *forged) {
	replace := func(old, by string) func(*forged) {
		return func(f *forged) {
			f.files[format.TablesFile] = bytes.Replace(f.files[format.TablesFile], []byte(old), []byte(by), 1)
		}
	}
	cases := map[string]func(f *forged){
		"tables as they are":       replace("", ""),
		"tables of a newer form":   replace(`"version":1`, `"version":2`),
		"tables of a newer format": func(f *forged) { f.manifest.Format = format.FormatVersion + 1 },
		"tables in format 7":       func(f *forged) { f.manifest.Format = 7 },
		"tables in another file":   func(f *forged) { f.manifest.Tables.Name = "../tables" },
		"a table of no field":      replace(`"of":"item"`, `"of":"shop"`),
		"a table without a name":   replace(`"name":"items"`, `"name":""`),
		"two tables of a name":     replace(`"name":"items"`, `"name":"brands"`),
		"a column of no field":     replace(`"field":"genre"`, `"field":"music"`),
		"a column twice":           replace(`"field":"genre"`, `"field":"stock"`),
		"a column of another kind": replace(`"field":"genre"`, `"field":"tags"`),
		"a column of the entity":   replace(`"field":"genre"`, `"field":"item"`),
		"a column not optional":    func(f *forged) { f.manifest.Schema.Optional = []string{"stock"} },
		"a row more":               replace(`"rows":`, `"rows":1`),
		"rows below none":          replace(`"rows":`, `"rows":-`),
		"a value more":             replace(`"values":`, `"values":1`),
		"entries of lists more":    replace(`"entries":`, `"entries":1`),
		"tables without a line":    replace("\n", " "),
		"a byte more":              func(f *forged) { f.files[format.TablesFile] = append(f.files[format.TablesFile], 0) },
		"names out of order":       replace("i0i1", "i1i0"),
		"names twice":              replace("i0i1", "i1i1"),
		"tables of JSON":           replace("{", "["),
	}
	head, n := bytes.IndexByte(file, '\n'), tier.Size(12, 100)
	for i := 1; i < n; i++ {
		at := head + i*(len(file)-head)/n
		cases[fmt.Sprintf("tables with another byte %d", at)] = func(f *forged) {
			f.files[format.TablesFile][at] ^= byte(1 << (i % 8))
		}
		cases[fmt.Sprintf("tables cut off at %d", at)] = func(f *forged) {
			f.files[format.TablesFile] = f.files[format.TablesFile][:at]
		}
	}
	return cases
}

// newer is what an error of a version says that a newer build has written.
func newer(name string) string {
	if strings.Contains(name, "newer") {
		return "newer"
	}
	return ""
}

// TestTopKOverAColumn: the best name of a field that tables say is the first of the whole list.
func TestTopKOverAColumn(t *testing.T) {
	t.Parallel()
	m, err := scorer.NewModel(catalogue())
	snapshottest.Must(t, err)
	for _, field := range []string{"genre", "stock", "brand", "origin", "brand of b"} {
		field, conditions, _ := strings.Cut(field, " of ")
		for i := range 40 {
			q := &format.Query{Input: format.Input{Categorical: []string{fmt.Sprint("u", i/10), fmt.Sprint("i", i%10), "", "",
				"", ""}}, Over: field, K: 10}
			if conditions != "" {
				q.Where, err = where.FromMap(map[string]any{"origin": conditions})
				snapshottest.Must(t, err)
			}
			all, err := m.TopK(nil, q, new(scorer.Scratch))
			snapshottest.Must(t, err)
			q.K = 1
			best, err := m.TopK(nil, q, new(scorer.Scratch))
			if snapshottest.Must(t, err); len(all) == 0 || best[0] != all[0] {
				t.Errorf("%s, %q: %v, want the first of %v", field, q.Input.Categorical, best, all)
			}
		}
	}
}
