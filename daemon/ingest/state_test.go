package ingest

import (
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/ingest/ingesttest"
	"github.com/refitd/refitd/daemon/report"
)

// TestStateNamesPaused: a partition that waits is among those that are paused, one that has halted is not.
func TestStateNamesPaused(t *testing.T) {
	m := ingesttest.Ratings(100)
	_, store := newIngest(t, m, "")
	for p, text := range []string{"", PausedPrefix + "the schema is not known", "a gap"} {
		if err := store.Begin("ratings", int32(p), 0); err != nil {
			t.Fatal(err)
		}
		if text == "" {
			continue
		}
		if err := store.Halt("ratings", int32(p), text); err != nil {
			t.Fatal(err)
		}
	}
	state := func() report.State {
		s, err := store.State()
		if err != nil {
			t.Fatal(err)
		}
		return StateOf("m", s)
	}
	paused := func() []report.Paused { return state().Paused }
	if of := state(); !of.NeedsOperator() {
		t.Error("a partition has halted, and nobody is needed")
	}
	if err := store.Resume("ratings", 2); err != nil {
		t.Fatal(err)
	}
	if of := state(); of.NeedsOperator() {
		t.Error("an operator is needed for a partition that waits")
	}
	want := []report.Paused{{Topic: "ratings", Partition: 1, Reason: "the schema is not known"}}
	if got := paused(); !slices.Equal(got, want) {
		t.Errorf("paused are %v, want %v", got, want)
	}
	if err := store.Resume("ratings", 1); err != nil {
		t.Fatal(err)
	}
	if got := paused(); got != nil {
		t.Errorf("paused are %v after it was read on", got)
	}
}
