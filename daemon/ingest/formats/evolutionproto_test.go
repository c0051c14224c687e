package formats_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/protobuf"
)

// protoWriter is the schema of a producer in Protobuf, which evolves.
type protoWriter struct {
	r      *rand.Rand
	fields []protoField
	name   string   // of the message
	before []string // messages in front of it
	inner  bool     // it is in another message
	count  int
}

// protoField is a field of the message.
type protoField struct {
	of, kind, name string
	number         int
	inOneof        bool
}

func newProtoWriter(r *rand.Rand) *protoWriter {
	w := &protoWriter{r: r, name: "Rating"}
	for _, of := range []string{"user", "what", "rating", "ts", "price", "tags", "level"} {
		w.fields = append(w.fields, w.field(of))
	}
	return w
}

func (w *protoWriter) pick(list ...string) string { return list[w.r.IntN(len(list))] }

// field returns one of the ways to write a field, with a new number.
func (w *protoWriter) field(of string) protoField {
	w.count++
	f := protoField{of: of, name: of, number: 10*w.count + w.r.IntN(10)}
	switch of {
	case "user":
		f.kind = w.pick("string", "optional string", "google.protobuf.StringValue")
		f.inOneof = f.kind == "string" && w.r.IntN(3) == 0
	case "what":
		f.kind = w.pick("What", "Thing")
	case "rating":
		f.kind = w.pick("int32", "sint64", "uint32", "fixed64", "double", "float", "optional sfixed32",
			"google.protobuf.DoubleValue")
	case "ts":
		f.kind = w.pick("int64", "google.protobuf.Timestamp", "optional uint64")
	case "price":
		f.kind = w.pick("double", "optional double", "google.protobuf.DoubleValue")
	case "tags":
		f.kind = "repeated string"
	case "level":
		f.kind = w.pick("Level", "optional Level", "string")
	default:
		f.kind = w.pick("bool", "bytes", "string", "map<string, Thing>", "repeated sint32", "What", "Level")
		f.name = fmt.Sprint("other", w.count)
	}
	return f
}

// evolve changes the schema a little: fields are added, removed, moved, of another type or number; messages and what
// the model does not ask for are renamed.
func (w *protoWriter) evolve() {
	for range 1 + w.r.IntN(3) {
		i := w.r.IntN(len(w.fields))
		f := &w.fields[i]
		switch w.r.IntN(7) {
		case 0:
			w.fields = slices.Insert(w.fields, i, w.field("other"))
		case 1:
			if slices.Contains([]string{"other", "price", "tags", "level"}, f.of) {
				w.fields = slices.Delete(w.fields, i, i+1)
			}
		case 2:
			for _, of := range []string{"price", "tags", "level"} {
				if !slices.ContainsFunc(w.fields, func(f protoField) bool { return f.of == of }) {
					w.fields = slices.Insert(w.fields, i, w.field(of))
				}
			}
		case 3:
			w.r.Shuffle(len(w.fields), func(i, j int) { w.fields[i], w.fields[j] = w.fields[j], w.fields[i] })
		case 4:
			w.count++
			w.name = fmt.Sprint("Rating", w.count)
			if f.of == "other" {
				f.name = fmt.Sprint("renamed", w.count)
			}
		case 5:
			w.count++
			w.before, w.inner = append(w.before, fmt.Sprint("New", w.count)), w.r.IntN(2) == 0
		default:
			w.fields[i] = w.field(f.of)
		}
	}
}

// text returns the .proto, and where the message is in it.
func (w *protoWriter) text() (text string, path []int) {
	var b strings.Builder
	b.WriteString(`syntax = "proto3"; package shop;
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
`)
	for _, name := range w.before {
		fmt.Fprintf(&b, "message %s { string user = 1; message In {} }\n", name)
	}
	path = []int{len(w.before)}
	if w.inner {
		path = append(path, 1)
		b.WriteString("message Outer { message First {}\n")
	}
	fmt.Fprintf(&b, "message %s {\n", w.name)
	for _, f := range w.fields {
		line := fmt.Sprintf("  %s %s = %d;", f.kind, f.name, f.number)
		if f.inOneof {
			line = fmt.Sprintf("  oneof of_%s {%s bytes no_%s = %d; }", f.name, line, f.name, 5000+f.number)
		}
		b.WriteString(line + "\n")
	}
	b.WriteString("}\n")
	if w.inner {
		b.WriteString("}\n")
	}
	numbers := w.r.Perm(9)
	fmt.Fprintf(&b, `message What { string more = 7; string item = %d; }
message Thing { What deeper = 3; optional string item = %d; }
enum Level { %s = 0; %s = %d; %s = %d; }
`, 1+w.r.IntN(5), 4+w.r.IntN(5), levels[0], levels[1], 1+numbers[0], levels[2], 20+numbers[1])
	return b.String(), path
}

// scalar returns a value of a kind for an event.
func scalar(f protoreflect.FieldDescriptor, whole int64, text string) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(whole))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(whole))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(whole))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(whole))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(whole))
	}
	return protoreflect.ValueOfInt64(whole)
}

// fill sets the fields of a message.
func (w *protoWriter) fill(m protoreflect.Message, e *rated) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		inner := func() protoreflect.Message { return m.Mutable(f).Message() }
		isMessage := f.Kind() == protoreflect.MessageKind && !f.IsMap()
		switch name := string(f.Name()); {
		case name == "user" && isMessage:
			inner().Set(f.Message().Fields().Get(0), protoreflect.ValueOfString(e.user))
		case name == "user":
			m.Set(f, protoreflect.ValueOfString(e.user))
		case name == "what":
			inner().Set(f.Message().Fields().ByName("item"), protoreflect.ValueOfString(e.item))
		case name == "rating" && isMessage:
			inner().Set(f.Message().Fields().Get(0), protoreflect.ValueOfFloat64(float64(e.rating)))
		case name == "rating":
			m.Set(f, scalar(f, int64(e.rating), ""))
		case name == "ts" && isMessage:
			inner().Set(f.Message().Fields().ByName("seconds"), protoreflect.ValueOfInt64(e.ts/1000))
			inner().Set(f.Message().Fields().ByName("nanos"), protoreflect.ValueOfInt32(int32(e.ts%1000)*1_000_000))
		case name == "ts":
			m.Set(f, scalar(f, e.ts, ""))
		case name == "price" && isMessage:
			inner().Set(f.Message().Fields().Get(0), protoreflect.ValueOfFloat64(e.price))
		case name == "price":
			m.Set(f, protoreflect.ValueOfFloat64(e.price))
		case name == "tags":
			for _, tag := range e.tags {
				m.Mutable(f).List().Append(protoreflect.ValueOfString(tag.(string)))
			}
		case name == "level" && f.Kind() == protoreflect.EnumKind:
			m.Set(f, protoreflect.ValueOfEnum(f.Enum().Values().ByName(protoreflect.Name(e.level)).Number()))
		case name == "level":
			m.Set(f, protoreflect.ValueOfString(e.level))
		case f.IsMap():
			value := m.Mutable(f).Map().NewValue()
			m.Mutable(f).Map().Set(protoreflect.ValueOfString("user").MapKey(), value)
		case f.IsList():
			m.Mutable(f).List().Append(protoreflect.ValueOfInt32(-3))
		case isMessage:
			inner().Set(f.Message().Fields().ByName("item"), protoreflect.ValueOfString("another"))
		case f.Kind() == protoreflect.StringKind && f.ContainingOneof() == nil:
			m.Set(f, protoreflect.ValueOfString("x"))
		}
	}
}

// slowly returns what the library reads of a message, as JSON.
func slowly(m protoreflect.Message) map[string]any {
	object := make(map[string]any)
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		v := m.Get(f)
		switch name := string(f.Name()); {
		case !slices.Contains([]string{"user", "what", "rating", "ts", "price", "tags", "level"}, name),
			f.HasPresence() && !m.Has(f):
		case name == "tags":
			list := []string{}
			for i := range v.List().Len() {
				list = append(list, v.List().Get(i).String())
			}
			object[name] = list
		case name == "what":
			object[name] = map[string]any{"item": v.Message().Get(f.Message().Fields().ByName("item")).String()}
		case name == "ts" && f.Kind() == protoreflect.MessageKind:
			of := f.Message().Fields()
			object[name] = v.Message().Get(of.ByName("seconds")).Int()*1000 + v.Message().Get(of.ByName("nanos")).Int()/1_000_000
		case f.Kind() == protoreflect.MessageKind:
			object[name] = v.Message().Get(f.Message().Fields().Get(0)).Interface()
		case f.Kind() == protoreflect.EnumKind:
			object[name] = string(f.Enum().Values().ByNumber(v.Enum()).Name())
		default:
			object[name] = v.Interface()
		}
	}
	return object
}

// written returns the schema as it is, and how events are written and read by it.
func (w *protoWriter) written(t *testing.T) *writtenBy {
	t.Helper()
	text, path := w.text()
	file, err := protobuf.Describe(&event.Writer{Format: event.FormatProtobuf, Text: text})
	if err != nil {
		t.Fatalf("%v of %s", err, text)
	}
	d := file.Messages().Get(path[0])
	for _, i := range path[1:] {
		d = d.Messages().Get(i)
	}
	frame := protowire.AppendVarint(nil, protowire.EncodeZigZag(int64(len(path))))
	for _, i := range path {
		frame = protowire.AppendVarint(frame, protowire.EncodeZigZag(int64(i)))
	}
	if len(path) == 1 && path[0] == 0 && w.r.IntN(2) == 0 {
		frame = []byte{0} // the short form
	}
	return &writtenBy{answer: map[string]any{"schema": text, "schemaType": "PROTOBUF"}, encode: func(e *rated) []byte {
		m := dynamicpb.NewMessage(d)
		w.fill(m, e)
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return append(slices.Clone(frame), data...)
	}, slow: func(e *rated, data []byte) []byte {
		m := dynamicpb.NewMessage(d)
		if err := proto.Unmarshal(data[len(frame):], m); err != nil {
			t.Fatal(err)
		}
		value := slowly(m)
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

// TestProtobufEvolutions is TestAvroEvolutions for Protobuf: the message of a value is another one, or elsewhere in the
// file, from one schema to the next.
func TestProtobufEvolutions(t *testing.T) {
	evolutions(t, event.FormatProtobuf, numEvolutions(),
		func(r *rand.Rand) (func(), func(*testing.T) *writtenBy) {
			w := newProtoWriter(r)
			return w.evolve, w.written
		})
}
