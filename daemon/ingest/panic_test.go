package ingest

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/sketch"
)

// TestPanicOnOneRecord has the decoder panic on one record for ever and on another once, and the cycle on a third: two are rejected, each
// with its reason, and everything else is as without them.
func TestPanicOnOneRecord(t *testing.T) {
	m := ratings(1000)
	store, err := sketch.NewMemory(StoreOptions(m))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	c, err := cycle.New(m, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Begin("t", 0, 0); err != nil {
		t.Fatal(err)
	}
	b := batch(rand.New(rand.NewPCG(1, 1)), 0, 0, 100)
	poison, fickle := b.Records[3].Value, b.Records[5].Value
	g := New(m, store, c)
	decode, observe := g.decode, g.observe
	failed := false
	g.decode = func(ev *consumer.Event, value []byte, at int64) consumer.Reason {
		if bytes.Equal(value, poison) || bytes.Equal(value, fickle) && !failed {
			failed = failed || bytes.Equal(value, fickle)
			panic("decode")
		}
		return decode(ev, value, at)
	}
	g.observe = func(ev *consumer.Event, train bool, at cycle.Position, payload []byte) {
		if at.Offset == 7 {
			panic("observe")
		}
		observe(ev, train, at, payload)
	}
	var told []int64
	g.OnPanic = func(_ string, _ int32, offset int64, _ any) { told = append(told, offset) }
	var counts Counts
	g.OnApplied = func(c Counts) { counts = c }
	if err := g.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if n := counts.Rejected[consumer.Panicked]; n != 2 || counts.Applied != 100-10-2 {
		t.Errorf("%d rejected for a panic, %d applied", n, counts.Applied)
	}
	if len(told) != 4 || told[0] != 3 || told[1] != 3 || told[2] != 5 || told[3] != 7 {
		t.Errorf("told of %v", told)
	}
	state, err := store.State()
	if err != nil {
		t.Fatal(err)
	}
	if p := state.Partitions[0]; p.Next != 100 || p.Applied != 88 || p.Rejected != 12 || state.RejectedByReason["panic"] != 2 {
		t.Errorf("ledger %+v, reasons %v", p, state.RejectedByReason)
	}
	if n := c.Progressive().N; n != 88 {
		t.Errorf("%d events scored", n)
	}
}
