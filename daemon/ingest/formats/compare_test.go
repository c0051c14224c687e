package formats_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
	"github.com/refitd/refitd/sketch"
)

// life is a model in Avro whose ingest is opened several times over one state.
type life struct {
	t        *testing.T
	model    *config.Model
	kafka    *config.Kafka
	registry *fakeRegistry
	store    *sketch.Store
	schemas  *formats.Schemas
	ingest   *ingest.Ingest
	next     int64

	transport http.RoundTripper // in place of registry, if not nil
	onPause   func()            // between two tries, if not nil
}

func newLife(t *testing.T) *life {
	f := newFakeRegistry(t)
	f.schemas["/schemas/ids/7"] = map[string]any{"schema": avroRating}
	l := &life{t: t, model: ingesttest.Ratings(500), kafka: new(config.Kafka), registry: f}
	l.kafka.SchemaRegistry.URL, l.kafka.SchemaRegistry.Timeout = f.URL, config.Duration(5*time.Second)
	l.model.Input.Format, l.model.Input.FromRegistry = event.FormatAvro, true
	l.store = begun(t, l.model)
	t.Cleanup(func() { _ = l.store.Close() })
	l.open()
	return l
}

// open begins another life.
func (l *life) open() {
	l.schemas.Close()
	var err error
	if l.schemas, err = formats.OpenSchemas(l.kafka, l.model, l.store); err != nil {
		l.t.Fatal(err)
	}
	if l.transport != nil && l.schemas != nil {
		l.schemas.Close()
		l.ask()
	} else {
		l.t.Cleanup(l.schemas.Close)
	}
	l.ingest = ingest.NewReading(l.model, l.store, nil, l.schemas)
}

// read offers the records below end until they are taken, and returns why the partition halts, "" if it does not.
func (l *life) read(list []consumer.Record, end int64) string {
	deadline, tries := time.Now().Add(20*time.Second), 0
	for l.next < end {
		b := &consumer.Batch{Topic: "t", Base: l.next, Next: end, HighWatermark: end}
		b.Records = append(b.Records, list[l.next:end]...)
		err := l.ingest.Apply(context.Background(), b)
		pause, pauses := errors.AsType[*consumer.PauseError](err)
		halt, halts := errors.AsType[*consumer.HaltError](err)
		switch {
		case err == nil:
			l.next = end
		case halts:
			l.next = halt.Next
			return halt.Reason
		case !pauses:
			l.t.Fatal(err)
		case l.onPause != nil && tries < 10_000:
			l.next, tries = pause.Next, tries+1
			l.onPause()
		case time.Now().After(deadline) || l.onPause != nil:
			l.t.Fatal(pause.Reason)
		default:
			l.next = pause.Next
		}
	}
	return ""
}

// account checks the ledger.
func (l *life) account(applied, rejected int64) {
	l.t.Helper()
	row, _ := l.store.Row("t", 0)
	if row.Applied != applied || row.Rejected != rejected || row.Next != l.next {
		l.t.Errorf("%d applied, %d rejected, next %d; want %d, %d, %d", row.Applied, row.Rejected, row.Next, applied,
			rejected, l.next)
	}
}

// swapped is avroRating with the names of user and item exchanged: every value of the one is a value of the other.
var swapped = strings.NewReplacer(`"user"`, `"item"`, `"item"`, `"user"`).Replace(avroRating)

// TestSchemaOfAnotherType: a schema with another type for a field is said once, before its first event is rejected, in
// every format; a schema that fits is not.
func TestSchemaOfAnotherType(t *testing.T) {
	const members = `{"type":"object","properties":{"user":{"type":"string"},"item":{"type":"string"},` +
		`"rating":{"type":"TYPE"},"ts":{"type":"integer"}}}`
	const message = `syntax = "proto3"; message Stars { int32 stars = 1; } message Rating { string user = 1; string item = 2; ` +
		`TYPE rating = 3; int64 ts = 4; }`
	for format, c := range map[string]struct{ name, text, fits, object string }{
		event.FormatAvro: {"AVRO", strings.Replace(avroRating, `"int"`, `{"type":"TYPE"}`, 1), "double",
			`record","name":"Stars","fields":[{"name":"stars","type":"int"}],"doc":"`},
		event.FormatProtobuf:   {"PROTOBUF", message, "int32", "Stars"},
		event.FormatJSONSchema: {"JSON", members, "number", `object","properties":{"stars":{"type":"number"}},"title":"`},
	} {
		for kind, want := range map[string]int{c.fits: 0, "string": 1, c.object: 1} {
			l := newLife(t)
			l.registry.schemas["/schemas/ids/7"] = map[string]any{"schema": strings.Replace(c.text, "TYPE", kind, 1),
				"schemaType": c.name}
			l.model.Input.Format = format
			l.open()
			said := 0
			l.schemas.OnLost(func(id framing.ID, field string) {
				if row, _ := l.store.Row("t", 0); id.Number != 7 || field != "rating" || row.Rejected > 0 {
					t.Errorf("%s: %s loses %s after %d rejections", format, id, field, row.Rejected)
				}
				said++
			})
			l.read(records(t, format, 20), 20)
			if said != want || len(l.schemas.Lost()) != want {
				t.Errorf("%s, %s: said %d times, %v", format, kind, said, l.schemas.Lost())
			}
		}
	}
}

// TestChangedSchema: the same ID with another text at the registry halts the partition in front of the first record
// that would be read by the old one, and says what is different.
func TestChangedSchema(t *testing.T) {
	list := records(t, event.FormatAvro, 60)
	l := newLife(t)
	l.read(list, 20)
	l.registry.schemas["/schemas/ids/7"] = map[string]any{"schema": swapped}
	for range 2 { // each start compares
		l.open()
		why := l.read(list, 40)
		for _, part := range []string{"schema 7", l.registry.URL, "SHA-256", "kafka.schema_registry.url"} {
			if !strings.Contains(why, part) {
				t.Errorf("%q does not name %s", why, part)
			}
		}
		l.account(20, 0)
	}
	// Spaces and the order of members are no other text.
	l.registry.schemas["/schemas/ids/7"] = map[string]any{
		"schema": " " + strings.Replace(avroRating, `"type":"record","name":"Rating"`, `"name": "Rating", "type": "record"`, 1)}
	l.open()
	if why := l.read(list, 60); why != "" {
		t.Error(why)
	}
	l.account(60, 0)
}

// TestChangedWhileRunning: a running daemon compares once an hour, and when bytes do not fit; a registry that is away
// holds nothing up.
func TestChangedWhileRunning(t *testing.T) {
	list := records(t, event.FormatAvro, 60)
	l := newLife(t)
	l.read(list, 20)
	l.registry.away.Store(true)
	l.open()
	if why := l.read(list, 30); why != "" {
		t.Error(why)
	}
	l.account(30, 0)
	l.registry.away.Store(false)
	l.registry.schemas["/schemas/ids/7"] = map[string]any{"schema": swapped}
	if why := l.read(list, 31); why != "" {
		t.Errorf("compared before the time: %s", why)
	}
	hour := func() {
		l.schemas.Age(framing.ID{Kind: framing.NumberID, Number: 7}, formats.CompareEvery)
	}
	why := ""
	for deadline := time.Now().Add(20 * time.Second); why == "" && time.Now().Before(deadline); {
		hour()
		l.next = 31 // the same records again, until the answer is here
		why = l.read(list, 40)
		time.Sleep(time.Millisecond)
	}
	if !strings.Contains(why, "SHA-256") {
		t.Errorf("not compared after an hour: %q", why)
	}
}

// TestDoubt: bytes that do not fit their schema are not rejected before the registry was asked whether the schema is
// still the same.
func TestDoubt(t *testing.T) {
	for name, c := range map[string]struct {
		answer   map[string]any
		away     bool
		rejected int64
	}{
		"another schema": {answer: map[string]any{"schema": `"string"`}},
		"another format": {answer: map[string]any{"schema": protoItem, "schemaType": "PROTOBUF"}},
		"the same":       {answer: map[string]any{"schema": avroRating}, rejected: 1},
		"away":           {away: true, rejected: 1},
	} {
		list := records(t, event.FormatAvro, 30)
		list[20].Value = list[20].Value[:len(list[20].Value)-1]
		l := newLife(t)
		l.read(list, 10)
		l.registry.schemas["/schemas/ids/7"] = c.answer
		l.registry.away.Store(c.away)
		l.schemas.Age(framing.ID{Kind: framing.NumberID, Number: 7}, formats.DoubtEvery)
		why := l.read(list, 30)
		if (why != "") != (c.rejected == 0) {
			t.Errorf("%s: %q", name, why)
		}
		if c.rejected == 0 {
			l.account(20, 0)
		} else {
			l.account(29, 1)
		}
	}
}

// TestDifference: what is another schema, and what is another way to write the same.
func TestDifference(t *testing.T) {
	item := []event.Reference{{Name: "shop/item.proto", Text: protoItem}}
	proto := event.Writer{Format: event.FormatProtobuf, Text: protoRating, References: item}
	for name, c := range map[string]struct {
		a, b event.Writer
		same bool
	}{
		"the same": {proto, proto, true},
		"written out otherwise": {proto, event.Writer{Format: event.FormatProtobuf, References: item,
			Text: strings.ReplaceAll(protoRating, ";", ";\n\n // no more\n")}, true},
		"another number": {proto, event.Writer{Format: event.FormatProtobuf, References: item,
			Text: strings.Replace(protoRating, "rating = 3", "rating = 5", 1)}, false},
		"another reference": {proto, event.Writer{Format: event.FormatProtobuf, Text: protoRating,
			References: []event.Reference{{Name: "shop/item.proto", Text: strings.Replace(protoItem, "id = 1", "id = 2", 1)}}},
			false},
		"no schema": {proto, event.Writer{Format: event.FormatProtobuf, Text: "message"}, false},
		"another default": {event.Writer{Format: event.FormatAvro, Text: `{"a":1}`},
			event.Writer{Format: event.FormatAvro, Text: `{"a":2}`}, false},
		"spaces": {event.Writer{Format: event.FormatJSONSchema, Text: `{"a":1,"b":2}`},
			event.Writer{Format: event.FormatJSONSchema, Text: `{"b":2, "a":1}`}, true},
	} {
		if what := formats.Difference(&c.a, &c.b); (what == "") != c.same {
			t.Errorf("%s: %q", name, what)
		}
	}
}

// stuck is a registry that takes requests and answers none.
type stuck struct{ requests atomic.Int64 }

func (s *stuck) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requests.Add(1)
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestStuckRegistry: a registry that answers nothing holds a start up once, for the time of one request, however many
// schemas the state has.
func TestStuckRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &away{schemas: make(map[string]map[string]any)}
		list := records(t, event.FormatAvro, 40)
		for i := range list {
			list[i].Value[4] = byte(1 + i)
			a.schemas[fmt.Sprint("/schemas/ids/", 1+i)] = map[string]any{"schema": avroRating}
		}
		l := &life{t: t, model: ingesttest.Ratings(500), kafka: new(config.Kafka), transport: a,
			onPause: func() { time.Sleep(10 * time.Millisecond) }}
		l.model.Input.Format, l.model.Input.FromRegistry = event.FormatAvro, true
		l.store = begun(t, l.model)
		defer l.store.Close()
		l.open()
		list[39].Value[4] = 20
		if why := l.read(list, 39); why != "" {
			t.Fatal(why)
		}
		s := new(stuck)
		l.transport = s
		l.open()
		l.next = 0 // the same records again
		began := time.Now()
		if why := l.read(list, 40); why != "" {
			t.Fatal(why)
		}
		if took := time.Since(began); took < time.Second || took > 1100*time.Millisecond || s.requests.Load() != 1 {
			t.Errorf("%v and %d requests", took, s.requests.Load())
		}
		l.schemas.Close()
	})
}
