package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/crash"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/sketch"
)

// tableBatch returns records of a partition, in turn a key and a value, which is "" for none.
func tableBatch(topic string, base, stamp int64, pairs ...string) *consumer.Batch {
	n := int64(len(pairs) / 2)
	b := &consumer.Batch{Topic: topic, Base: base, Next: base + n, HighWatermark: base + n}
	for i := range n {
		r := consumer.Record{Offset: base + i, Timestamp: stamp, CRC: uint32(i), Key: []byte(pairs[2*i])}
		if value := pairs[2*i+1]; value != "" {
			r.Value = []byte(value)
		}
		b.Records = append(b.Records, r)
	}
	return b
}

// stateRows returns the rows that a state has, as the record of a refit would have them.
func stateRows(t *testing.T, g *Ingest) []byte {
	t.Helper()
	set := tables.New(g.model)
	if err := LoadTables(g.model, g.store, set); err != nil {
		t.Fatal(err)
	}
	return set.AppendRecord(nil)
}

// TestTableWaitsForTheOutbox: rows behind a record that the outbox has no room for are taken once it has some, and none
// is known before.
func TestTableWaitsForTheOutbox(t *testing.T) {
	m := tableModel(t, false)
	store := func(letters int) *Ingest {
		o := StoreOptions(m)
		o.OutboxRows = letters
		s, err := sketch.NewMemory(o)
		if err == nil {
			err = s.Begin("items", 0, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		c, err := cycle.New(m, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return New(m, s, c)
	}
	const bad = `{"genre":[]}`
	b := tableBatch("items", 0, 1, "a", `{"genre":"g"}`, "b", `{"genre":"g"}`, "x", bad, "a", "", "y", bad, "b", "",
		"c", `{"genre":"h"}`)
	with, without := store(1), store(100)
	if err := without.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	err := with.Apply(t.Context(), b)
	pause, ok := errors.AsType[*consumer.PauseError](err)
	if !ok || pause.Next != 4 {
		t.Fatalf("%v, want a pause at 4", err)
	}
	if live := with.set.AppendRecord(nil); !bytes.Equal(live, stateRows(t, with)) {
		t.Error("rows are known that are not stored")
	}
	if _, err := with.store.DropOutbox(func(*sketch.DeadLetter) bool { return true }); err != nil {
		t.Fatal(err)
	}
	rest := *b
	rest.Base, rest.Records = 4, b.Records[4:]
	if err := with.Apply(t.Context(), &rest); err != nil {
		t.Fatal(err)
	}
	want := stateRows(t, without)
	if !bytes.Equal(stateRows(t, with), want) || !bytes.Equal(with.set.AppendRecord(nil), want) {
		t.Error("the pause gives other rows")
	}
}

// TestTableOfTheFuture: a value whose record says that it comes from years ahead counts from the time of the one before
// it. So those that follow replace it, and reading the log again later gives the same rows.
func TestTableOfTheFuture(t *testing.T) {
	m := tableModel(t, true)
	store, c := emptyState(t, m, "prices")
	g := New(m, store, c)
	value := func(cost, at int64) string { return fmt.Sprintf(`{"tier":"t","cost":%d,"at":%d}`, cost, at) }
	now := time.Now().UnixMilli()
	const future = 95_617_584_000_000 // the year 5000
	batches := []*consumer.Batch{
		tableBatch("prices", 0, now, "i", value(1, now-1000)),
		tableBatch("prices", 1, future, "i", value(2, future), "k", value(7, future)),
		tableBatch("prices", 3, now, "i", value(3, now-500), "k", value(8, now)),
	}
	for _, b := range batches {
		if err := g.Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if l := store.Ledger(); l[0].Applied != 5 {
		t.Fatalf("%+v", l[0])
	}
	cost := func(name string, at int64) float64 {
		schema := m.Schema.Event()
		ev := event.Event{Time: at, Categorical: make([]string, len(schema.Categorical)),
			Numeric: make([]float64, len(schema.Numeric)), Multi: make([][]string, len(schema.Multi))}
		ev.Categorical[slices.Index(schema.Categorical, "item")] = name
		c.Tables().Join(&ev)
		return ev.Numeric[slices.Index(schema.Numeric, "cost")]
	}
	for at, want := range map[int64]float64{now - 1000: 2, now - 501: 2, now - 500: 3, future + 1: 3} {
		if got := cost("i", at); got != want {
			t.Errorf("%g at %d, want %g", got, at-now, want)
		}
	}
	if got := cost("k", now); got != 8 {
		t.Errorf("%g of a name whose first value was of the future", got)
	}
	again, _ := emptyState(t, m, "prices")
	other, err := cycle.New(m, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	g2 := New(m, again, other)
	g2.clock = future + 1 // it is later
	if g2.Bounds, err = BoundsOf(store, "prices", 0); err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		if err := g2.Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(stateRows(t, g2), stateRows(t, g)) {
		t.Error("reading the log again gives other rows")
	}
}

// TestQuarantineOfATable: after a death with a batch of a table in hand, its records are in hand one by one.
func TestQuarantineOfATable(t *testing.T) {
	m, dir := tableModel(t, false), t.TempDir()
	hand := filepath.Join(dir, "in-hand")
	b := tableBatch("users", 0, 1, "1", "a", "2", "poison", "3", "c")
	var exclusive sync.Mutex
	start := func() *Ingest {
		store, c := emptyState(t, m, "users")
		g := New(m, store, c)
		var err error
		g.Crashes, err = crash.Open(dir, store.Ledger(), &exclusive, time.Now(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	for i, want := range []string{"users 0 0 3\n", "users 0 1 2\n", "users 0 1 2\n"} {
		g := start()
		var held []byte
		r := g.tables.readers[1]
		r.mapped = nil
		r.decode = func(ev *event.Event, value []byte, _ int64) *event.Rejection {
			if string(value) == "poison" {
				var err error
				if held, err = os.ReadFile(hand); err != nil {
					t.Fatal(err)
				}
			}
			*ev = event.Event{Weight: 1, Categorical: []string{string(value), "20"}}
			return nil
		}
		if err := g.Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(held), want) {
			t.Fatalf("start %d: %q in hand, want %q", i+1, held, want)
		}
		if err := os.WriteFile(hand, held, 0o600); err != nil { // the process ends there
			t.Fatal(err)
		}
	}
	g := start()
	halt, ok := errors.AsType[*consumer.HaltError](g.Apply(t.Context(), b))
	if next, _ := g.store.Position("users", 0); !ok || halt.Next != 1 || next != 1 {
		t.Errorf("%+v, stored up to %d", halt, next)
	}
}
