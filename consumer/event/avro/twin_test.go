package avro

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/avro"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/eventtest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// asked is a place that a model may ask for, and what for.
type asked struct {
	path []string
	as   string // name, number, list or time
	odd  bool   // some of its values are not that
}

// isTime reports whether a type may be a time. As names and numbers these are numbers of the writer's unit, which the
// library does not have.
func isTime(t *wildType) bool {
	return strings.Contains(t.kind, "time") || t.kind == "date" || t.kind == "union" && slices.ContainsFunc(t.of, isTime)
}

// isReal reports whether a type may be a number that is no name, or a decimal, which is text as a name.
func isReal(t *wildType) bool {
	return strings.Contains(t.kind, "decimal") || t.kind == "float" || t.kind == "double" ||
		t.kind == "union" && slices.ContainsFunc(t.of, isReal)
}

// fits reports whether each value of a type may be asked for as something.
func fits(t *wildType, as string) bool {
	isNumber := isReal(t) || t.kind == "int" || t.kind == "long"
	switch t.kind {
	case "null":
		return as != "time"
	case "boolean", "record", "map":
		return false
	case "array":
		return as == "list" && fits(t.of[0], "name")
	}
	return as == "time" && isTime(t) || as == "number" && isNumber || as == "name" && !isReal(t)
}

// places lists what a model may ask for in a type.
func places(t *wildType, path []string, list []asked) []asked {
	if len(path) > 4 {
		return list
	}
	kinds := []*wildType{t}
	if t.kind == "union" {
		kinds = t.of
	}
	from := len(list)
	for _, b := range kinds {
		if isTime(t) && b.kind != "record" && b.kind != "map" {
			if !slices.ContainsFunc(kinds, func(b *wildType) bool { return strings.HasPrefix(b.kind, "time-") }) {
				list = append(list, asked{path: path, as: "time"})
			}
			continue
		}
		switch b.kind {
		case "record":
			for _, f := range b.fields {
				list = places(f.of, append(slices.Clone(path), f.name), list)
			}
		case "map":
			for _, key := range []string{"k", "a.b"} {
				list = places(b.of[0], append(slices.Clone(path), key), list)
			}
		case "array":
			if !isTime(b.of[0]) && !isReal(b.of[0]) {
				list = append(list, asked{path: path, as: "list"})
			}
		case "int", "long", "float", "double", "decimal", "fixed-decimal":
			if len(kinds) == 1 && (b.kind == "int" || b.kind == "long") {
				list = append(list, asked{path: path, as: "name"})
			}
			list = append(list, asked{path: path, as: "number"})
		case "string", "bytes", "fixed", "enum", "uuid", "fixed-uuid", "duration", "boolean":
			if !isReal(t) {
				list = append(list, asked{path: path, as: "name"})
			}
		}
	}
	for i := range list[from:] {
		a := &list[from+i]
		a.odd = a.odd || len(a.path) == len(path) &&
			slices.ContainsFunc(kinds, func(b *wildType) bool { return !fits(b, a.as) })
	}
	return list
}

// wildModel is a schema and a mapping that ask for some places.
func wildModel(r *rand.Rand, list []asked) (s event.Schema, m *event.Mapping, err error) {
	s, m = event.Schema{Task: event.Regression, TimeUnit: "ms"}, new(event.Mapping)
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for i, a := range list {
		name := fmt.Sprint(a.as, i)
		switch {
		case a.odd && r.IntN(20) > 0 || len(m.Fields) > 7:
			continue
		case a.as == "name":
			s.Categorical = append(s.Categorical, name)
		case a.as == "number":
			s.Numeric = append(s.Numeric, name)
		case a.as == "list":
			s.Multi = append(s.Multi, name)
		case s.Time != "" || r.IntN(3) > 0: // a time is not optional: most values would lack it
			continue
		default:
			s.Time = name
		}
		var quoted []string
		for _, p := range a.path {
			quoted = append(quoted, strconv.Quote(p))
		}
		from, err := event.ParseSource(strings.Join(quoted, "."))
		if err != nil {
			return s, m, err
		}
		m.Fields = append(m.Fields, event.MappedField{Name: name, From: from})
		s.Optional = append(s.Optional, name)
	}
	return s, m, nil
}

// slow writes what the library made of a value as JSON.
func slow(x any) string {
	switch x := x.(type) {
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
		return strconv.FormatFloat(float64(x.UnixNano())/1e6, 'f', -1, 64)
	case json.Number:
		return x.String()
	case *big.Rat:
		n, _ := x.FloatPrec()
		return x.FloatString(n)
	case float32:
		return strconv.FormatFloat(float64(x), 'g', -1, 64)
	case avro.Duration:
		b := binary.LittleEndian.AppendUint32(nil, x.Months)
		b = binary.LittleEndian.AppendUint32(b, x.Days)
		return slow(binary.LittleEndian.AppendUint32(b, x.Milliseconds))
	case [16]byte:
		return fmt.Sprintf(`"%x-%x-%x-%x-%x"`, x[:4], x[4:6], x[6:8], x[8:10], x[10:])
	case []byte:
		return strconv.Quote(base64.StdEncoding.EncodeToString(x))
	}
	b, err := json.Marshal(x)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// wildCase is a schema of a writer, maybe that of a reader, and a model that asks for something in it.
type wildCase struct {
	*wild
	written        *wildType
	text, readAs   string // readAs is "" without a reader's schema
	library        *avro.Schema
	mapping        *event.Mapping
	decoder, plain *event.Mapped // of Avro, and of JSON
}

// newWildCase returns a case; library is nil where it does not resolve the two schemas.
func newWildCase(t testing.TB, seed uint64) *wildCase {
	t.Helper()
	c := &wildCase{wild: &wild{r: rand.New(rand.NewPCG(seed, 9))}}
	c.written = c.record(4)
	c.text = c.wild.text(c.written, "", make(map[*wildType]bool))
	parse := func(text string) *avro.Schema {
		s, err := avro.Parse(text)
		if err != nil {
			t.Fatalf("seed %d: %v: %s", seed, err, text)
		}
		return s
	}
	c.library = parse(c.text)
	read, fixed := c.written, (*event.Writer)(nil)
	if seed%4 > 0 {
		read = c.reader(c.written, make(map[*wildType]*wildType))
		c.readAs = c.wild.text(read, "", make(map[*wildType]bool))
		fixed = written(c.readAs)
		c.library, _ = avro.Resolve(c.library, parse(c.readAs))
	}
	s, m, err := wildModel(c.r, places(read, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	longer := event.DefaultLimits()
	longer.MaxEventBytes = 1 << 24 // as JSON a value may be many times as long
	c.mapping, c.plain = m, event.NewMapped(s, longer, m, nil)
	c.decoder = event.NewMapped(s, event.DefaultLimits(), m, nil)
	c.decoder.Read(event.Reading{Format: event.FormatAvro, Writers: known{seven: written(c.text)}, Fixed: fixed,
		Compilers: map[string]event.Compiler{event.FormatAvro: Compile}})
	return c
}

// TestWild: of random schemas of writers and of readers, each event is what the library and the JSON decoder make of
// it: whatever types are within types, themselves too, and whatever became of them. What is cut off is no event.
func TestWild(t *testing.T) {
	const now = 5_000_000_000_000
	var events, unresolved int
	rejected := make(map[event.Reason]int)
	for _, seed := range eventtest.Seeds(tier.Size[uint64](600, 50_000)) {
		c := newWildCase(t, seed)
		if c.library == nil {
			unresolved++
			continue
		}
		for range 2 {
			data := c.value(nil, c.written, 5)
			var back any
			if _, err := c.library.Decode(data, &back); err != nil {
				t.Fatalf("seed %d: the library: %v", seed, err)
			}
			object := slow(back)
			var got, want event.Event
			r, wait := c.decoder.DecodeRecord(&got, &event.Record{Value: confluent(data), Time: now})
			other, _ := c.plain.DecodeRecord(&want, &event.Record{Value: []byte(object), Time: now})
			if events++; r != nil {
				rejected[r.Reason]++
			}
			if wait != nil || reason(r) != reason(other) || r == nil && fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
				t.Fatalf("seed %d: %v, %v, %#v,\nwant %v, %#v of %s,\n%s,\nread as %s,\n%+v", seed, r, wait, got, other, want,
					object, c.text, c.readAs, c.mapping.Fields)
			}
			for cut := range data[:min(len(data), 40)] {
				r, _ := c.decoder.DecodeRecord(&got, &event.Record{Value: confluent(data[:cut]), Time: now})
				if reason(r) != "not_avro" {
					t.Fatalf("seed %d: cut at %d of %d: %v", seed, cut, len(data), r)
				}
			}
		}
	}
	t.Logf("%d events, %v rejected alike; %d schemas do not resolve", events, rejected, unresolved)
}
