package protobuf

import (
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
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

// mapping has the item in a message within.
func mapping(t testing.TB) *event.Mapping {
	from, err := event.ParseSource("what.item")
	if err != nil {
		t.Fatal(err)
	}
	return &event.Mapping{Fields: []event.MappedField{{Name: "item", From: from}}}
}

type known map[framing.ID]*event.Writer

func (k known) Writer(id framing.ID) *event.Writer { return k[id] }

var seven = framing.ID{Kind: framing.NumberID, Number: 7}

func decoderOf(t testing.TB, w *event.Writer) *event.Mapped {
	d := event.NewMapped(ratings, event.DefaultLimits(), mapping(t), nil)
	d.Read(event.Reading{Format: event.FormatProtobuf, Writers: known{seven: w},
		Compilers: map[string]event.Compiler{event.FormatProtobuf: Compile}})
	return d
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
	d.Read(event.Reading{Format: event.FormatProtobuf, Writers: known{{Kind: framing.GlobalID, Number: 3}: w},
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
