package avro

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/avro"

	"github.com/refitd/refitd/consumer/event"
)

var ratings = event.Schema{
	Task:        event.Regression,
	Label:       "rating",
	Time:        "ts",
	TimeUnit:    "ms",
	Categorical: []string{"user", "item"},
	Numeric:     []string{"price"},
	Multi:       []string{"tags"},
	Optional:    []string{"price", "tags"},
}

// place says where the fields are that are not members of the value.
func place(t testing.TB, fields ...string) *event.Mapping {
	t.Helper()
	m := new(event.Mapping)
	for _, text := range fields {
		name, path, _ := strings.Cut(text, "=")
		from, err := event.ParseSource(path)
		if err != nil {
			t.Fatal(err)
		}
		m.Fields = append(m.Fields, event.MappedField{Name: name, From: from})
	}
	return m
}

// known are the schemas of a registry.
type known map[event.ID]*event.Writer

func (k known) Writer(id event.ID) *event.Writer { return k[id] }

// decoderOf returns a decoder of values in Avro.
func decoderOf(m *event.Mapping, writers event.Writers, fixed *event.Writer) *event.Mapped {
	d := event.NewMapped(ratings, event.DefaultLimits(), m, nil)
	d.Read(event.Reading{Format: event.FormatAvro, Writers: writers, Fixed: fixed,
		Compilers: map[string]event.Compiler{event.FormatAvro: Compile}})
	return d
}

func written(text string) *event.Writer { return &event.Writer{Format: event.FormatAvro, Text: text} }

// confluent puts a value into the frame of schema 7.
func confluent(value []byte) []byte { return append([]byte{0, 0, 0, 0, 7}, value...) }

var seven = event.ID{Kind: event.NumberID, Number: 7}

// evolution is a schema of a writer.
type evolution struct {
	rng    *rand.Rand
	fields []string
}

// one returns one of the types that a field of the model may have, and a value of it.
func (e *evolution) one(name string) (schema string, value any) {
	r := e.rng
	switch name {
	case "rating":
		n := r.IntN(5) + 1
		switch r.IntN(6) {
		case 0:
			return `"int"`, int32(n)
		case 1:
			return `"long"`, int64(n)
		case 2:
			return `"float"`, float32(n) + 0.5
		case 3:
			return `{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}`, big.NewRat(int64(n*100+25), 100)
		case 4:
			return fmt.Sprintf(`{"type":"fixed","name":"F%d","size":5,"logicalType":"decimal","precision":9,"scale":1}`,
				r.IntN(1e9)), big.NewRat(int64(-n*10+5), 10)
		}
		return `"double"`, float64(n) + 0.25
	case "ts":
		at := time.UnixMicro(1_700_000_000_000_000 + r.Int64N(1e12)*2).UTC()
		switch r.IntN(5) {
		case 0:
			return `"long"`, at.UnixMilli()
		case 1:
			return `{"type":"long","logicalType":"timestamp-micros"}`, at
		case 2:
			return `{"type":"long","logicalType":"timestamp-nanos"}`, at
		case 3:
			return `{"type":"int","logicalType":"date"}`, at.Truncate(24 * time.Hour)
		}
		return `{"type":"long","logicalType":"timestamp-millis"}`, at.Truncate(time.Millisecond)
	case "user", "item":
		switch r.IntN(5) {
		case 0:
			return `"long"`, math.MaxInt64 - int64(r.IntN(1000)) // above 2^53
		case 1:
			return `"int"`, int32(r.IntN(2000) - 1000)
		case 2:
			return fmt.Sprintf(`{"type":"enum","name":"E%d","symbols":["a","bb","ccc"]}`, r.IntN(1e9)),
				[]string{"a", "bb", "ccc"}[r.IntN(3)]
		case 3:
			return `{"type":"string","logicalType":"uuid"}`, fmt.Sprintf("00000000-0000-0000-0000-%012d", r.IntN(1e9))
		}
		return `"string"`, fmt.Sprintf("n%d", r.IntN(1000))
	case "price":
		return `"double"`, math.Round(r.Float64()*1e6) / 64
	}
	list := []any{}
	for range r.IntN(4) {
		list = append(list, fmt.Sprintf("t%d", r.IntN(3)))
	}
	return `{"type":"array","items":"string"}`, list
}

// other returns a type that nobody asks for, and a value of it.
func (e *evolution) other(depth int) (schema string, value any) {
	r := e.rng
	switch n := r.IntN(9); {
	case n == 0:
		return `"boolean"`, r.IntN(2) == 0
	case n == 1:
		return `"bytes"`, []byte{1, 2, byte(r.IntN(256))}
	case n == 2 && depth < 3:
		s, v := e.other(depth + 1)
		return `{"type":"array","items":` + s + `}`, []any{v, v}
	case n == 3 && depth < 3:
		s, v := e.other(depth + 1)
		return `{"type":"map","values":` + s + `}`, map[string]any{"k": v, "user": v}
	case n == 4 && depth < 3:
		s, v := e.other(depth + 1)
		return fmt.Sprintf(`{"type":"record","name":"R%d","fields":[{"name":"user","type":%s}]}`, r.IntN(1e9), s),
			map[string]any{"user": v}
	case n == 5:
		return `["null","long"]`, []any{nil, int64(r.IntN(1000))}[r.IntN(2)]
	case n == 6:
		return `"float"`, float32(r.IntN(1000))
	case n == 7:
		return `"null"`, nil
	}
	return `"string"`, strings.Repeat("x", r.IntN(200))
}

// field adds a field.
func (e *evolution) field(name, schema string, value any, values map[string]any) string {
	if e.rng.IntN(4) == 0 && !strings.HasPrefix(schema, "[") && schema != `"null"` {
		schema = `["null",` + schema + `]`
	}
	values[name] = value
	return fmt.Sprintf(`{"name":%q,"type":%s}`, name, schema)
}

// newEvolution returns a schema in which the fields of the model are in any order, among others, the item in a record
// within, the price maybe gone, and the user maybe by another name.
func newEvolution(seed uint64) (text, user string, value map[string]any) {
	e := &evolution{rng: rand.New(rand.NewPCG(seed, 1))}
	value = make(map[string]any)
	user = []string{"user", "customer"}[e.rng.IntN(2)]
	for _, name := range []string{"rating", "ts", "user", "price", "tags"} {
		if e.rng.IntN(3) == 0 && (name == "price" || name == "tags") {
			continue
		}
		schema, v := e.one(name)
		if name == "user" {
			name = user
		}
		e.fields = append(e.fields, e.field(name, schema, v, value))
	}
	inner := make(map[string]any)
	schema, v := e.one("item")
	within := []string{e.field("item", schema, v, inner)}
	for i := range e.rng.IntN(4) {
		schema, v := e.other(0)
		e.fields = append(e.fields, e.field(fmt.Sprintf("other%d", i), schema, v, value))
		schema, v = e.other(0)
		within = append(within, e.field(fmt.Sprintf("more%d", i), schema, v, inner))
	}
	e.rng.Shuffle(len(within), func(i, j int) { within[i], within[j] = within[j], within[i] })
	e.fields = append(e.fields, e.field("what", `{"type":"record","name":"What","fields":[`+strings.Join(within, ",")+`]}`,
		inner, value))
	e.rng.Shuffle(len(e.fields), func(i, j int) { e.fields[i], e.fields[j] = e.fields[j], e.fields[i] })
	return `{"type":"record","name":"Rating","namespace":"shop","fields":[` + strings.Join(e.fields, ",") + `]}`, user, value
}

// slow writes what the library made of a value as JSON.
func slow(x any) string {
	switch x := x.(type) {
	case nil:
		return "null"
	case map[string]any:
		var members []string
		for name, v := range x {
			members = append(members, strconv.Quote(name)+":"+slow(v))
		}
		slices.Sort(members)
		return "{" + strings.Join(members, ",") + "}"
	case []any:
		var list []string
		for _, v := range x {
			list = append(list, slow(v))
		}
		return "[" + strings.Join(list, ",") + "]"
	case time.Time:
		return strconv.FormatFloat(float64(x.UnixMicro())/1000, 'f', -1, 64)
	case json.Number:
		return x.String()
	case *big.Rat:
		return x.FloatString(2)
	case big.Rat:
		return x.FloatString(2)
	case float32:
		return strconv.FormatFloat(float64(x), 'g', -1, 64)
	}
	b, err := json.Marshal(x)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// TestEvolutions: of 1,000 random schemas of writers, each event is what the library and the JSON decoder make of it.
func TestEvolutions(t *testing.T) {
	m := place(t, "user=user", "item=what.item")
	for seed := range uint64(1000) {
		text, user, value := newEvolution(seed)
		schema, err := avro.Parse(text)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		data, err := schema.Encode(value)
		if err != nil {
			t.Fatalf("%v: %s of %v", err, text, value)
		}
		var fixed *event.Writer
		if user != "user" {
			// The reader's schema has the field by its old name, and knows the new one; nothing else.
			fixed = written(`{"type":"record","name":"Rating","namespace":"shop","fields":[
				{"name":"user","type":"string","aliases":["customer"]}]}`)
		}
		var got, want event.Event
		rejection, wait := decoderOf(m, known{seven: written(text)}, fixed).
			DecodeRecord(&got, &event.Record{Value: confluent(data), Time: 5})
		if rejection != nil || wait != nil {
			t.Fatalf("seed %d: %v, %v: %s of %v", seed, rejection, wait, text, value)
		}
		var back map[string]any
		if _, err := schema.Decode(data, &back); err != nil {
			t.Fatal(err)
		}
		back["user"] = back[user]
		object := slow(back)
		if r, _ := event.NewMapped(ratings, event.DefaultLimits(), m, nil).
			DecodeRecord(&want, &event.Record{Value: []byte(object), Time: 5}); r != nil {
			t.Fatalf("seed %d: %v: %s", seed, r, object)
		}
		if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
			t.Fatalf("seed %d: %#v, want %#v of %s, %s", seed, got, want, object, text)
		}
		for cut := range len(data) { // nothing that is cut off is an event
			if r, _ := decoderOf(m, known{seven: written(text)}, fixed).
				DecodeRecord(&got, &event.Record{Value: confluent(data[:cut]), Time: 5}); r == nil && seed < 20 {
				t.Fatalf("seed %d: cut at %d of %d: an event", seed, cut, len(data))
			}
			if seed >= 20 {
				break
			}
		}
	}
}
