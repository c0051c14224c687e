package protobuf

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/eventtest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// wild makes random schemas in every syntax.
type wild struct {
	r      *rand.Rand
	syntax string // proto2, proto3 or an edition
	names  int
}

var (
	scalars = []string{"double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32",
		"fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"}
	standard = []string{"Timestamp", "Duration", "Any", "Struct", "StringValue", "Int64Value", "DoubleValue", "BoolValue",
		"BytesValue", "UInt32Value"}
)

func (w *wild) pick(list ...string) string { return list[w.r.IntN(len(list))] }

// schema returns the text of a file with messages M0 to M3, of which M1 has one within.
func (w *wild) schema() string {
	w.syntax = w.pick("proto2", "proto3", "2023")
	text := `syntax = "` + w.syntax + `";`
	first := 0
	if w.syntax == "2023" {
		text = `edition = "2023";`
		if w.r.IntN(2) == 0 {
			text += ` option features.field_presence = IMPLICIT;`
		}
	}
	if w.syntax == "proto2" {
		first = w.r.IntN(3) - 1
	}
	text += ` package shop;
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto"; import "google/protobuf/any.proto";
import "google/protobuf/duration.proto"; import "google/protobuf/struct.proto";
enum Color { option allow_alias = true; RED = ` + fmt.Sprint(first) + `; CRIMSON = ` + fmt.Sprint(first) + `;
	GREEN = 5; BLUE = 70000; }
`
	for i := range 4 {
		text += fmt.Sprintf("message M%d {\n%s", i, w.fields(2))
		if i == 1 {
			text += "message In {\n" + w.fields(1) + "}\n"
		}
		if w.syntax == "proto2" {
			text += "extensions 100000 to 100010;\n"
		}
		text += "}\n"
	}
	if w.syntax == "proto2" {
		text += "extend M0 { optional string more = 100001; repeated M1 most = 100002; }\n"
	}
	return text
}

// fields returns those of a message.
func (w *wild) fields(depth int) (text string) {
	numbers := w.r.Perm(40)
	for i := range 2 + w.r.IntN(6) {
		number := numbers[i] + 1
		if w.r.IntN(8) == 0 {
			number += 1 << 28
		}
		w.names++
		name := fmt.Sprint("f", w.names)
		kind := w.pick(append(append([]string{"Color", "M0", "M1", "M1.In", "M2", "M3", "Color"}, scalars...),
			"google.protobuf."+w.pick(standard...), "google.protobuf.Timestamp")...)
		isScalar := slices.Contains(scalars, kind)
		isMessage := !isScalar && kind != "Color"
		label, options := "", []string{}
		switch n := w.r.IntN(10); {
		case n == 0:
			text += fmt.Sprintf("map<%s, %s> %s = %d;\n", w.pick("string", "int32", "sint64", "bool", "fixed32", "uint64"), kind,
				name, number)
			continue
		case n == 1:
			text += fmt.Sprintf("oneof o%d { %s %s = %d; string %sx = %d; }\n", number, kind, name, number, name, number+50)
			continue
		case n == 2 && w.syntax == "proto2" && depth > 0:
			text += fmt.Sprintf("%s group G%d = %d {\n%s}\n", w.pick("optional", "repeated"), w.names, number, w.fields(depth-1))
			continue
		case n < 5:
			label = "repeated "
			if isScalar && kind != "string" && kind != "bytes" && w.r.IntN(2) == 0 {
				if w.syntax == "2023" {
					options = append(options, "features.repeated_field_encoding = "+w.pick("PACKED", "EXPANDED"))
				} else {
					options = append(options, "packed = "+w.pick("true", "false"))
				}
			}
		case w.syntax == "proto2":
			if label = w.pick("optional ", "optional ", "required "); isMessage {
				label = "optional " // else a message that has itself would have no end
			}
			if kind == "int32" || kind == "double" {
				options = append(options, "default = 7")
			}
		case w.syntax == "proto3":
			label = w.pick("", "", "optional ")
		case !isMessage:
			options = append(options, "features.field_presence = "+w.pick("EXPLICIT", "LEGACY_REQUIRED"))
		}
		if isMessage && w.syntax == "2023" && w.r.IntN(3) == 0 {
			options = append(options, "features.message_encoding = DELIMITED")
		}
		line := fmt.Sprintf("%s%s %s = %d", label, kind, name, number)
		if len(options) > 0 {
			line += " [" + strings.Join(options, ", ") + "]"
		}
		text += line + ";\n"
	}
	return text
}

// message returns a random message of a type.
func message(r *rand.Rand, d protoreflect.MessageDescriptor, depth int) *dynamicpb.Message {
	m := dynamicpb.NewMessage(d)
	if d.FullName() == "google.protobuf.Timestamp" {
		m.Set(d.Fields().ByName("seconds"), protoreflect.ValueOfInt64(1_700_000_000+r.Int64N(1e6)))
		m.Set(d.Fields().ByName("nanos"), protoreflect.ValueOfInt32(int32(r.IntN(1000))*1_000_000))
		return m
	}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		isMessage := f.Message() != nil && !f.IsMap()
		switch {
		case f.Cardinality() == protoreflect.Required:
			m.Set(f, value(r, f, depth-1))
		case r.IntN(4) == 0 || depth < 0 && (isMessage || f.IsMap()):
		case f.IsMap():
			for range r.IntN(4) {
				m.Mutable(f).Map().Set(value(r, f.MapKey(), 0).MapKey(), value(r, f.MapValue(), depth-1))
			}
		case f.IsList():
			list := m.Mutable(f).List()
			for range r.IntN(4) {
				list.Append(value(r, f, depth-1))
			}
		default:
			m.Set(f, value(r, f, depth-1))
		}
	}
	return m
}

func value(r *rand.Rand, f protoreflect.FieldDescriptor, depth int) protoreflect.Value {
	n := int64(r.IntN(5)) // the default now and then
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n > 2)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber([]int32{0, 5, 70000, 9, -3}[n])) // some without a name
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32([]int32{0, 1, -2, math.MaxInt32, math.MinInt32}[n])
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32([]uint32{0, 1, 2, 300, math.MaxUint32}[n])
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64([]int64{0, 1, -2, 1 << 60, math.MinInt64}[n])
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64([]uint64{0, 1, 2, 1<<63 + 5, math.MaxUint64}[n])
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(n-2) / 4)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n-2) / 3)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{1, byte(n)})
	case protoreflect.StringKind:
		return protoreflect.ValueOfString([]string{"", "a", "é", "7", "\U0001f600 x"}[n])
	}
	return protoreflect.ValueOfMessage(message(r, f.Message(), depth))
}

// rewritten is another way to write a message: fields in another order, packed and not, twice, with others among them.
func rewritten(r *rand.Rand, d protoreflect.MessageDescriptor, data []byte) []byte {
	var chunks [][]byte
	for len(data) > 0 {
		number, kind, tag := protowire.ConsumeTag(data)
		size := tag + protowire.ConsumeFieldValue(number, kind, data[tag:])
		raw := slices.Clone(data[:size])
		f := d.Fields().ByNumber(number)
		data = data[size:]
		if f == nil { // an extension
			chunks = append(chunks, raw)
			continue
		}
		isList := f.IsList() && wireOf(f.Kind()) != protowire.BytesType && f.Message() == nil
		switch {
		case isList && kind == protowire.BytesType && r.IntN(2) == 0: // not packed
			packed, _ := protowire.ConsumeBytes(raw[tag:])
			raw = nil
			for len(packed) > 0 {
				n := protowire.ConsumeFieldValue(number, wireOf(f.Kind()), packed)
				raw = append(protowire.AppendTag(raw, number, wireOf(f.Kind())), packed[:n]...)
				packed = packed[n:]
			}
		case isList && kind != protowire.BytesType && r.IntN(2) == 0: // packed
			raw = protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), raw[tag:])
		case f.Message() != nil && !f.IsMap() && kind == protowire.BytesType && f.Message().FullName().Parent() == "shop":
			inner, _ := protowire.ConsumeBytes(raw[tag:])
			raw = protowire.AppendBytes(protowire.AppendTag(nil, number, kind), rewritten(r, f.Message(), inner))
		case f.Message() == nil && f.ContainingOneof() == nil && r.IntN(4) == 0: // the last one counts
			raw = append(slices.Clone(raw), raw...)
		}
		chunks = append(chunks, raw)
	}
	for range r.IntN(3) { // fields that nobody knows
		number := protowire.Number(5000 + r.IntN(100))
		other := protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), "none")
		if r.IntN(2) == 0 {
			other = protowire.AppendGroup(protowire.AppendTag(nil, number, protowire.StartGroupType), number, other)
		}
		chunks = append(chunks, other)
	}
	r.Shuffle(len(chunks), func(i, j int) { chunks[i], chunks[j] = chunks[j], chunks[i] })
	return slices.Concat(chunks...)
}

// renamed is what a reader calls a field.
func renamed(name string) string {
	if strings.HasSuffix(name, "2") || strings.HasSuffix(name, "5") {
		return strings.Replace(name, "f", "g", 1)
	}
	return name
}

// slow writes a message as JSON, by the library's reading of its bytes. Whole numbers of 64 bits are numbers there, and
// text that is absent is left out where its type says nothing of presence.
func (c *wildCase) slow(m protoreflect.Message) string {
	var members []string
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		v := m.Get(f)
		var list []string
		switch text := ""; {
		case f.IsMap():
			for k, v := range v.Map().Range {
				text = c.one(f.MapValue(), v)
				if text != `""` || f.MapValue().Message() != nil { // an empty text is no name, but that of a wrapper
					list = append(list, fmt.Sprintf("%q:%s", k.String(), text))
				}
			}
			if m.Has(f) {
				members = append(members, fmt.Sprintf("%q:{%s}", c.call(f), strings.Join(list, ",")))
			}
		case f.IsList():
			for i := range v.List().Len() {
				list = append(list, c.one(f, v.List().Get(i)))
			}
			members = append(members, fmt.Sprintf("%q:[%s]", c.call(f), strings.Join(list, ",")))
		case m.Has(f) || !f.HasPresence() && f.Kind() != protoreflect.StringKind && f.Kind() != protoreflect.BytesKind:
			members = append(members, fmt.Sprintf("%q:%s", c.call(f), c.one(f, v)))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (c *wildCase) call(f protoreflect.FieldDescriptor) string {
	if c.readAs == "" {
		return string(f.Name())
	}
	return renamed(string(f.Name()))
}

func (c *wildCase) one(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		if specials[f.Message().FullName()] != plain {
			b, err := protojson.Marshal(v.Message().Interface())
			if err != nil {
				return err.Error()
			}
			if strings.Contains(string(f.Message().Name()), "Int64") { // numbers as text
				return strings.Trim(string(b), `"`)
			}
			return string(b)
		}
		return c.slow(v.Message())
	case protoreflect.EnumKind:
		if of := f.Enum().Values().ByNumber(v.Enum()); of != nil {
			return strconv.Quote(string(of.Name()))
		}
		return fmt.Sprint(v.Enum())
	case protoreflect.BytesKind:
		return strconv.Quote(base64.StdEncoding.EncodeToString(v.Bytes()))
	case protoreflect.StringKind:
		return strconv.Quote(v.String())
	}
	return fmt.Sprint(v.Interface())
}

// asked is a place that a model may ask for.
type asked struct{ path, as string }

// places lists what a model may ask for in a message.
func (c *wildCase) places(d protoreflect.MessageDescriptor, path string, depth int, list []asked) []asked {
	if depth == 0 {
		return list
	}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		to := path + c.call(f)
		switch {
		case f.IsMap():
			key := map[protoreflect.Kind]string{protoreflect.StringKind: "a", protoreflect.BoolKind: "true"}[f.MapKey().Kind()]
			if key == "" {
				key = c.r1("1", "2", "300", "-2", "0")
			}
			list = c.place(f.MapValue(), to+`."`+key+`"`, depth, list)
		case f.IsList():
			switch f.Kind() {
			case protoreflect.DoubleKind, protoreflect.FloatKind, protoreflect.BoolKind, protoreflect.MessageKind,
				protoreflect.GroupKind:
				if f.Message() == nil || f.Message().Name() != "Int64Value" && f.Message().Name() != "StringValue" {
					continue
				}
			}
			list = append(list, asked{to, "list"})
		default:
			list = c.place(f, to, depth, list)
		}
	}
	return list
}

func (c *wildCase) r1(list ...string) string { return list[c.r.IntN(len(list))] }

// place is places of one value.
func (c *wildCase) place(f protoreflect.FieldDescriptor, path string, depth int, list []asked) []asked {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		switch specials[f.Message().FullName()] {
		case timestamp:
			return append(list, asked{path, "time"})
		case wrapper:
			return c.place(f.Message().Fields().Get(0), path, depth, list)
		}
		return c.places(f.Message(), path+".", depth-1, list)
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return append(list, asked{path, "number"})
	case protoreflect.BoolKind:
		if c.r.IntN(10) > 0 {
			return list
		}
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.EnumKind:
	default:
		list = append(list, asked{path, "number"})
	}
	return append(list, asked{path, "name"})
}

// wildCase is a schema, maybe that of a reader who calls fields otherwise, and a model that asks for something in it.
type wildCase struct {
	*wild
	text, readAs   string
	head           []byte // the indexes of the message
	message        protoreflect.MessageDescriptor
	asked          []asked
	decoder, plain *event.Mapped // of Protobuf, and of JSON
}

func newWildCase(t testing.TB, seed uint64) *wildCase {
	t.Helper()
	c := &wildCase{wild: &wild{r: rand.New(rand.NewPCG(seed, 2))}}
	c.text = c.schema()
	w := &event.Writer{Format: event.FormatProtobuf, Text: c.text}
	var fixed *event.Writer
	if seed%3 == 0 {
		c.readAs = regexp.MustCompile(`\bf\d+\b`).ReplaceAllStringFunc(c.text, renamed)
		fixed = &event.Writer{Format: event.FormatProtobuf, Text: c.readAs}
	}
	file, err := Describe(w)
	if err != nil {
		t.Fatalf("seed %d: %v: %s", seed, err, c.text)
	}
	i := c.r.IntN(4)
	c.message, c.head = file.Messages().Get(i), protowire.AppendVarint([]byte{2}, protowire.EncodeZigZag(int64(i)))
	switch {
	case i == 0:
		c.head = []byte{0}
	case i == 1 && c.r.IntN(2) == 0:
		index := c.message.Messages().ByName("In").Index() // groups are messages within, too
		c.message = c.message.Messages().Get(index)
		c.head = protowire.AppendVarint([]byte{4, 2}, protowire.EncodeZigZag(int64(index)))
	}
	list := c.places(c.message, "", 4, nil)
	c.r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	s, m := event.Schema{Task: event.Regression, TimeUnit: "ms"}, new(event.Mapping)
	for i, a := range list {
		name := fmt.Sprint(a.as, i)
		switch {
		case len(m.Fields) > 7, a.as == "time" && (s.Time != "" || c.r.IntN(3) > 0):
			continue
		case a.as == "name":
			s.Categorical = append(s.Categorical, name)
		case a.as == "number":
			s.Numeric = append(s.Numeric, name)
		case a.as == "list":
			s.Multi = append(s.Multi, name)
		default:
			s.Time = name
		}
		from, err := event.ParseSource(a.path)
		if err != nil {
			t.Fatal(err)
		}
		m.Fields, s.Optional = append(m.Fields, event.MappedField{Name: name, From: from}), append(s.Optional, name)
		c.asked = append(c.asked, a)
	}
	longer := event.DefaultLimits()
	longer.MaxEventBytes = 1 << 24 // as JSON a message may be many times as long
	c.plain = event.NewMapped(s, longer, m, nil)
	c.decoder = event.NewMapped(s, event.DefaultLimits(), m, nil)
	c.decoder.Read(event.Reading{Format: event.FormatProtobuf, Writers: known{seven: w}, Fixed: fixed,
		Compilers: map[string]event.Compiler{event.FormatProtobuf: Compile}})
	return c
}

// value returns the bytes of a random message, behind its indexes.
func (c *wildCase) value(t testing.TB) []byte {
	data, err := proto.Marshal(message(c.r, c.message, 4))
	if err != nil {
		t.Fatal(err)
	}
	if c.r.IntN(2) == 0 {
		data = rewritten(c.r, c.message, data)
	}
	return slices.Concat(c.head, data)
}

// TestWild: of messages of random schemas in every syntax, each event is what the library and the JSON decoder make of
// it, in whichever of the ways that there are its fields are written.
func TestWild(t *testing.T) {
	const now = 5_000_000_000_000
	var events int
	rejected := make(map[event.Reason]int)
	for _, seed := range eventtest.Seeds(tier.Size[uint64](300, 50_000)) {
		c := newWildCase(t, seed)
		for range 2 {
			data := c.value(t)
			back := dynamicpb.NewMessage(c.message)
			if err := proto.Unmarshal(data[len(c.head):], back); err != nil {
				t.Fatalf("seed %d: the library: %v", seed, err)
			}
			object := c.slow(back)
			var got, want event.Event
			r, wait := c.decoder.DecodeRecord(&got, &event.Record{Value: append([]byte(eventtest.Seven), data...), Time: now})
			other, _ := c.plain.DecodeRecord(&want, &event.Record{Value: []byte(object), Time: now})
			if events++; r != nil {
				rejected[r.Reason]++
			}
			if wait != nil || reason(r) != reason(other) || r == nil && fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
				t.Fatalf("seed %d: %v, %v, %#v,\nwant %v, %#v of %s\nat %s,\n%s, %s", seed, r, wait, got, other, want, object,
					c.asked, c.message.FullName(), c.text)
			}
		}
	}
	t.Logf("%d events, %v rejected alike", events, rejected)
}
