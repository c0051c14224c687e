package protobuf

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

var ratings = event.Schema{
	Task:        event.Regression,
	Label:       "rating",
	Time:        "ts",
	TimeUnit:    "ms",
	Categorical: []string{"user", "item"},
	Numeric:     []string{"price"},
	Multi:       []string{"tags"},
	Optional:    []string{"price", "tags", "item"},
}

// userTypes, ratingTypes and so on are the types that the fields of random schemas have.
var (
	nameTypes = []string{"string", "int32", "uint64", "sint64", "fixed64", "sfixed32", "Color",
		"google.protobuf.StringValue"}
	numberTypes = []string{"double", "float", "int32", "sint32", "uint32", "fixed32", "google.protobuf.DoubleValue"}
	timeTypes   = []string{"google.protobuf.Timestamp", "int64"}
	otherTypes  = []string{"bool", "bytes", "string", "map<string, What>", "repeated sint32", "repeated string", "What"}
)

func pick(r *rand.Rand, list []string) string { return list[r.IntN(len(list))] }

// newSchema returns a random .proto: fields of any numbers, some with presence, and others among them.
func newSchema(r *rand.Rand) string {
	numbers := r.Perm(200)
	var fields []string
	add := func(kind, name string) {
		number := numbers[len(fields)] + 1
		if r.IntN(3) == 0 && !strings.ContainsAny(kind, " .") {
			kind = "optional " + kind
		}
		fields = append(fields, fmt.Sprintf("  %s %s = %d;", kind, name, number))
	}
	add(pick(r, numberTypes), "rating")
	add(pick(r, timeTypes), "ts")
	add(pick(r, nameTypes), "user")
	add(pick(r, numberTypes), "price")
	add("repeated string", "tags")
	add("What", "what")
	for i := range r.IntN(6) {
		add(pick(r, otherTypes), fmt.Sprint("other", i))
	}
	r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	return `syntax = "proto3"; package shop;
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
enum Color { RED = 0; GREEN = 5; BLUE = 7; }
message What { ` + pick(r, nameTypes) + " item = " + fmt.Sprint(1+r.IntN(20)) + `; string more = 33; }
message First {}
message Rating {
` + strings.Join(fields, "\n") + "\n}\n"
}

// message returns a random message of a type.
func message(r *rand.Rand, d protoreflect.MessageDescriptor) *dynamicpb.Message {
	m := dynamicpb.NewMessage(d)
	if d.FullName() == "google.protobuf.Timestamp" {
		m.Set(d.Fields().ByName("seconds"), protoreflect.ValueOfInt64(1_700_000_000+r.Int64N(1e6)))
		m.Set(d.Fields().ByName("nanos"), protoreflect.ValueOfInt32(int32(r.IntN(1000))*1_000_000))
		return m
	}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		must := f.Name() == "rating" || f.Name() == "ts" || f.Name() == "user"
		switch {
		case !must && r.IntN(4) == 0:
		case f.IsMap():
			m.Mutable(f).Map().Set(protoreflect.ValueOfString("k").MapKey(), value(r, f.MapValue()))
		case f.IsList():
			list := m.Mutable(f).List()
			for range r.IntN(4) {
				list.Append(value(r, f))
			}
		default:
			m.Set(f, value(r, f))
		}
	}
	return m
}

func value(r *rand.Rand, f protoreflect.FieldDescriptor) protoreflect.Value {
	n := int64(r.IntN(5)) // the default now and then
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n > 2)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber([]int32{0, 5, 7}[r.IntN(3)]))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n - 2))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(1<<60 + n)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(1<<63 + uint64(n)) // above int64
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(n) / 4)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n) / 8)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{1, byte(n)})
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(fmt.Sprint("s", n))
	}
	return protoreflect.ValueOfMessage(message(r, f.Message()))
}

// slow writes a message as JSON, by the library's reading of its bytes. Whole numbers of 64 bits are numbers there, and
// text that is absent is left out where its type says nothing of presence.
func slow(m protoreflect.Message) string {
	var members []string
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		has := m.Has(f)
		if f.IsMap() || !has && (f.HasPresence() || f.Kind() == protoreflect.StringKind && !f.IsList() ||
			f.Kind() == protoreflect.BytesKind) {
			continue
		}
		text := ""
		if f.IsList() {
			var list []string
			for i := range m.Get(f).List().Len() {
				list = append(list, one(f, m.Get(f).List().Get(i)))
			}
			text = "[" + strings.Join(list, ",") + "]"
		} else {
			text = one(f, m.Get(f))
		}
		members = append(members, fmt.Sprintf("%q:%s", f.Name(), text))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func one(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch f.Kind() {
	case protoreflect.MessageKind:
		if strings.HasPrefix(string(f.Message().FullName()), "google.") {
			b, err := protojson.Marshal(v.Message().Interface())
			if err != nil {
				return err.Error()
			}
			return string(b)
		}
		return slow(v.Message())
	case protoreflect.EnumKind:
		return fmt.Sprintf("%q", f.Enum().Values().ByNumber(v.Enum()).Name())
	case protoreflect.BytesKind, protoreflect.StringKind:
		b, _ := json.Marshal(v.Interface())
		return string(b)
	}
	return fmt.Sprint(v.Interface())
}

// mapping has the item in a message within.
func mapping(t testing.TB) *event.Mapping {
	from, err := event.ParseSource("what.item")
	if err != nil {
		t.Fatal(err)
	}
	return &event.Mapping{Fields: []event.MappedField{{Name: "item", From: from}}}
}

type known map[event.ID]*event.Writer

func (k known) Writer(id event.ID) *event.Writer { return k[id] }

var seven = event.ID{Kind: event.NumberID, Number: 7}

func decoderOf(t testing.TB, w *event.Writer) *event.Mapped {
	d := event.NewMapped(ratings, event.DefaultLimits(), mapping(t), nil)
	d.Read(event.Reading{Format: event.FormatProtobuf, Writers: known{seven: w},
		Compilers: map[string]event.Compiler{event.FormatProtobuf: Compile}})
	return d
}

// TestMessages: of messages of 500 random schemas, each event is what the library and the JSON decoder make of it.
func TestMessages(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		text := newSchema(r)
		w := &event.Writer{Format: event.FormatProtobuf, Text: text}
		file, err := Describe(w)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		d := file.Messages().ByName("Rating")
		decoder := decoderOf(t, w)
		for range 4 {
			data, err := proto.Marshal(message(r, d))
			if err != nil {
				t.Fatal(err)
			}
			back := dynamicpb.NewMessage(d)
			if err := proto.Unmarshal(data, back); err != nil {
				t.Fatal(err)
			}
			object := slow(back)
			var got, want event.Event
			rejection, wait := decoder.DecodeRecord(&got, &event.Record{
				Value: append([]byte{0, 0, 0, 0, 7, 2, 4}, data...), Time: 5}) // one index: 2
			slowly, _ := event.NewMapped(ratings, event.DefaultLimits(), mapping(t), nil).
				DecodeRecord(&want, &event.Record{Value: []byte(object), Time: 5})
			if wait != nil || fmt.Sprint(rejection) != fmt.Sprint(slowly) {
				t.Fatalf("seed %d: %v, %v, want %v of %s: %s", seed, rejection, wait, slowly, object, text)
			}
			if rejection == nil && fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
				t.Fatalf("seed %d: %#v, want %#v of %s: %s", seed, got, want, object, text)
			}
		}
	}
}

// TestWhichMessage: the message of a value is said by indexes, which have a short form, by a header, or by a message
// before it.
func TestWhichMessage(t *testing.T) {
	w := &event.Writer{Format: event.FormatProtobuf, Text: `syntax = "proto3"; package shop;
message Rating { double rating = 1; int64 ts = 2; string user = 3; message Late { string user = 1; double rating = 4; int64 ts = 2; } }
message Other { message In { double rating = 7; int64 ts = 8; string user = 9; } }`}
	file, err := Describe(w)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(d protoreflect.MessageDescriptor) []byte {
		m := dynamicpb.NewMessage(d)
		m.Set(d.Fields().ByName("rating"), protoreflect.ValueOfFloat64(4.5))
		m.Set(d.Fields().ByName("ts"), protoreflect.ValueOfInt64(9))
		m.Set(d.Fields().ByName("user"), protoreflect.ValueOfString("u"))
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := file.Messages().Get(0)
	plain, late, in := encode(first), encode(first.Messages().Get(0)), encode(file.Messages().Get(1).Messages().Get(0))
	frame := func(head string, data []byte) []byte { return append([]byte("\x00\x00\x00\x00\x07"+head), data...) }
	ref := protowire.AppendBytes(nil, protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "Rating"))
	for name, c := range map[string]struct {
		value []byte
		want  string
	}{
		"the short form":    {frame("\x00", plain), ""},
		"one index":         {frame("\x02\x00", plain), ""},
		"a nested one":      {frame("\x04\x00\x00", late), ""},
		"another's":         {frame("\x04\x02\x00", in), ""},
		"no such index":     {frame("\x02\x06", plain), "not_protobuf"},
		"a negative index":  {frame("\x02\x01", plain), "not_protobuf"},
		"too many indexes":  {frame("\xfe\x01", plain), "not_protobuf"},
		"no indexes":        {frame("", nil), "not_protobuf"},
		"cut off":           {frame("\x00", plain[:len(plain)-1]), "not_protobuf"},
		"no frame":          {plain, "not_protobuf"},
		"another's message": {frame("\x04\x02\x00", plain), "missing_field"},
	} {
		var ev event.Event
		d := decoderOf(t, w)
		for range 2 { // as after another record
			r, wait := d.DecodeRecord(&ev, &event.Record{Value: c.value, Time: 1})
			if got := reason(r); wait != nil || got != c.want {
				t.Errorf("%s: %v, %v, want %s", name, r, wait, c.want)
			}
			if c.want == "" && (ev.Label != 4.5 || ev.Time != 9 || ev.Categorical[0] != "u") {
				t.Errorf("%s: %+v", name, ev)
			}
		}
	}
	d := event.NewMapped(ratings, event.DefaultLimits(), mapping(t), nil)
	d.Read(event.Reading{Format: event.FormatProtobuf, Writers: known{{Kind: event.GlobalID, Number: 3}: w},
		Compilers: map[string]event.Compiler{event.FormatProtobuf: Compile}})
	var ev event.Event
	value := append(append([]byte{0, 0, 0, 0, 0, 0, 0, 0, 3}, ref...), plain...)
	if r, wait := d.DecodeRecord(&ev, &event.Record{Value: value, Time: 1}); r != nil || wait != nil || ev.Label != 4.5 {
		t.Errorf("Apicurio's: %v, %v, %+v", r, wait, ev)
	}
}

// TestDescriptors: a schema, and what it refers to, may be descriptors in base64, as the serializer of Python registers
// them, of which some registries make no text.
func TestDescriptors(t *testing.T) {
	const item = `syntax = "proto3"; package shop; message Item { string item = 1; }`
	const rating = `syntax = "proto3"; package shop; import "shop/item.proto"; import "google/protobuf/timestamp.proto";
message Rating { double rating = 1; google.protobuf.Timestamp ts = 2; string user = 3; Item what = 4; }`
	packed := func(text string, references ...event.Reference) string {
		file, err := Describe(&event.Writer{Text: text, References: references})
		if err != nil {
			t.Fatal(err)
		}
		d := protodesc.ToFileDescriptorProto(file)
		for _, f := range d.MessageType[0].Field {
			f.JsonName = nil // as protoc has it in the code that it generates
		}
		b, err := proto.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(b)
	}
	ref := func(text string) event.Reference { return event.Reference{Name: "shop/item.proto", Text: text} }
	file, err := Describe(&event.Writer{Text: rating, References: []event.Reference{ref(item)}})
	if err != nil {
		t.Fatal(err)
	}
	m := dynamicpb.NewMessage(file.Messages().Get(0))
	of := m.Descriptor().Fields()
	m.Set(of.ByName("rating"), protoreflect.ValueOfFloat64(4.5))
	m.Set(of.ByName("user"), protoreflect.ValueOfString("u"))
	m.Mutable(of.ByName("ts")).Message().Set(of.ByName("ts").Message().Fields().Get(0), protoreflect.ValueOfInt64(9))
	what := m.Mutable(of.ByName("what")).Message()
	what.Set(what.Descriptor().Fields().Get(0), protoreflect.ValueOfString("i"))
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]event.Writer{
		"text":                 {Text: rating, References: []event.Reference{ref(item)}},
		"a descriptor":         {Text: packed(rating, ref(item)), References: []event.Reference{ref(packed(item))}},
		"a descriptor of text": {Text: packed(rating, ref(item)), References: []event.Reference{ref(item)}},
		"text of a descriptor": {Text: rating, References: []event.Reference{ref(packed(item))}},
	} {
		w.Format = event.FormatProtobuf
		var ev event.Event
		r, wait := decoderOf(t, &w).DecodeRecord(&ev,
			&event.Record{Value: append([]byte("\x00\x00\x00\x00\x07\x00"), data...), Time: 10_000})
		if r != nil || wait != nil || ev.Label != 4.5 || ev.Time != 9000 || fmt.Sprint(ev.Categorical) != "[u i]" {
			t.Errorf("%s: %v, %v, %+v", name, r, wait, ev)
		}
	}
}

func reason(r *event.Rejection) string {
	if r == nil {
		return ""
	}
	return string(r.Reason)
}
