package ingest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/refit"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/format"
)

const tableConfig = `
kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: g}
models:
- name: ratings
  input: {topics: [t]}
  schema: {task: regression, label: rating, time: ts, categorical: [user, item], cross: [[user, genre]]}
  tables:
  - {name: items, topics: [items], of: item, key: "record:key", categorical: [genre], multi: [tags], numeric: [price],
     vector: [{name: text, dim: 3}], max_rows: 7}
  - {name: users, topics: [users], of: user, key: id, categorical: [age], mapping: {envelope: debezium}}
  sample: {size: 5000, seed: 1, holdout: {fraction: 0.2}}
  train: {max_basis: 3}
`

// pricesConfig is a third table of tableConfig, of what changes with time.
const pricesConfig = `
  - {name: prices, topics: [prices], of: item, key: "record:key", categorical: [tier], numeric: [cost], as_of: event,
     time: at, history: 4, max_rows: 9}`

// tableModel returns a model with a table of items and one of users, and one of prices if it is asked for.
func tableModel(t *testing.T, withPrices bool) *config.Model {
	t.Helper()
	text := tableConfig
	if withPrices {
		const end = "envelope: debezium}}"
		text = strings.Replace(text, end, end+pricesConfig, 1)
	}
	c, err := config.Parse("tables.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return &c.Models[0]
}

// tableLogs returns two logs of items, one of users and two of events. The last records of items take keys away, write
// them again, and are no rows.
func tableLogs(seed uint64) []*consumer.Batch {
	r := rand.New(rand.NewPCG(seed, 0))
	var logs []*consumer.Batch
	log := func(topic string, p int32, n int, record func(i int) (key, value string)) {
		b := &consumer.Batch{Topic: topic, Partition: p, Next: int64(n), HighWatermark: int64(n)}
		for i := range n {
			key, value := record(i)
			one := consumer.Record{Offset: int64(i), Timestamp: 1_700_000_000_000 + int64(r.IntN(1000)), CRC: r.Uint32()}
			if key != "" {
				one.Key = []byte(key)
			}
			if value != "" {
				one.Value = []byte(value)
			}
			b.Records = append(b.Records, one)
		}
		logs = append(logs, b)
	}
	for p := range int32(2) {
		log("items", p, 60, func(i int) (string, string) {
			key := fmt.Sprintf("i%d", 2*r.IntN(15)+int(p))
			switch r.IntN(6) {
			case 0:
				return key, ""
			case 1:
				return key, `{"genre":[]}`
			case 2:
				return key, `{"text":[1,2]}`
			case 3:
				return key, fmt.Sprintf(`{"text":"[%d,1,0.5]"}`, r.IntN(9))
			}
			return key, fmt.Sprintf(`{"genre":"g%d","tags":["a","b%d"],"price":%d,"text":[%g,%d,1e-3]}`, r.IntN(3), r.IntN(4),
				r.IntN(50), r.NormFloat64(), r.IntN(30))
		})
	}
	log("users", 0, 40, func(int) (string, string) {
		id := r.IntN(20)
		key := fmt.Sprintf(`{"id":%d}`, id)
		switch r.IntN(5) {
		case 0:
			return key, fmt.Sprintf(`{"op":"d","before":{"id":%d},"after":null}`, id)
		case 1:
			return key, ""
		}
		return key, fmt.Sprintf(`{"op":"u","after":{"id":%d,"age":"%d0"}}`, id, r.IntN(4))
	})
	for p := range int32(2) {
		log("t", p, 500, func(i int) (string, string) {
			u, item := r.IntN(20), r.IntN(30)
			return "", fmt.Sprintf(`{"user":"%d","item":"i%d","rating":%d,"ts":%d}`, u, item, 1+(u+item)%5,
				1_700_000_000_000+i)
		})
	}
	for p := range int32(2) { // of late records, too, and of names that both partitions have
		log("prices", p, 80, func(i int) (string, string) {
			key := fmt.Sprintf("i%d", r.IntN(14))
			switch r.IntN(8) {
			case 0:
				return key, ""
			case 1:
				return key, `{"tier":1,"cost":"x","at":1}`
			}
			return key, fmt.Sprintf(`{"tier":"t%d","cost":%d,"at":%d}`, r.IntN(3), r.IntN(9),
				1_700_000_000_000+5*i+r.IntN(100))
		})
	}
	return logs
}

// slowTable is what a log of a table leaves, by key: the last record of each, as long as there are at most limit.
func slowTable(log *consumer.Batch, limit int, rejected func(value string) bool) map[string]int64 {
	last := make(map[string]int64)
	for _, r := range log.Records {
		key := string(r.Key)
		switch {
		case r.Value == nil || bytes.Contains(r.Value, []byte(`"op":"d"`)):
			delete(last, key)
			continue
		case rejected(string(r.Value)):
			continue
		}
		last[key] = r.Offset
		for len(last) > limit {
			oldest := ""
			for k, at := range last {
				if oldest == "" || at < last[oldest] {
					oldest = k
				}
			}
			delete(last, oldest)
		}
	}
	return last
}

// feedLogs gives an ingest the rest of some logs, in parts of random size and in random order.
func feedLogs(t *testing.T, g *Ingest, store *sketch.Store, r *rand.Rand, until int, logs []*consumer.Batch) {
	t.Helper()
	for steps := 0; steps < until; steps++ {
		var open []*consumer.Batch
		for _, log := range logs {
			if next, _ := store.Position(log.Topic, log.Partition); next < log.Next {
				open = append(open, log)
			}
		}
		if len(open) == 0 {
			return
		}
		part := *open[r.IntN(len(open))]
		next, _ := store.Position(part.Topic, part.Partition)
		part.Base, part.Next = next, min(next+1+r.Int64N(90), part.Next)
		part.Records = part.Records[part.Base:part.Next]
		if err := g.Apply(context.Background(), &part); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTablesAreOfTheLog: whatever the order of the records of tables and events, with restarts in between, the state,
// the rows of the tables, and the version made of both are the same; and rows are those of a slow twin.
func TestTablesAreOfTheLog(t *testing.T) {
	for _, withPrices := range []bool{false, true} {
		checkTables(t, withPrices)
	}
}

func checkTables(t *testing.T, withPrices bool) {
	t.Helper()
	m := tableModel(t, withPrices)
	logs := tableLogs(1)
	if !withPrices {
		logs = logs[:5]
	}
	var want map[string]string
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 7))
		o := StoreOptions(m)
		store, err := sketch.NewMemory(o)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		for _, log := range logs {
			if err := store.Begin(log.Topic, log.Partition, 0); err != nil {
				t.Fatal(err)
			}
		}
		ordered := slices.Clone(logs)
		var g *Ingest
		var c *cycle.Cycle
		for _, steps := range []int{5, 9, 1 << 30} { // with another process each
			if c, err = cycle.New(m, time.Now); err != nil {
				t.Fatal(err)
			}
			if err := LoadTables(m, store, c.Tables()); err != nil {
				t.Fatal(err)
			}
			g = New(m, store, c)
			if seed == 0 { // the tables come last
				feedLogs(t, g, store, r, steps, ordered[3:5])
			}
			feedLogs(t, g, store, r, steps, ordered)
		}
		if err := store.Check(); err != nil {
			t.Fatal(err)
		}
		state, err := store.State()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{"sample": state.SampleDigest.String()}
		for _, l := range state.Partitions {
			got[fmt.Sprintf("ledger %s/%d", l.Topic, l.Partition)] = fmt.Sprint(l.Applied, l.Rejected, l.Digest)
			if l.Topic == "t" && l.Applied != 500 || l.Topic != "t" && l.Watermark != sketch.NoTime {
				t.Fatalf("ledger of %s/%d: %+v", l.Topic, l.Partition, l)
			}
		}
		sample, err := TakeSample(m, store, nil)
		if err != nil {
			t.Fatal(err)
		}
		if sample.Events.Applied != 1000 {
			t.Errorf("the sample is of %d events, want 1000", sample.Events.Applied)
		}
		got["tables"] = string(sample.Tables().AppendRecord(nil))
		if live := string(c.Tables().AppendRecord(nil)); live != got["tables"] {
			t.Error("what is live differs from the state")
		}
		ch, err := c.Refit(context.Background(), sample)
		if err != nil {
			t.Fatal(err)
		}
		contents := ch.Contents(m)
		file, err := format.EncodeTables(contents.Tables)
		if err != nil {
			t.Fatal(err)
		}
		got["file"] = string(file)
		if got["version"], err = format.PayloadDigest(contents); err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
			checkRows(t, g, logs)
		}
		if !maps.Equal(got, want) {
			for key := range want {
				if got[key] != want[key] {
					t.Errorf("order %d: another %s", seed, key)
				}
			}
		}
	}
}

// checkRows compares the rows with a slow twin.
func checkRows(t *testing.T, g *Ingest, logs []*consumer.Batch) {
	t.Helper()
	for p := range 2 {
		last := slowTable(logs[p], 7, func(value string) bool { return value == `{"genre":[]}` || value == `{"text":[1,2]}` })
		in := g.tables.at("items", int32(p))
		if len(in.byKey) != len(last) || len(last) < 5 {
			t.Fatalf("items/%d has %d rows, the twin %d", p, len(in.byKey), len(last))
		}
		for _, r := range in.byKey {
			if at, ok := last[r.row.Name()]; !ok || at != r.row.Offset {
				t.Errorf("items/%d: %s is of offset %d, the twin says %d", p, r.row.Name(), r.row.Offset, at)
			}
		}
	}
	last := slowTable(logs[2], 1<<30, func(string) bool { return false })
	if rows, _ := g.Tables().Count(1); rows != len(last) || rows < 5 {
		t.Errorf("%d users, the twin has %d", rows, len(last))
	}
	for _, r := range g.Tables().Rows(1) {
		if at, ok := last[fmt.Sprintf(`{"id":%s}`, r.Name())]; !ok || at != r.Offset || r.Event.Categorical[1] == "" {
			t.Errorf("user %s is of offset %d, the twin says %d", r.Name(), r.Offset, at)
		}
	}
}

// tableState returns a store and a cycle that have read the logs.
func tableState(t *testing.T, m *config.Model) (*sketch.Store, *cycle.Cycle) {
	t.Helper()
	store, err := sketch.NewMemory(StoreOptions(m))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	logs := tableLogs(1)
	for _, log := range logs {
		if err := store.Begin(log.Topic, log.Partition, 0); err != nil {
			t.Fatal(err)
		}
	}
	c, err := cycle.New(m, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	feedLogs(t, New(m, store, c), store, rand.New(rand.NewPCG(1, 1)), 1<<30, logs)
	return store, c
}

// TestRefitWithTablesIsRepeated: the record of a refit has the rows of the tables, and gives the same version again.
func TestRefitWithTablesIsRepeated(t *testing.T) {
	m := tableModel(t, true)
	m.Publish.KeepSample = true
	store, c := tableState(t, m)
	sample, err := TakeSample(m, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	ch, err := c.Refit(context.Background(), sample)
	if err != nil {
		t.Fatal(err)
	}
	rows := sample.Tables().AppendRecord(nil)
	want, err := format.PayloadDigest(ch.Contents(m))
	if err != nil {
		t.Fatal(err)
	}
	record, err := task.ReadRecord(ch.Kept)
	if err != nil {
		t.Fatal(err)
	}
	if kept := record.Sample.Tables().AppendRecord(nil); !bytes.Equal(kept, rows) {
		t.Error("the record has other rows")
	}
	named := 0
	record.Sample.Tables().EachNamed(func([]byte) bool { named++; return true })
	again, err := refit.Repeat(record, context.Background(), ch.CutShort, task.Chosen{HalfLife: ch.Version.HorizonEvents,
		HeldOutSweeps: ch.Version.HeldOutSweeps, Precisions: ch.Version.Precisions}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := format.PayloadDigest(again.Contents(record.Model)); err != nil || got != want || named < 10 {
		t.Errorf("%s again, want %s, with %d rows of tables: %v", got, want, named, err)
	}
}

// TestForgottenRowsOfTables: an erasure takes the row of its subject out of the tables, and of no other name.
func TestForgottenRowsOfTables(t *testing.T) {
	m := tableModel(t, true)
	store, c := tableState(t, m)
	name := c.Tables().Rows(1)[0].Name()
	items, _ := c.Tables().Count(0)
	if _, err := store.ForgetSubject("user", []byte(name)); err != nil {
		t.Fatal(err)
	}
	if _, err := Erase(context.Background(), m, store); err != nil {
		t.Fatal(err)
	}
	left := tables.New(m)
	if err := LoadTables(m, store, left); err != nil {
		t.Fatal(err)
	}
	users, _ := c.Tables().Count(1)
	now, _ := left.Count(1)
	if n, _ := left.Count(0); left.Find(tables.Entity{Table: 1, Name: name}) != nil || now != users-1 || n != items {
		t.Errorf("%d users and %d items left of %d and %d", now, n, users, items)
	}
	if n, err := CountRows(m, store, "user", name); err != nil || n != 0 {
		t.Errorf("%d rows left: %v", n, err)
	}
}

// TestForgottenHistories: an erasure takes a history out that is left of a row that was removed.
func TestForgottenHistories(t *testing.T) {
	m := tableModel(t, true)
	store, c := tableState(t, m)
	name := c.Tables().Rows(2)[0].Name()
	before, err := CountRows(m, store, "item", name)
	if err != nil {
		t.Fatal(err)
	}
	for p := range int32(2) {
		b := &consumer.Batch{Topic: "prices", Partition: p, Base: 80, Next: 81, Records: []consumer.Record{{Offset: 80,
			Timestamp: 1_700_000_001_000, Key: []byte(name)}}}
		if err := New(m, store, c).Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if e := (tables.Entity{Table: 2, Name: name}); c.Tables().Find(e) != nil || !c.Tables().Knew(e) {
		t.Fatal("no history is left of a row that was removed")
	}
	if n, err := CountRows(m, store, "item", name); err != nil || n != before {
		t.Errorf("%d rows of %s, %d before one was removed: %v", n, name, before, err)
	}
	if _, err := store.ForgetSubject("item", []byte(name)); err != nil {
		t.Fatal(err)
	}
	if _, err := Erase(context.Background(), m, store); err != nil {
		t.Fatal(err)
	}
	left := tables.New(m)
	if err := LoadTables(m, store, left); err != nil {
		t.Fatal(err)
	}
	if left.Knew(tables.Entity{Table: 2, Name: name}) {
		t.Error("its history is left")
	}
	if n, err := CountRows(m, store, "item", name); err != nil || n != 0 {
		t.Errorf("%d rows left: %v", n, err)
	}
}

// TestCoverageOfTables: the share of events with a row is of those that have come, and changes with their entities.
func TestCoverageOfTables(t *testing.T) {
	m := tableModel(t, true)
	store, c := tableState(t, m)
	set, sample := c.Tables(), 0
	share, known := set.Coverage(1)
	for u := range 20 {
		if set.Find(tables.Entity{Table: 1, Name: fmt.Sprint(u)}) != nil {
			sample++
		}
	}
	if !known || share < 0.1 || share > 1 || sample == 0 {
		t.Fatalf("share %g of events, known %t, with %d of 20 users", share, known, sample)
	}
	if at := set.Newest(1); at < 1_700_000_000_000 || at >= 1_700_000_001_000 {
		t.Errorf("newest record at %d", at)
	}
	log := &consumer.Batch{Topic: "t", Partition: 0, Base: 500, Next: 1500}
	for i := range int64(1000) {
		log.Records = append(log.Records, consumer.Record{Offset: 500 + i,
			Value: fmt.Appendf(nil, `{"user":"x%d","item":"%d","rating":1,"ts":1700000000000}`, i, i)})
	}
	if err := New(m, store, c).Apply(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	if after, _ := set.Coverage(1); after != 0 {
		t.Errorf("share %g of a thousand events of users without a row", after)
	}
}

// TestRowThatIsTooLarge: a key whose record is rejected, as the table has no room for it, keeps the row that it has,
// live as in the state.
func TestRowThatIsTooLarge(t *testing.T) {
	m := tableModel(t, true)
	m.Tables[0].MaxBytes = 64 << 10
	store, c := emptyState(t, m, "items")
	var tags []string
	for i := range 900 {
		tags = append(tags, fmt.Sprintf(`"%d%s"`, i, strings.Repeat("x", 90)))
	}
	b := &consumer.Batch{Topic: "items", Next: 2, HighWatermark: 2, Records: []consumer.Record{
		{Offset: 0, Timestamp: 1, Key: []byte("i1"), Value: []byte(`{"genre":"g"}`)},
		{Offset: 1, Timestamp: 2, Key: []byte("i1"), Value: fmt.Appendf(nil, `{"tags":[%s]}`, strings.Join(tags, ","))}}}
	g := New(m, store, c)
	if err := g.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	again := tables.New(m)
	if err := LoadTables(m, store, again); err != nil {
		t.Fatal(err)
	}
	for name, set := range map[string]*tables.Set{"live": c.Tables(), "state": again} {
		if r := set.Find(tables.Entity{Table: 0, Name: "i1"}); r == nil || r.Event.Categorical[1] != "g" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if l := store.Ledger(); l[0].Rejected != 1 {
		t.Errorf("%d records were rejected", l[0].Rejected)
	}
}

// TestEndedRowsGoFirst: changes of a database table are values of the times that its envelope says; and rows of which
// nothing but their history is left are given up before others, live as in the state.
func TestEndedRowsGoFirst(t *testing.T) {
	c, err := config.Parse("a.yaml", []byte(`
kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: g}
models:
- name: m
  input: {topics: [t]}
  schema: {task: regression, label: y, time: ts, categorical: [user, item]}
  tables: [{name: prices, topics: [prices], of: item, key: id, numeric: [price], as_of: event, time: at, max_rows: 3,
    mapping: {envelope: debezium, fields: [{name: at, path: source.ts_ms}]}}]
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &c.Models[0]
	store, of := emptyState(t, m, "prices")
	b := &consumer.Batch{Topic: "prices"}
	change := func(id, price, at int) {
		value := fmt.Sprintf(`{"op":"u","source":{"ts_ms":%d},"after":{"id":%d,"price":%d}}`, at, id, price)
		if price == 0 {
			value = fmt.Sprintf(`{"op":"d","source":{"ts_ms":%d},"before":{"id":%d},"after":null}`, at, id)
		}
		b.Records = append(b.Records, consumer.Record{Offset: b.Next, Timestamp: 1_000_000 + b.Next, CRC: uint32(b.Next),
			Key: fmt.Appendf(nil, `{"id":%d}`, id), Value: []byte(value)})
		b.Next++
	}
	change(1, 10, 1000)
	change(2, 20, 1000)
	change(2, 21, 2000)
	change(3, 30, 1000)
	change(2, 0, 3000)
	change(4, 40, 4000)
	change(3, 31, 500) // late
	b.HighWatermark = b.Next
	if err := New(m, store, of).Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	again := tables.New(m)
	if err := LoadTables(m, store, again); err != nil {
		t.Fatal(err)
	}
	for name, set := range map[string]*tables.Set{"live": of.Tables(), "state": again} {
		for _, x := range []struct {
			id, at int
			want   float64
		}{{1, 1500, 10}, {3, 700, 31}, {3, 1500, 30}, {3, 0, 30}, {4, 4000, 40}, {4, 1, 40}, {2, 1500, 0}} {
			ev := event.Event{Time: int64(x.at), Categorical: []string{"u", fmt.Sprint(x.id)}, Numeric: []float64{0}}
			if set.Join(&ev); ev.Numeric[0] != x.want && !(x.want == 0 && ev.Numeric[0] != ev.Numeric[0]) {
				t.Errorf("%s: %g of item %d at %d, want %g", name, ev.Numeric[0], x.id, x.at, x.want)
			}
		}
	}
	change(2, 22, 5000)
	change(2, 0, 6000)
	b.Base, b.Records, b.HighWatermark = 7, b.Records[7:], b.Next
	if err := New(m, store, of).Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if n, _ := of.Tables().Count(0); n != 2 || of.Tables().Find(tables.Entity{Table: 0, Name: "1"}) != nil {
		t.Errorf("%d rows, and the one that was written longest ago is there", n)
	}
}

// emptyState returns a state in memory that has begun with a topic of one partition, and a cycle that has learned
// nothing.
func emptyState(t *testing.T, m *config.Model, topic string) (*sketch.Store, *cycle.Cycle) {
	t.Helper()
	store, err := sketch.NewMemory(StoreOptions(m))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if err := store.Begin(topic, 0, 0); err != nil {
		t.Fatal(err)
	}
	c, err := cycle.New(m, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return store, c
}
