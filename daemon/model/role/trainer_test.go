package role

import (
	"testing"

	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/model/state"
)

// TestPausedAtAShard: a partition that waits at a shard is paused at the trainer, and one that waits for an operator
// has halted there.
func TestPausedAtAShard(t *testing.T) {
	store := emptyStore(t)
	for n, text := range []string{ingest.PausedPrefix + "no schema", "a gap", ""} {
		if err := store.Begin("r", int32(n), 0); err != nil {
			t.Fatal(err)
		}
		if err := store.Halt("r", int32(n), text); err != nil {
			t.Fatal(err)
		}
	}
	of := (&trainerRole{state: &state.State{Store: store}}).Partitions()
	if len(of) != 3 || of[0].Paused != "no schema" || of[0].Halted != "" || of[1].Halted != "a gap" ||
		of[1].Paused != "" || of[2].Halted != "" || of[2].Paused != "" {
		t.Errorf("%+v", of)
	}
}
