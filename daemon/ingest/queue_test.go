package ingest

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
	"github.com/refitd/refitd/sketch"
)

// TestTakeIsApply: batches of two partitions that are taken one after another and stored in parallel give the state,
// the sums and the counts of batches that are applied one by one.
func TestTakeIsApply(t *testing.T) {
	run := func(apply func(g *Ingest, b *consumer.Batch) error, size int) (*sketch.State, string, Counts) {
		g, store := newIngest(t, ingesttest.Ratings(500), "")
		var total Counts
		notObject := event.Cause{Reason: event.NotObject}
		g.OnApplied = func(c Counts) {
			total.Applied += c.Applied
			total.Rejected = map[event.Cause]int64{notObject: total.Rejected[notObject] + c.Rejected[notObject]}
			total.Watermark = max(total.Watermark, c.Watermark)
		}
		whole := [2]*consumer.Batch{
			batch(rand.New(rand.NewPCG(1, 1)), 0, 0, 6000),
			batch(rand.New(rand.NewPCG(2, 2)), 1, 0, 6000),
		}
		for from := 0; from < 6000; from += size {
			for _, w := range whole {
				b := *w
				b.Base, b.Next = int64(from), int64(min(from+size, 6000))
				b.Records = w.Records[b.Base:b.Next]
				if err := apply(g, &b); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := g.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := store.Check(); err != nil {
			t.Error(err)
		}
		return stateOf(t, store), string(store.Aux()), total
	}
	for _, size := range []int{10, 700, 3000} {
		want, sums, counts := run(func(g *Ingest, b *consumer.Batch) error { return g.Apply(context.Background(), b) },
			size)
		got, gotSums, gotCounts := run(
			func(g *Ingest, b *consumer.Batch) error { return g.Take(context.Background(), b) }, size)
		if counts.Applied != 10_800 || counts.Rejected[event.Cause{Reason: event.NotObject}] == 0 ||
			!reflect.DeepEqual(gotCounts, counts) {
			t.Errorf("batches of %d: counts %+v, applied one by one %+v", size, gotCounts, counts)
		}
		if got.SampleDigest != want.SampleDigest || !reflect.DeepEqual(got.Partitions, want.Partitions) ||
			gotSums != sums {
			t.Errorf("batches of %d: taken\n%+v %s\napplied one by one\n%+v %s", size, got, gotSums, want, sums)
		}
	}
}

// TestTakeFails: an error of storing comes out of a later call, once, and what was taken after that batch is not
// stored.
func TestTakeFails(t *testing.T) {
	g, store := newIngest(t, ingesttest.Ratings(500), "")
	applied := 0
	g.OnApplied = func(Counts) { applied++ }
	r := rand.New(rand.NewPCG(1, 1))
	take := func(from int64) error { return g.Take(context.Background(), batch(r, 0, from, 20)) }
	if err := errors.Join(take(0), g.Flush(), take(30)); err != nil { // 20 to 29 are missing
		t.Fatal(err)
	}
	if err := g.Flush(); !errors.Is(err, sketch.ErrPart) {
		t.Errorf("error %v", err)
	}
	if err := errors.Join(take(20), take(40), g.Flush()); err != nil {
		t.Error(err)
	}
	if next, _ := store.Position("t", 0); next != 60 || applied != 3 {
		t.Errorf("next %d after %d batches", next, applied)
	}
}

// TestTakeFillsTheOutbox: what waits to be stored counts for the room in the outbox; the part that has none left is cut
// where it ends.
func TestTakeFillsTheOutbox(t *testing.T) {
	m := ingesttest.Ratings(500)
	o := StoreOptions(m)
	o.OutboxRows = 25
	store, err := sketch.NewMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Begin("t", 0, 0); err != nil {
		t.Fatal(err)
	}
	g := New(m, store, nil)
	r := rand.New(rand.NewPCG(1, 1))
	for from := int64(0); from < 200; from += 100 { // ten of each hundred are rejected
		if err := g.Take(t.Context(), batch(r, 0, from, 100)); err != nil {
			t.Fatal(err)
		}
	}
	full, ok := errors.AsType[*consumer.PauseError](g.Take(t.Context(), batch(r, 0, 200, 100)))
	if !ok || full.Next != 259 {
		t.Fatalf("%+v", full)
	}
	if err := g.Flush(); err != nil {
		t.Fatal(err)
	}
	if next, _ := store.Position("t", 0); next != 259 || store.OutboxLen() != 25 {
		t.Errorf("next %d with %d letters", next, store.OutboxLen())
	}
}
