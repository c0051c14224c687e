package backtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
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
	run := tableRuns(t, dir, map[string]string{"plain": plain.String(), "written": written.String(),
		"items.csv": items.String()})
	joined, a := run("plain", "categorical: [user, item]}\n"+
		"  tables: [{name: items, of: item, topics: [x], key: id, categorical: [genre], numeric: [price]}]",
		map[string]string{"items": filepath.Join(dir, "items.csv")})
	given, b := run("written", "categorical: [user, item, {name: genre, of: item, optional: true}], "+
		"numeric: [{name: price, of: item, optional: true}]}", nil)
	if string(joined) != string(given) {
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

// tableRuns writes files, and returns a function that makes a backtest of one of them with a schema, and the rows of
// tables in others: its progressive losses and its champion.
func tableRuns(t *testing.T, dir string, texts map[string]string) func(name, schema string,
	files map[string]string) ([]byte, *snapshot.Model) {
	t.Helper()
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(name, schema string, files map[string]string) (losses []byte, m *snapshot.Model) {
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
		store := filepath.Join(t.TempDir(), "store")
		lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
			return Run(t.Context(), Options{Model: &c.Models[0], Data: filepath.Join(dir, name), Format: dataset.JSONL,
				Order: dataset.FileOrder, Files: offline.TableFiles{Table: files}, Store: store,
				Now: offlinetest.Clock}, out)
		})
		if err != nil {
			t.Fatal(err)
		}
		if losses, err = json.Marshal(offlinetest.Last(lines)["progressive"]); err != nil {
			t.Fatal(err)
		}
		if m, err = snapshot.Open(store, "m", snapshot.Selector{Alias: pointer.Champion}); err != nil {
			t.Fatal(err)
		}
		return losses, m
	}
}

// TestTableAtTheEventsTime: where what a table says changes with time, a backtest with as_of: event has the losses of
// one in whose events the value of their time is written, live and of refits, bit by bit; one that is joined by the
// latest value has far higher ones. Consumers have the latest value.
func TestTableAtTheEventsTime(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(2, 1))
	var plain, written, prices strings.Builder
	prices.WriteString("id,from,price,tier\n")
	const begin = 1_700_000_000
	now := make([]int, 60)
	price := func(i, at int) {
		now[i] = r.IntN(9)
		fmt.Fprintf(&prices, "i%d,%d,%d,t%d\n", i, at, now[i], now[i]%3)
	}
	for i := range now {
		price(i, begin)
	}
	var atRefit []int // the last
	for n := range 2400 {
		if n == 2000 {
			atRefit = slices.Clone(now)
		}
		if n%5 == 1 {
			price(r.IntN(60), begin+n)
		}
		u, i := r.IntN(40), r.IntN(60)
		y := float64(u%3) + 2*float64(now[i]%3) - float64(now[i])/4 + r.NormFloat64()/4
		fmt.Fprintf(&plain, `{"user":"u%d","item":"i%d","y":%.3f,"ts":%d}`+"\n", u, i, y, begin+n)
		fmt.Fprintf(&written, `{"user":"u%d","item":"i%d","y":%.3f,"ts":%d,"tier":"t%d","price":%d}`+"\n", u, i, y,
			begin+n, now[i]%3, now[i])
	}
	run := tableRuns(t, dir, map[string]string{"plain": plain.String(), "written": written.String(),
		"prices.csv": prices.String()})
	const schema = "time: ts, time_unit: s, categorical: [user, item"
	table := func(as string) ([]byte, *snapshot.Model) {
		return run("plain", schema+"]}\n  tables: [{name: prices, of: item, topics: [x], key: id, categorical: [tier], "+
			"numeric: [price]"+as+"}]", map[string]string{"prices": filepath.Join(dir, "prices.csv")})
	}
	joined, m := table(", as_of: event, time: from, time_unit: s, history: 100")
	given, other := run("written", schema+", {name: tier, of: item, optional: true}], "+
		"numeric: [{name: price, of: item, optional: true}]}", nil)
	if string(joined) != string(given) {
		t.Errorf("losses\n%s\nwith a table,\n%s\nwith the values in events", joined, given)
	}
	latest, _ := table("")
	loss := func(b []byte) float64 {
		var of report.Progressive
		if err := json.Unmarshal(b, &of); err != nil {
			t.Fatal(err)
		}
		for _, p := range of.Parts {
			if p.Name == "refit" {
				return float64(*p.Loss)
			}
		}
		return 0
	}
	t.Logf("loss of refits: %g at the events' time, %g written, %g by the latest value", loss(joined), loss(given),
		loss(latest))
	if a, b := loss(joined), loss(latest); a == 0 || b < 3*a {
		t.Errorf("loss of refits %g at the events' time, %g by the latest value", a, b)
	}
	for i, p := range atRefit {
		one, err := m.Predict(&format.Input{Categorical: []string{"u1", fmt.Sprint("i", i), ""}})
		if err != nil {
			t.Fatal(err)
		}
		two, err := other.Predict(&format.Input{Categorical: []string{"u1", fmt.Sprint("i", i), fmt.Sprint("t", p%3)},
			Numeric: []float64{float64(p)}})
		if err != nil || one.Value != two.Value {
			t.Fatalf("i%d: %g with ids alone, %g with everything: %v", i, one.Value, two.Value, err)
		}
	}
}
