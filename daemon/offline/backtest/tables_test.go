package backtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// TestTablesOfFiles: a backtest with the rows of items in a file has the losses of one in whose events they are
// written; and its version scores an event of user and item alone as the other one scores it with everything in it.
func TestTablesOfFiles(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 1))
	var plain, written, items strings.Builder
	items.WriteString("id,genre,price\n")
	genre := make([]string, 60)
	for i := range genre {
		genre[i] = fmt.Sprint("g", r.IntN(4))
		fmt.Fprintf(&items, "i%d,%s,%d\n", i, genre[i], i%9)
	}
	for range 3000 {
		u, i := r.IntN(40), r.IntN(60)
		level := float64((u+int(genre[i][1]))%5) + r.NormFloat64()/2
		fmt.Fprintf(&plain, `{"user":"u%d","item":"i%d","y":%.3f}`+"\n", u, i, level)
		fmt.Fprintf(&written, `{"user":"u%d","item":"i%d","y":%.3f,"genre":%q,"price":%d}`+"\n", u, i, level, genre[i], i%9)
	}
	for name, text := range map[string]string{"plain": plain.String(), "written": written.String(),
		"items.csv": items.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name, schema string, files map[string]string) (losses string, m *snapshot.Model) {
		c, err := config.Parse("a.yaml", []byte(`
kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: g}
models:
- name: m
  input: {topics: [t]}
  schema: {task: regression, label: y, `+schema+`
  sample: {seed: 1}
  train: {every: 0s, every_events: 1000, max_basis: 2, lambda: 3}
`), nil)
		if err != nil {
			t.Fatal(err)
		}
		store := filepath.Join(dir, "store-"+name)
		lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
			return Run(t.Context(), Options{Model: &c.Models[0], Data: filepath.Join(dir, name), Format: dataset.JSONL,
				Order: dataset.FileOrder, Files: offline.TableFiles{Table: files}, Store: store,
				Now: offlinetest.Clock}, out)
		})
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(offlinetest.Last(lines)["progressive"])
		if err != nil {
			t.Fatal(err)
		}
		if m, err = snapshot.Open(store, "m", snapshot.Selector{Alias: format.Champion}); err != nil {
			t.Fatal(err)
		}
		return string(b), m
	}
	joined, a := run("plain", "categorical: [user, item]}\n"+
		"  tables: [{name: items, of: item, topics: [x], key: id, categorical: [genre], numeric: [price]}]",
		map[string]string{"items": filepath.Join(dir, "items.csv")})
	given, b := run("written", "categorical: [user, item, {name: genre, of: item, optional: true}], "+
		"numeric: [{name: price, of: item, optional: true}]}", nil)
	if joined != given {
		t.Errorf("losses\n%s\nwith a file,\n%s\nwith the columns in events", joined, given)
	}
	for i := range genre {
		one, err := a.Predict(&format.Input{Categorical: []string{"u1", fmt.Sprint("i", i), ""}})
		if err != nil {
			t.Fatal(err)
		}
		other, err := b.Predict(&format.Input{Categorical: []string{"u1", fmt.Sprint("i", i), genre[i]},
			Numeric: []float64{float64(i % 9)}})
		if err != nil || one.Value != other.Value {
			t.Fatalf("i%d: %g with ids alone, %g with everything: %v", i, one.Value, other.Value, err)
		}
	}
}
