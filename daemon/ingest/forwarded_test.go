package ingest

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/ingest/ingesttest"
	"github.com/refitd/refitd/sketch"
)

// TestLearnForwarded: events that a process reads without learning, and another learns, give the progressive sums of
// one process that does both; nothing of them is stored there.
func TestLearnForwarded(t *testing.T) {
	m := ingesttest.Ratings(500)
	whole := batch(rand.New(rand.NewPCG(1, 1)), 0, 0, 3000)
	one, _ := newIngest(t, m, "")
	if err := one.Apply(t.Context(), whole); err != nil {
		t.Fatal(err)
	}
	_, shardStore := newIngest(t, m, "")
	reads := New(m, shardStore, nil)
	learns, store := newIngest(t, m, "")
	reads.OnPart = func(p *sketch.Part) {
		var to sketch.Part
		for _, r := range p.Records {
			if r.Fate == sketch.Applied {
				to.Records = append(to.Records,
					sketch.Record{Offset: r.Offset, Fate: sketch.Applied, Payload: bytes.Clone(r.Payload)})
			}
		}
		to.Topic, to.Partition, to.Base, to.Next = p.Topic, p.Partition, p.Base, p.Next
		if unlearned, err := learns.Learn(&to, time.Now()); err != nil || unlearned > 0 {
			t.Errorf("%d not learned, %v", unlearned, err)
		}
	}
	if err := reads.Apply(t.Context(), whole); err != nil {
		t.Fatal(err)
	}
	want, err := one.cycle.Sums()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := learns.cycle.Sums(); err != nil || !bytes.Equal(got, want) {
		t.Errorf("sums of forwarded events: %.300s, of those that are read: %.300s, %v", got, want, err)
	}
	if rows, _ := store.Size(); rows[sketch.Train] != 0 || store.Ledger()[0].Next != 0 {
		t.Errorf("forwarded events are stored: %v, %+v", rows, store.Ledger()[0])
	}
}
