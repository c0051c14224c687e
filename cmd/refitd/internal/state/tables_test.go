package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/cmd/refitd/internal/state"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// tableRows returns the rows of tables in the state of a configuration.
func tableRows(t *testing.T, path string) []byte {
	t.Helper()
	_, m, dir := daemontest.Load(t, path)
	store, err := sketch.OpenExisting(t.Context(), dir, daemontest.Quiet())
	if err != nil {
		t.Fatal(err)
	}
	set := tables.New(m)
	if err := errors.Join(ingest.LoadTables(m, store, set), store.Close()); err != nil {
		t.Fatal(err)
	}
	if n, _ := set.Count(0); n < 20 {
		t.Fatalf("%d rows", n)
	}
	return set.AppendRecord(nil)
}

// TestTablesOfOtherStates: a rebuilt state has the rows of tables of the one before, though events are read from the
// latest on; and one that was restored from a backup reads on to those of a state that was never stopped.
func TestTablesOfOtherStates(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	if err := b.Broker.CreateTopic(t.Context(), "items", 2, 0); err != nil {
		t.Fatal(err)
	}
	put := func(from, n int) {
		for i := from; i < from+n; i++ {
			r := &kgo.Record{Topic: "items", Key: fmt.Append(nil, "i", i*7%60)}
			if i%9 != 0 {
				r.Value = fmt.Appendf(nil, `{"genre":"g%d"}`, i%5)
			}
			if err := b.Kafka.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(0, 150)
	b.ProduceRatings(61, 1500)
	edits := append([]string{"    sample: {size",
		`    tables: [{name: items, topics: [items], of: item, key: "record:key", categorical: [genre], max_rows: 25, as_of: event, history: 3}]
    sample: {size`}, daemontest.Simple...)
	path := b.Configure("tables", edits...)
	first := b.Run(path)
	if first.Err != nil {
		t.Fatal(first.Err)
	}
	rows := tableRows(t, path)
	conf, model, dir := daemontest.Load(t, path)
	emitter := report.NewEmitter(io.Discard, true)
	file := filepath.Join(b.Dir, "tables.backup")
	if err := state.Backup(t.Context(), dir, model.Name, file, nil, daemontest.Quiet(), emitter); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "rows")); err != nil {
		t.Fatal(err)
	}
	r := state.Rebuild{Config: conf, Model: model, Out: emitter, Log: daemontest.Quiet()}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(tableRows(t, path), rows) {
		t.Error("a rebuilt state has other rows of tables")
	}
	put(150, 100)
	b.ProduceRatings(62, 500)
	second := b.Run(path)
	if second.Err != nil {
		t.Fatal(second.Err)
	}
	later := tableRows(t, path)
	if bytes.Equal(later, rows) {
		t.Fatal("the rows did not change")
	}
	calm := b.Configure("calm", edits...)
	undisturbed := b.Run(calm)
	sameState(t, "a state that read on", second.State(t), undisturbed.State(t))
	if !bytes.Equal(tableRows(t, calm), later) {
		t.Error("a state that read on has other rows of tables than one that read all at once")
	}
	if err := state.Restore(t.Context(), dir, model, file, "drill", nil, daemontest.Quiet(), emitter); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(tableRows(t, path), rows) {
		t.Error("a restored state has other rows of tables")
	}
	third := b.Run(path)
	sameState(t, "restored state read on", third.State(t), second.State(t))
	if !bytes.Equal(tableRows(t, path), later) {
		t.Error("a restored state reads on to other rows of tables")
	}
	r = state.Rebuild{Config: conf, Model: model, Backup: file, Out: emitter, Log: daemontest.Quiet()}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(tableRows(t, path), later) {
		t.Error("a state that was rebuilt from a backup has other rows of tables")
	}
}
