package publish

import (
	"os"
	"testing"

	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// The store of the first format has no log and numbers no moves: both begin with the next move.
func TestLogBeginsInAnOldStore(t *testing.T) {
	dir := t.TempDir()
	snapshottest.Must(t, os.CopyFS(dir, os.DirFS("../testdata/v1")))
	store := NewStore(dir)
	p, err := store.Alias("ratings", pointer.Champion)
	if err != nil || p.Sequence != 0 || p.Version != 1 {
		t.Fatalf("champion %+v, %v", p, err)
	}
	for range store.Log("ratings") {
		t.Error("a record in a store without a log")
	}
	record, err := store.MoveAlias(t.Context(), "ratings", Move{Alias: pointer.Champion, From: &p.Version, To: 1})
	if err != nil || record.Sequence != 1 {
		t.Errorf("first move: %+v, %v", record, err)
	}
}
