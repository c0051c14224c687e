package formats_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/sketch"
)

// TestSchemasFile: the schemas of a state are in a file, from which another state takes those that it lacks; of a
// damaged one it takes none.
func TestSchemasFile(t *testing.T) {
	l, dir := newLife(t), t.TempDir()
	path := filepath.Join(dir, formats.SchemasFile)
	if err := formats.KeepSchemas(l.store, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a state without schemas has a file of them")
	}
	l.registry.schemas["/schemas/ids/8"] = map[string]any{"schema": avroRating}
	list := records(t, event.FormatAvro, 20)
	list[3].Value[4] = 8
	l.read(list, 20)
	if err := formats.KeepSchemas(l.store, dir); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	empty := func() *sketch.Store {
		store, err := sketch.NewMemory(ingest.StoreOptions(l.model))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		return store
	}
	store := empty()
	for _, want := range []int{2, 0} {
		if n, err := formats.TakeSchemas(store, dir); n != want || err != nil {
			t.Errorf("%d, %v, want %d", n, err, want)
		}
	}
	if err := store.Begin("t", 0, 0); err != nil {
		t.Fatal(err)
	}
	l.store = store
	l.registry.away.Store(true)
	l.open()
	l.next = 0
	if why := l.read(list, 20); why != "" {
		t.Error(why)
	}
	l.account(20, 0)
	for name, text := range map[string][]byte{
		"torn":    content[:len(content)-20],
		"altered": bytes.Replace(content, []byte("rating"), []byte("ratinG"), 1),
		"later":   bytes.Replace(content, []byte(`"format":1`), []byte(`"format":2`), 1),
		"empty":   nil,
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := formats.TakeSchemas(empty(), dir); n != 0 || err == nil {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	if n, err := formats.TakeSchemas(empty(), t.TempDir()); n != 0 || err != nil {
		t.Errorf("no file: %d, %v", n, err)
	}
}
