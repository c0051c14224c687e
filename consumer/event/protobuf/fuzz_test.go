package protobuf

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/eventtest"
)

// FuzzMessages: whatever bytes a message has, nothing panics.
func FuzzMessages(f *testing.F) {
	var decoders []*event.Mapped
	for seed := range uint64(8) {
		c := newWildCase(f, seed)
		f.Add(c.value(f))
		decoders = append(decoders, c.decoder)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, d := range decoders {
			if r, wait := eventtest.Decoded(t, d, data); wait != nil {
				t.Error(wait, r)
			}
		}
	})
}

// FuzzSchemas: whatever text a schema and what it refers to are, or whatever bytes a set of descriptors has, nothing
// panics, and no more memory is taken than there is for it.
func FuzzSchemas(f *testing.F) {
	for seed := range uint64(8) {
		c := newWildCase(f, seed)
		f.Add(c.text, "", false, c.value(f))
	}
	f.Add(`import "a.proto"; message R { A a = 1; double rating = 2; }`, "message A {}", false, []byte{0, 8, 1})
	f.Add("CgdhLnByb3Rv", "", true, []byte{0})
	f.Add("CgdhLnByb3Rv", "CgdhLnByb3Rv", false, []byte{0})
	f.Fuzz(func(t *testing.T, text, reference string, isSet bool, data []byte) {
		w := &event.Writer{Format: event.FormatProtobuf, Text: text, IsSet: isSet,
			References: []event.Reference{{Name: "a.proto", Text: reference}}}
		d := decoderOf(t, w)
		eventtest.Compiles(t, len(text)+len(reference), func() { _, _ = Compile(w, nil, d.Asked(), 32) })
		_, _ = eventtest.Decoded(t, d, data)
	})
}

// TestTextsAgain: an object as text that a message has again and again is kept once, the last one, and read in an
// envelope of Debezium alone: elsewhere text has no members.
func TestTextsAgain(t *testing.T) {
	w := &event.Writer{Format: event.FormatProtobuf, Text: `syntax = "proto3";
message R { string what = 1; double rating = 2; int64 ts = 3; string user = 4; }
message E { string op = 1; R after = 2; }`}
	const rest = "\x11\x00\x00\x00\x00\x00\x00\x12\x40\x18\x09\x22\x01u"
	row := []byte(strings.Repeat("\x0a\x00", 7000) + "\x0a\x0c{\"item\":\"i\"}" + rest)
	change := protowire.AppendBytes([]byte("\x02\x02\x0a\x01c\x12"), row)
	from, err := event.ParseSource("after.what.item")
	if err != nil {
		t.Fatal(err)
	}
	debezium := event.NewMapped(ratings, event.DefaultLimits(), &event.Mapping{Envelope: event.Debezium,
		Fields: []event.MappedField{{Name: "item", From: from}}}, nil)
	debezium.Read(event.Reading{Format: event.FormatProtobuf, Writers: known{seven: w},
		Compilers: map[string]event.Compiler{event.FormatProtobuf: Compile}})
	for name, c := range map[string]struct {
		decoder *event.Mapped
		value   []byte
		item    string
	}{
		"a row":    {decoderOf(t, w), append([]byte{0}, row...), ""},
		"a change": {debezium, change, "i"},
	} {
		if r, wait := eventtest.Decoded(t, c.decoder, c.value); r != nil || wait != nil {
			t.Errorf("%s: %v, %v", name, r, wait)
		}
		var ev event.Event
		record := event.Record{Value: append([]byte(eventtest.Seven), c.value...), Time: 5}
		if _, _ = c.decoder.DecodeRecord(&ev, &record); ev.Label != 4.5 || ev.Categorical[1] != c.item {
			t.Errorf("%s: %+v", name, ev)
		}
	}
}
