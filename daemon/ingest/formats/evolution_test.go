package formats_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/avro"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/eventtest"
	"github.com/refitd/refitd/consumer/registry"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
	"github.com/refitd/refitd/sketch"
)

// rated is an event of which every schema of an evolution has what it can.
type rated struct {
	user, item, level string
	rating            int
	ts                int64
	price             float64
	tags              []any
}

func newRated(r *rand.Rand) *rated {
	e := &rated{user: fmt.Sprint("u", r.IntN(30)), item: fmt.Sprint("i", r.IntN(20)), rating: 1 + r.IntN(5),
		ts: 1_700_000_000_000 + r.Int64N(1e8), price: float64(r.IntN(80)) / 8, level: levels[r.IntN(len(levels))]}
	e.tags = []any{}
	for range r.IntN(4) {
		e.tags = append(e.tags, fmt.Sprint("t", r.IntN(5)))
	}
	return e
}

var levels = []string{"low", "high", "huge"}

// evolvedModel is a model of rated events.
func evolvedModel() *config.Model {
	m := ingesttest.Ratings(200)
	m.Schema = config.Schema{Task: "regression", Label: "rating", Time: "ts", TimeUnit: "ms",
		Categorical: []string{"user", "item", "level", "before"}, Numeric: []string{"price"}, Multi: []string{"tags"},
		Optional: []string{"level", "price", "tags", "before"}}
	m.Input.Mapping.Fields = []config.MappedField{{Name: "item", Path: "what.item"}, {Name: "before", Path: "prior.item"}}
	m.Resolve()
	return m
}

// evolvedReader is the reader's schema of all writers. Of ts the writer says the unit, which the library does not
// resolve: timeless is the reader without it.
const (
	timeless = `{"type":"record","name":"R","namespace":"shop","fields":[
		{"name":"user","type":["string","null"],"aliases":["who","uid"]},
		{"name":"rating","type":"double","aliases":["stars"]},
		{"name":"price","type":["null","double"],"default":null},
		{"name":"tags","type":{"type":"array","items":["string","null"]},"default":["none"]},
		{"name":"level","type":{"type":"enum","name":"L","symbols":["low","high","other"],"default":"other"},"default":"low"},
		{"name":"what","type":["null",{"type":"record","name":"W","fields":[
			{"name":"item","type":"string","aliases":["sku"]}]}],"default":null},
		{"name":"prior","type":["null","W"],"default":null}`
	evolvedReader = timeless + `,{"name":"ts","type":{"type":"long","logicalType":"timestamp-millis"},"aliases":["at"]}]}`
)

// avroField is a field of a writer.
type avroField struct {
	of, name string // what it is, and how the writer calls it
	schema   string
	value    func(e *rated) any
}

// avroWriter is the schema of a producer, which evolves.
type avroWriter struct {
	r      *rand.Rand
	fields []avroField
	types  int // named ones, since no name may be there twice
}

// newAvroWriter returns the first schema of a producer.
func newAvroWriter(r *rand.Rand) *avroWriter {
	w := &avroWriter{r: r}
	for _, of := range []string{"user", "what", "rating", "ts", "price", "tags", "level"} {
		w.fields = append(w.fields, w.field(of))
	}
	return w
}

func (w *avroWriter) pick(list ...string) string { return list[w.r.IntN(len(list))] }

// field returns one of the ways to write a field.
func (w *avroWriter) field(of string) avroField {
	f := avroField{of: of, name: of}
	switch of {
	case "user":
		f.name = w.pick("user", "who", "uid")
		f.schema = w.pick(`"string"`, `["null","string"]`, `["string","null"]`, `{"type":"string","logicalType":"uuid"}`)
		f.value = func(e *rated) any { return e.user }
	case "what":
		f.schema, f.value = w.what()
	case "rating":
		f.name = w.pick("rating", "stars")
		switch w.r.IntN(4) {
		case 0:
			f.schema, f.value = `"int"`, func(e *rated) any { return int32(e.rating) }
		case 1:
			f.schema, f.value = `"long"`, func(e *rated) any { return int64(e.rating) }
		case 2:
			f.schema, f.value = `"float"`, func(e *rated) any { return float32(e.rating) }
		default:
			f.schema, f.value = `"double"`, func(e *rated) any { return float64(e.rating) }
		}
	case "ts":
		f.name = w.pick("ts", "at")
		unit := w.pick("millis", "micros", "nanos")
		f.schema = `{"type":"long","logicalType":"timestamp-` + unit + `"}`
		if unit == "millis" && w.r.IntN(2) == 0 {
			f.schema = `"long"`
		}
		scale := map[string]int64{"millis": 1, "micros": 1e3, "nanos": 1e6}[unit]
		f.value = func(e *rated) any { return e.ts * scale }
	case "price":
		f.schema = w.pick(`["null","double"]`, `["double","null"]`, `"double"`)
		f.value = func(e *rated) any { return e.price }
	case "tags":
		f.schema = w.pick(`{"type":"array","items":"string"}`, `{"type":"array","items":["string","null"]}`)
		f.value = func(e *rated) any { return e.tags }
	case "level":
		symbols := slices.Clone(levels)
		w.r.Shuffle(len(symbols), func(i, j int) { symbols[i], symbols[j] = symbols[j], symbols[i] })
		f.schema = `{"type":"enum","name":"L","symbols":["` + strings.Join(symbols, `","`) + `"]}`
		f.value = func(e *rated) any { return e.level }
	default:
		var value any
		f.schema, value = w.other(0)
		f.value = func(*rated) any { return value }
	}
	return f
}

// what returns the record that has the item.
func (w *avroWriter) what() (schema string, value func(*rated) any) {
	name, kind := w.pick("item", "sku"), w.pick(`"string"`, `"bytes"`)
	other, data := w.other(1)
	fields := []string{fmt.Sprintf(`{"name":%q,"type":%s}`, name, kind), `{"name":"more","type":` + other + `}`}
	if w.r.IntN(2) == 0 {
		slices.Reverse(fields)
	}
	schema = `{"type":"record","name":"W","fields":[` + strings.Join(fields, ",") + `]}`
	switch w.r.IntN(3) {
	case 0:
		schema = `["null",` + schema + `]`
	case 1:
		schema = `[` + schema + `,"null"]`
	}
	return schema, func(e *rated) any {
		if kind == `"bytes"` {
			return map[string]any{name: []byte(e.item), "more": data}
		}
		return map[string]any{name: e.item, "more": data}
	}
}

// other returns a type that the reader does not have, and a value of it.
func (w *avroWriter) other(depth int) (schema string, value any) {
	w.types++
	switch n := w.r.IntN(9); {
	case n == 0:
		return `"boolean"`, w.r.IntN(2) == 0
	case n == 1:
		return `"bytes"`, []byte{1, byte(w.r.IntN(256))}
	case n == 2 && depth < 3:
		s, v := w.other(depth + 1)
		return `{"type":"array","items":` + s + `}`, []any{v, v}
	case n == 3 && depth < 3:
		s, v := w.other(depth + 1)
		return `{"type":"map","values":` + s + `}`, map[string]any{"user": v, "k": v}
	case n == 4 && depth < 3:
		t := w.types
		s, v := w.other(depth + 1)
		return fmt.Sprintf(`{"type":"record","name":"T%d","fields":[{"name":"user","type":%s}]}`, t, s), map[string]any{"user": v}
	case n == 5:
		return `["null","long"]`, []any{nil, int64(w.r.IntN(1000))}[w.r.IntN(2)]
	case n == 6:
		return `{"type":"int","logicalType":"date"}`, int32(w.r.IntN(20_000))
	case n == 7:
		return fmt.Sprintf(`{"type":"fixed","name":"F%d","size":3}`, w.types), []byte{1, 2, byte(w.r.IntN(256))}
	}
	return `"string"`, fmt.Sprint("o", w.r.IntN(100))
}

// evolve changes the schema a little.
func (w *avroWriter) evolve() {
	for range 1 + w.r.IntN(3) {
		i := w.r.IntN(len(w.fields))
		of := w.fields[i].of
		switch n := w.r.IntN(6); {
		case n == 0: // a new field
			w.types++
			name := fmt.Sprint("other", w.types)
			f := w.field("other")
			f.name = name
			w.fields = slices.Insert(w.fields, i, f)
		case n == 1: // what is not needed is removed
			if of == "other" || of == "price" || of == "tags" || of == "level" {
				w.fields = slices.Delete(w.fields, i, i+1)
			}
		case n == 2: // what was removed is there again
			for _, of := range []string{"price", "tags", "level"} {
				if !slices.ContainsFunc(w.fields, func(f avroField) bool { return f.of == of }) {
					w.fields = slices.Insert(w.fields, i, w.field(of))
				}
			}
		case n == 3:
			w.r.Shuffle(len(w.fields), func(i, j int) { w.fields[i], w.fields[j] = w.fields[j], w.fields[i] })
		case of != "other": // another name or another type
			w.fields[i] = w.field(of)
		}
	}
}

// written returns the schema as it is, and how events are written and read by it.
func (w *avroWriter) written(t *testing.T) *writtenBy {
	t.Helper()
	var fields []string
	now := slices.Clone(w.fields)
	for _, f := range w.fields {
		fields = append(fields, fmt.Sprintf(`{"name":%q,"type":%s}`, f.name, f.schema))
	}
	if i := w.r.IntN(4); i < 3 { // a type by its name, short or full
		what := w.fields[slices.IndexFunc(w.fields, func(f avroField) bool { return f.of == "what" })].value
		name := []string{"W", "shop.W", "W"}[i]
		fields = append(fields, `{"name":"prior","type":["null","`+name+`"]}`)
		now = append(now, avroField{name: "prior", value: func(e *rated) any {
			if e.rating < 3 {
				return nil
			}
			return what(e)
		}})
	}
	text := `{"type":"record","name":"R","namespace":"shop","fields":[` + strings.Join(fields, ",") + `]}`
	own := avro.MustParse(text)
	resolved, err := avro.Resolve(own, avro.MustParse(timeless+"]}"))
	if err != nil {
		t.Fatalf("the library does not resolve %s: %v", text, err)
	}
	return &writtenBy{answer: map[string]any{"schema": text}, encode: func(e *rated) []byte {
		value := make(map[string]any)
		for _, f := range now {
			value[f.name] = f.value(e)
		}
		data, err := own.Encode(value)
		if err != nil {
			t.Fatalf("%v of %s", err, text)
		}
		return data
	}, slow: func(e *rated, data []byte) []byte {
		var value map[string]any
		if _, err := resolved.Decode(data, &value); err != nil {
			t.Fatalf("the library reads nothing: %v of %s", err, text)
		}
		value["ts"] = e.ts
		if what, _ := value["what"].(map[string]any); what["item"] != e.item || value["user"] != e.user {
			t.Fatalf("the library reads %v of %s", value, text)
		}
		object, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return object
	}}
}

// writtenBy is a schema of a writer.
type writtenBy struct {
	answer map[string]any // of the registry
	encode func(e *rated) []byte
	slow   func(e *rated, data []byte) []byte // the JSON that the library makes of it
}

// away is a registry without a network.
type away struct {
	schemas map[string]map[string]any
	gone    atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (a *away) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.gone.Load() {
		return nil, fmt.Errorf("no route to %s", r.URL.Host)
	}
	w := httptest.NewRecorder()
	answer, ok := a.schemas[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
	}
	_ = json.NewEncoder(w).Encode(answer)
	return w.Result(), nil
}

// lived is what the registry and the process went through.
type lived struct{ waits, starts, gone int }

// live reads a history with a registry that is away at random, and a process that ends at random. It returns the state.
func live(t *testing.T, r *rand.Rand, m *config.Model, a *away, list []consumer.Record, seen *lived) *sketch.State {
	t.Helper()
	store := begun(t, m)
	defer store.Close()
	l := &life{t: t, model: m, kafka: new(config.Kafka), store: store}
	l.transport = a
	l.open()
	for l.next < int64(len(list)) {
		if r.IntN(3) == 0 {
			l.open()
			seen.starts++
		}
		if a.gone.Store(r.IntN(2) == 0); a.gone.Load() {
			seen.gone++
		}
		end := min(l.next+1+r.Int64N(20), int64(len(list)))
		l.onPause = func() {
			seen.waits++
			time.Sleep(time.Second)
			a.gone.Store(a.gone.Load() && r.IntN(4) > 0)
		}
		if why := l.read(list, end); why != "" {
			t.Fatal(why)
		}
	}
	l.schemas.Close()
	if err := store.Check(); err != nil {
		t.Error(err)
	}
	state, err := store.State()
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// evolutions reads the histories of n producers whose schemas evolve, and compares each with the same events as JSON.
func evolutions(t *testing.T, format string, n uint64, newWriter func(r *rand.Rand) (evolve func(),
	written func(*testing.T) *writtenBy)) {
	var seen lived
	events := 0
	for _, seed := range eventtest.Seeds(n) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 53))
			a := &away{schemas: make(map[string]map[string]any)}
			evolve, written := newWriter(r)
			var by []*writtenBy
			var framed, plain []consumer.Record
			for k := range 60 {
				if k%12 == 0 {
					if k > 0 {
						evolve()
					}
					by = append(by, written(t))
					maps.Copy(a.schemas, map[string]map[string]any{
						fmt.Sprint("/schemas/ids/", 10+len(by)-1): by[len(by)-1].answer})
				}
				at := max(0, len(by)-1-r.IntN(2)) // of two producers, one is older
				e := newRated(r)
				data := by[at].encode(e)
				record := consumer.Record{Offset: int64(k), Timestamp: e.ts, CRC: uint32(k)}
				record.Value = by[at].slow(e, data)
				plain = append(plain, record)
				record.Value = append([]byte{0, 0, 0, 0, byte(10 + at)}, data...)
				framed = append(framed, record)
			}
			m := evolvedModel()
			want := live(t, r, m, a, plain, &lived{})
			m.Input.Format, m.Input.FromRegistry = format, true
			if format == event.FormatAvro {
				m.Input.Written = &event.Writer{Format: format, Text: evolvedReader}
			}
			got := live(t, r, m, a, framed, &seen)
			p, q := got.Partitions[0], want.Partitions[0]
			if q.Applied != 60 {
				t.Fatalf("seed %d: of JSON %d applied, %v", seed, q.Applied, want.RejectedByReason)
			}
			if p.Applied != q.Applied || p.Rejected != 0 || got.SampleDigest != want.SampleDigest || p.Digest != q.Digest {
				t.Fatalf("seed %d: %d applied, %d rejected (%v), digests %v %v, want %v %v", seed, p.Applied, p.Rejected,
					got.RejectedByReason, got.SampleDigest, p.Digest, want.SampleDigest, q.Digest)
			}
			events += len(framed)
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d events of %d producers; %d waits, %d starts, %d times away", events, n, seen.waits, seen.starts, seen.gone)
	if seen.waits == 0 || seen.starts == 0 || seen.gone == 0 {
		t.Error("nothing happened to the registry")
	}
}

// numEvolutions is how many random evolutions are tried. The race detector sees the same goroutines in each.
func numEvolutions() uint64 {
	if tier.UnderRace() {
		return 5
	}
	return uint64(tier.Size(40, 1000))
}

// TestAvroEvolutions: of the events of random producers whose Avro schemas evolve, none is rejected that the library
// resolves, and the sample and the ledger are those of the JSON that the library makes of them.
func TestAvroEvolutions(t *testing.T) {
	evolutions(t, event.FormatAvro, numEvolutions(),
		func(r *rand.Rand) (func(), func(*testing.T) *writtenBy) {
			w := newAvroWriter(r)
			return w.evolve, w.written
		})
}

// TestTenMinutesAway: a start with a registry that is away for ten minutes rejects nothing, reads on within the longest
// wait after that, and does not ask more often than it should.
func TestTenMinutesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &away{schemas: map[string]map[string]any{"/schemas/ids/7": {"schema": avroRating}}}
		a.gone.Store(true)
		m := ingesttest.Ratings(500)
		m.Input.Format, m.Input.FromRegistry = event.FormatAvro, true
		store := begun(t, m)
		defer store.Close()
		l := &life{t: t, model: m, kafka: new(config.Kafka), store: store, transport: a}
		l.open()
		began := time.Now()
		l.onPause = func() {
			time.Sleep(time.Second)
			a.gone.Store(time.Since(began) < 10*time.Minute)
		}
		if why := l.read(records(t, event.FormatAvro, 40), 40); why != "" {
			t.Fatal(why)
		}
		took := time.Since(began)
		if took < 10*time.Minute || took > 11*time.Minute {
			t.Errorf("read after %v", took)
		}
		if _, requests, _ := l.schemas.Known(); requests > 60 {
			t.Errorf("%d requests in %v", requests, took)
		}
		l.account(40, 0)
		l.schemas.Close()
	})
}

var _ http.RoundTripper = (*away)(nil)

// ask is the registry of a life without a network.
func (l *life) ask() {
	l.schemas.Ask(registry.New(registry.Options{URL: "http://registry", Timeout: time.Second,
		MaxBytes: sketch.MaxSchemaBytes, Transport: l.transport}))
}
