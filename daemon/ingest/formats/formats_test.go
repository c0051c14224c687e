package formats_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
	"github.com/refitd/refitd/sketch"
	"github.com/twmb/avro"
	"google.golang.org/protobuf/encoding/protowire"
)

// fakeRegistry answers as Confluent's registry does, unless it is away.
type fakeRegistry struct {
	*httptest.Server
	schemas map[string]map[string]any // by path
	away    atomic.Bool
}

func newFakeRegistry(t *testing.T) *fakeRegistry {
	f := &fakeRegistry{schemas: make(map[string]map[string]any)}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := f.schemas[r.URL.Path]
		switch {
		case f.away.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		default:
			_ = json.NewEncoder(w).Encode(answer)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

const (
	avroRating  = `{"type":"record","name":"Rating","fields":[{"name":"user","type":["null","string"]},{"name":"item","type":"string"},{"name":"rating","type":"int"},{"name":"ts","type":{"type":"long","logicalType":"timestamp-millis"}}]}`
	protoRating = `syntax = "proto3"; import "shop/item.proto"; message Other {} message Rating { string user = 1; shop.Item item = 2; int32 rating = 3; int64 ts = 4; }`
	protoItem   = `syntax = "proto3"; package shop; message Item { string id = 1; }`
)

// begun returns the store of a model whose partition t/0 begins at its start.
func begun(t *testing.T, m *config.Model) *sketch.Store {
	t.Helper()
	store, err := sketch.NewMemory(ingest.StoreOptions(m))
	if err == nil {
		err = store.Begin("t", 0, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// records returns n records of ratings in a format, in the frame of schema 7.
func records(t *testing.T, format string, n int64) []consumer.Record {
	schema := avro.MustParse(avroRating)
	var list []consumer.Record
	for k := range n {
		user, item, rating, ts := fmt.Sprint("u", k%7), fmt.Sprint("i", k%5), int32(1+k%5), 1_700_000_000_000+k
		r := consumer.Record{Offset: k, Timestamp: ts, CRC: uint32(k)}
		frame := []byte{0, 0, 0, 0, 7}
		switch format {
		case event.FormatAvro:
			data, err := schema.Encode(map[string]any{"user": user, "item": item, "rating": rating, "ts": time.UnixMilli(ts)})
			if err != nil {
				t.Fatal(err)
			}
			r.Value = append(frame, data...)
		case event.FormatProtobuf:
			r.Value = append(frame, 2, 2) // one index, which is 1
			inner := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), item)
			r.Value = protowire.AppendBytes(protowire.AppendTag(r.Value, 2, protowire.BytesType), inner)
			r.Value = protowire.AppendString(protowire.AppendTag(r.Value, 1, protowire.BytesType), user)
			r.Value = protowire.AppendVarint(protowire.AppendTag(r.Value, 3, protowire.VarintType), uint64(rating))
			r.Value = protowire.AppendVarint(protowire.AppendTag(r.Value, 4, protowire.VarintType), uint64(ts))
		default:
			r.Value = fmt.Appendf(nil, `{"user":%q,"item":{"id":%q},"rating":%d,"ts":%d}`, user, item, rating, ts)
			if format == event.FormatJSONSchema {
				r.Value = append(frame, r.Value...)
			}
		}
		list = append(list, r)
	}
	return list
}

// offer offers records until the ingest has taken them, or until tries of them were in vain. It returns why.
func offer(t *testing.T, g *ingest.Ingest, list []consumer.Record, next int64, enough func(reason string) bool) string {
	t.Helper()
	return offerTo(t, g, "t", list, next, enough)
}

func offerTo(t *testing.T, g *ingest.Ingest, topic string, list []consumer.Record, next int64,
	enough func(reason string) bool) string {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		end := list[len(list)-1].Offset + 1
		b := &consumer.Batch{Topic: topic, Base: next, Next: end, HighWatermark: end}
		b.Records = append(b.Records, list[next-list[0].Offset:]...)
		err := g.Apply(context.Background(), b)
		var pause *consumer.PauseError
		switch {
		case err == nil:
			return ""
		case !errors.As(err, &pause):
			t.Fatal(err)
		case enough(pause.Reason):
			return pause.Reason
		case time.Now().After(deadline):
			t.Fatal(pause.Reason)
		}
		next = pause.Next
	}
}

// registryOf returns a registry with the schema of records of a format, and the format that they have.
func registryOf(t *testing.T, format string) (f *fakeRegistry, as string) {
	f, as = newFakeRegistry(t), format
	if format == event.FormatAuto {
		as = event.FormatProtobuf
	}
	switch as {
	case event.FormatAvro:
		f.schemas["/schemas/ids/7"] = map[string]any{"schema": avroRating}
	case event.FormatProtobuf:
		f.schemas["/schemas/ids/7"] = map[string]any{"schema": protoRating, "schemaType": "PROTOBUF",
			"references": []any{map[string]any{"name": "shop/item.proto", "subject": "item", "version": 3}}}
		f.schemas["/subjects/item/versions/3"] = map[string]any{"schema": protoItem}
	case event.FormatJSONSchema:
		f.schemas["/schemas/ids/7"] = map[string]any{"schema": `{}`, "schemaType": "JSON"}
	}
	return f, as
}

// TestFormats: records in every format give the state that plain JSON gives. While the registry is away nothing is
// rejected; once the state has a schema, nothing needs the registry any more.
func TestFormats(t *testing.T) {
	const n = 600
	var want string
	for _, format := range []string{event.FormatJSON, event.FormatAvro, event.FormatProtobuf, event.FormatJSONSchema,
		event.FormatAuto} {
		f, as := registryOf(t, format)
		m, k := ingesttest.Ratings(500), new(config.Kafka)
		k.SchemaRegistry.URL, k.SchemaRegistry.Timeout = f.URL, config.Duration(5*time.Second)
		m.Input.Format, m.Input.FromRegistry = format, format != event.FormatJSON
		place := "item.id"
		if as == event.FormatAvro {
			place = "item"
		}
		m.Input.Mapping.Fields = []config.MappedField{{Name: "item", Path: place}}
		store := begun(t, m)
		defer store.Close()
		open := func() (*ingest.Ingest, *formats.Schemas) {
			schemas, err := formats.OpenSchemas(k, m, store)
			if err != nil {
				t.Fatal(err)
			}
			return ingest.NewReading(m, store, nil, schemas), schemas
		}
		list, counted := records(t, as, n), map[string]int64{}
		count := func(c ingest.Counts) {
			for format, n := range c.Formats {
				counted[format] += n
			}
		}
		g, schemas := open()
		g.OnApplied = count
		if f.away.Store(true); format != event.FormatJSON {
			why := offer(t, g, list[:n/2], 0, func(reason string) bool { return strings.Contains(reason, "503") })
			for _, part := range []string{"schema 7", f.URL + "/schemas/ids/7", "kafka.schema_registry"} {
				if !strings.Contains(why, part) {
					t.Errorf("%s: %q does not name %s", format, why, part)
				}
			}
		}
		f.away.Store(false)
		offer(t, g, list[:n/2], 0, func(string) bool { return false })
		schemas.Close()
		f.away.Store(true) // the process ends, and starts again without the registry
		g, schemas = open()
		g.OnApplied = count
		offer(t, g, list[n/2:], n/2, func(string) bool { return false })
		schemas.Close()
		s, err := store.State()
		if err != nil {
			t.Fatal(err)
		}
		if l := s.Partitions[0]; l.Applied != n || l.Rejected != 0 {
			t.Errorf("%s: %d applied, %d rejected", format, l.Applied, l.Rejected)
		}
		digest := s.SampleDigest.String() + s.Partitions[0].Digest.String()
		if want == "" {
			want = digest
		}
		if digest != want {
			t.Errorf("%s: another state than that of JSON", format)
		}
		if len(counted) != 1 || counted[as] != n || !slices.Contains(m.Input.Formats(), as) {
			t.Errorf("%s: events by format %v, of %v", format, counted, m.Input.Formats())
		}
		if err := store.Check(); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		var copied []sketch.Schema
		other, err := sketch.NewMemory(ingest.StoreOptions(m))
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if err := formats.CopySchemas(other, store); err != nil {
			t.Fatal(err)
		}
		_ = other.Schemas(func(s sketch.Schema) error { copied = append(copied, s); return nil })
		if (len(copied) == 1) != (format != event.FormatJSON) {
			t.Errorf("%s: %d schemas in the state", format, len(copied))
		}
	}
}

// TestSchemaInTheMiddle: a part ends before a record whose schema is not known, and bytes that do not fit their schema
// are rejected with its ID.
func TestSchemaInTheMiddle(t *testing.T) {
	l := newLife(t)
	list := records(t, event.FormatAvro, 1000)
	list[600].Value[4] = 9
	list[100].Value = list[100].Value[:len(list[100].Value)-1]
	why := offer(t, l.ingest, list, 0, func(reason string) bool { return strings.Contains(reason, "404") })
	if !strings.Contains(why, "schema 9") || l.schemas.Trouble() == "" {
		t.Errorf("%q, %q", why, l.schemas.Trouble())
	}
	s, err := l.store.State()
	if err != nil {
		t.Fatal(err)
	}
	if l := s.Partitions[0]; l.Applied != 599 || l.Rejected != 1 || l.Next != 600 || s.RejectedByReason["not_avro"] != 1 {
		t.Errorf("%d applied, %d rejected, next %d, %v", l.Applied, l.Rejected, l.Next, s.RejectedByReason)
	}
}

// TestFormatsOfOutcomes: events and outcomes in every format give the state that plain JSON gives. Outcomes wait for
// their schema as events do.
func TestFormatsOfOutcomes(t *testing.T) {
	var want string
	for _, format := range []string{event.FormatJSON, event.FormatAvro, event.FormatProtobuf, event.FormatJSONSchema,
		event.FormatAuto} {
		f, as := registryOf(t, format)
		m, k := ingesttest.Clicks(500), new(config.Kafka)
		k.SchemaRegistry.URL, k.SchemaRegistry.Timeout = f.URL, config.Duration(5*time.Second)
		m.Input.Topics = []string{"t"}
		m.Input.Format, m.Input.FromRegistry = format, format != event.FormatJSON
		m.Input.Outcomes.Key, m.Input.Outcomes.Label = config.OutcomeKey{Impression: "user", Outcome: "user"}, "rating"
		m.Schema.Task, m.Schema.Identity, m.Schema.Categorical = "regression", "user", []string{"item"}
		place := "item.id"
		if as == event.FormatAvro {
			place = "item"
		}
		m.Input.Mapping.Fields = []config.MappedField{{Name: "item", Path: place}}
		store := begun(t, m)
		defer store.Close()
		if err := store.Begin("clicked", 0, 0); err != nil {
			t.Fatal(err)
		}
		schemas, err := formats.OpenSchemas(k, m, store)
		if err != nil {
			t.Fatal(err)
		}
		g, list := ingest.NewReading(m, store, nil, schemas), records(t, as, 30)
		if f.away.Store(true); format != event.FormatJSON {
			offerTo(t, g, "clicked", list, 0, func(reason string) bool { return strings.Contains(reason, "503") })
		}
		f.away.Store(false)
		offerTo(t, g, "clicked", list, 0, func(string) bool { return false })
		offer(t, g, list, 0, func(string) bool { return false })
		schemas.Close()
		s, err := store.State()
		if err != nil {
			t.Fatal(err)
		}
		sample, err := store.Sample()
		if err != nil {
			t.Fatal(err)
		}
		outcomes := 0
		for _, list := range [][]sketch.Row{sample.Train, sample.Select, sample.Gate} {
			for i := range list {
				outcomes += len(list[i].Outcomes)
			}
		}
		if outcomes != len(list) || s.Partitions[0].Rejected+s.Partitions[1].Rejected != 0 {
			t.Errorf("%s: %d outcomes of %d, rejected %v", format, outcomes, len(list), s.RejectedByReason)
		}
		if digest := s.SampleDigest.String(); want == "" {
			want = digest
		} else if digest != want {
			t.Errorf("%s: another state than that of JSON", format)
		}
	}
}
