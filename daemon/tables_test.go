package daemon_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/twmb/franz-go/pkg/kgo"
)

// tables makes a model with a table of items of a configuration of package daemontest.
var tables = []string{
	"    sample: {size",
	`    tables: [{name: items, topics: [items], of: item, key: "record:key", categorical: [genre, in_stock],
      numeric: [price], filter: [in_stock]}]
    sample: {size`,
}

// putItem writes a record of the table, nil value to remove the row.
func putItem(b *daemontest.Bench, name string, value []byte) {
	b.T.Helper()
	if err := b.Kafka.ProduceSync(b.T.Context(), &kgo.Record{Topic: "items", Key: []byte(name), Value: value}).
		FirstErr(); err != nil {
		b.T.Fatal(err)
	}
}

// TestTables: what a topic says of items is in versions, which score an event of user and item as one with everything
// in it. While the daemon runs, an item without any event is in the lists of consumers soon after its record, by a
// delta, and over HTTP, where conditions hold; and it goes with its tombstone.
func TestTables(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	if err := b.Broker.CreateTopic(t.Context(), "items", 2, 0); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		putItem(b, fmt.Sprint("i", i), fmt.Appendf(nil, `{"genre":"g%d","in_stock":%t,"price":%d}`, i*3%7, i%2 == 0, i))
	}
	b.ProduceRatings(1, 4000)
	path := b.Configure("tables", append(slices.Clone(tables), "update_every: 0s",
		"update_every: 1s, deltas: {every: 20ms}", "every_events: 0", "every_events: 1500")...)
	if o := b.Run(path); o.Err != nil || daemontest.Balanced(t, o.State(t)) != 4040 {
		t.Fatalf("%+v, %v", o.Summary, o.Err)
	}
	dir := filepath.Join(b.Dir, "store-tables")
	m, err := snapshot.Open(dir, "ratings", snapshot.Selector{Alias: pointer.Champion})
	if err != nil {
		t.Fatal(err)
	}
	if c := m.Contents(); len(c.Tables) != 1 || len(c.Tables[0].Names) != 40 || m.Manifest().Tables == nil {
		t.Fatalf("the version has the tables %+v", c.Tables)
	}
	if v := m.Contents().Vocabulary; len(v[2]) == 0 || len(v[3]) > 0 {
		t.Errorf("the model has learned %d genres and %d names of a filter", len(v[2]), len(v[3]))
	}
	plain := format.Input{Categorical: []string{"u1", "i3", "", ""}}
	written := format.Input{Categorical: []string{"u1", "i3", "g2", "false"}, Numeric: []float64{3}}
	one, err := m.Predict(&plain)
	if err != nil {
		t.Fatal(err)
	}
	other, err := m.Predict(&written)
	if err != nil || one.Value != other.Value {
		t.Errorf("%v with ids alone, %v with the row written: %v", one, other, err)
	}
	d, stop := b.Start(path)
	defer stop()
	watcher, err := snapshot.Watch(snapshot.DirSource{Dir: dir}, snapshot.WatchOptions{Model: "ratings"})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	seed := uint64(100)
	daemontest.Within(t, daemontest.Patience, "deltas", func() bool {
		seed++
		b.ProduceRatings(seed, 30)
		return watcher.Status().DeltasApplied > 0
	})
	has := func(where map[string]any) bool {
		list, err := snapshot.WhereFromMap(where)
		if err != nil {
			t.Fatal(err)
		}
		items, err := watcher.Model().TopK(nil, &snapshot.Query{Input: format.Input{Categorical: []string{"u1", "", "", ""}},
			Over: "item", K: 100, Where: list}, new(snapshot.Scratch))
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(items, func(i snapshot.Item) bool { return i.Name == "novel" })
	}
	if has(nil) {
		t.Fatal("the item is there before its record")
	}
	began := time.Now()
	putItem(b, "novel", []byte(`{"genre":"g2","in_stock":true,"price":5}`))
	daemontest.Within(t, daemontest.Patience, "the item in a list", func() bool {
		seed++
		b.ProduceRatings(seed, 10) // after updates that were held back the next refit brings it
		return has(nil)
	})
	t.Logf("the item is in a list %v after its record", time.Since(began))
	if !has(map[string]any{"in_stock": true, "genre": []any{"g1", "g2"}}) || has(map[string]any{"in_stock": false}) ||
		has(map[string]any{"price": map[string]any{"min": 6.0}}) {
		t.Error("conditions do not hold for the row")
	}
	body, err := json.Marshal(map[string]any{"event": map[string]any{"user": "u1"}, "over": "item", "k": 100,
		"where": map[string]any{"genre": "g2", "price": map[string]any{"max": 5}}})
	if err != nil {
		t.Fatal(err)
	}
	daemontest.Within(t, daemontest.Patience, "the item over HTTP", func() bool {
		r, err := http.Post("http://"+d.Addr()+"/v1/models/ratings/topk", "application/json",
			bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		answer, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%d %s %v", r.StatusCode, answer, err)
		}
		return bytes.Contains(answer, []byte(`"novel"`))
	})
	if _, metrics := daemontest.Get(t, "http://"+d.Addr()+"/metrics"); daemontest.Sum(t, metrics, "refitd_table_rows") !=
		41 || daemontest.Sum(t, metrics, "refitd_table_bytes") < 41*20 ||
		daemontest.Sum(t, metrics, "refitd_table_newest_timestamp_seconds") < float64(began.Unix()) {
		t.Error("the metrics have other rows")
	}
	putItem(b, "novel", nil)
	daemontest.Within(t, daemontest.Patience, "the end of the item", func() bool { return !has(nil) })
	if s := watcher.Status(); s.DeltasRefused > 0 || s.Err != nil {
		t.Errorf("the watcher: %+v", s)
	}
}
