package ingest

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest/binding"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
	"github.com/refitd/refitd/sketch"
)

// TestMapping: records of a topic that was not made for the schema are counted each in one account, what is filtered is
// no dead letter, the ones that count give the rows that plain events give, and another mapping begins a new lineage.
func TestMapping(t *testing.T) {
	plain := ingesttest.Ratings(500)
	mapped := ingesttest.Ratings(500)
	mapped.Input.Mapping = config.Mapping{
		Envelope: "debezium",
		When:     []string{`source.table == "ratings"`},
		Fields: []config.MappedField{
			{
				Name: "user",
				Path: "header:user",
			}, {Name: "ts", Path: "record:timestamp"}, {Name: "item", Path: "key:id"}},
	}
	if binding.Rules(plain) == binding.Rules(mapped) || plain.SampleHash() == mapped.SampleHash() {
		t.Error("a mapping changes no rules")
	}
	var digests [2]string
	for i, m := range []*config.Model{plain, mapped} {
		g, store := newIngest(t, m, "")
		var rejected map[event.Cause]int64
		g.OnApplied = func(c Counts) { rejected = c.Rejected }
		b := &consumer.Batch{Topic: "t", Next: 600, HighWatermark: 600}
		for k := range int64(600) {
			r := consumer.Record{Offset: k, Timestamp: 1_700_000_000_000 + k, CRC: uint32(k)}
			user, item, rating := fmt.Sprint("u", k%7), fmt.Sprint("i", k%5), 1+k%5
			switch {
			case m == plain && k%3 == 0:
				r.Value = fmt.Appendf(nil, `{"user":%q,"item":%q,"rating":%d,"ts":%d}`, user, item, rating, r.Timestamp)
			case m == plain:
				r.Value = []byte(`{}`)
			case k%3 == 0:
				r.Value = fmt.Appendf(nil, `{"op":"c","after":{"rating":%d},"source":{"table":"ratings"}}`, rating)
				r.Key = fmt.Appendf(nil, `{"id":%q}`, item)
				r.Headers = append(binary.AppendVarint(binary.AppendVarint(nil, 1), 4), "user"...)
				r.Headers = append(binary.AppendVarint(r.Headers, int64(len(user))), user...)
			case k%3 == 1:
				r.Value = []byte(`{"op":"c","source":{"table":"users"}}`)
			case k%2 == 0:
				r.Value = []byte(`{"op":"d","source":{"table":"ratings"}}`)
			}
			b.Records = append(b.Records, r)
		}
		if err := g.Apply(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		s, err := store.State()
		if err != nil {
			t.Fatal(err)
		}
		digests[i] = s.SampleDigest.String()
		if l := s.Partitions[0]; l.Applied != 200 || l.Rejected != 400 || l.Next != 600 {
			t.Errorf("%d applied, %d rejected, next %d", l.Applied, l.Rejected, l.Next)
		}
		if m == mapped &&
			(rejected[event.Cause{Reason: event.Filtered}] != 200 ||
				rejected[event.Cause{Reason: event.RemovalRequest}] != 200 ||
				s.RejectedByReason["filtered"] != 200 || g.Missing().Events.Load() != 200 || g.Missing().Count(0) != 0) {
			t.Errorf("%v, %v, %d events", rejected, s.RejectedByReason, g.Missing().Events.Load())
		}
	}
	if digests[0] != digests[1] {
		t.Errorf("samples %q", digests)
	}
}

// TestFilteredIsNoDeadLetter: the outbox has room for the records that are rejected alone.
func TestFilteredIsNoDeadLetter(t *testing.T) {
	m := ingesttest.Ratings(500)
	m.Input.Mapping.When = []string{`type == "rating"`}
	o := StoreOptions(m)
	o.OutboxRows = 2
	store, err := sketch.NewMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Begin("t", 0, 0); err != nil {
		t.Fatal(err)
	}
	g := New(m, store, nil)
	b := &consumer.Batch{Topic: "t", Next: 12, HighWatermark: 12}
	for k := range int64(12) {
		value := []byte(`{"type":"other"}`)
		if k%6 == 0 {
			value = []byte(`{"type":"rating"}`)
		}
		b.Records = append(b.Records, consumer.Record{Offset: k, Timestamp: 1, Value: value})
	}
	if err := g.Apply(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	letters, err := store.DeadLetters(10)
	if err != nil || len(letters) != 2 || letters[1].Offset != 6 || letters[1].Reason != string(event.MissingField) {
		t.Errorf("%+v, %v", letters, err)
	}
}
