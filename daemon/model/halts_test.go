package model

import (
	"testing"

	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/model/modeltest"
	"github.com/refitd/refitd/daemon/model/state"
	"github.com/refitd/refitd/sketch"
)

// TestNoNoticeOfAPause: of partitions that are not read, those that resume by themselves are no halts to notify of.
func TestNoNoticeOfAPause(t *testing.T) {
	store, err := sketch.NewMemory(ingest.StoreOptions(modeltest.Ratings()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	for n, text := range []string{ingest.PausedPrefix + "no schema", "a gap", ""} {
		if err := store.Begin("r", int32(n), 5); err != nil {
			t.Fatal(err)
		}
		if err := store.Halt("r", int32(n), text); err != nil {
			t.Fatal(err)
		}
	}
	if of := haltsOf(&state.State{Store: store}); len(of) != 1 || of[0].Partition != 1 || of[0].Offset != 5 ||
		of[0].Reason != "a gap" {
		t.Errorf("%+v", of)
	}
}
