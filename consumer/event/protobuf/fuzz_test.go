package protobuf

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/refitd/refitd/consumer/event"
)

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// decoded decodes a value, and fails the test where that takes more memory than an event may have bytes. Values of at
// most a quarter of that are decoded: what is kept of one may be longer than it, as bytes are in base64.
func decoded(t *testing.T, d *event.Mapped, value []byte) (r *event.Rejection, wait *event.Wait) {
	t.Helper()
	most := event.DefaultLimits().MaxEventBytes
	if len(value) > most/4 {
		t.Skipf("%d bytes: a value of at most %d is decoded", len(value), most/4)
	}
	// The first time the message is compiled, and room is made that is kept.
	record := event.Record{Value: append([]byte{0, 0, 0, 0, 7}, value...), Time: 5}
	if r, wait = d.DecodeRecord(new(event.Event), &record); wait != nil {
		return r, wait // it is compiled again for the next record
	}
	var ev event.Event
	if n := allocated(func() { r, wait = d.DecodeRecord(&ev, &record) }); n > uint64(most) {
		t.Errorf("%d bytes are allocated for a value of %d", n, len(value))
	}
	return r, wait
}

// FuzzMessages: whatever bytes a message has, nothing panics.
func FuzzMessages(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 2))
	w := &event.Writer{Format: event.FormatProtobuf, Text: newSchema(r)}
	file, err := Describe(w)
	if err != nil {
		f.Fatal(err)
	}
	for range 10 {
		data, err := proto.Marshal(message(r, file.Messages().ByName("Rating")))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append([]byte{2, 4}, data...))
	}
	d := decoderOf(f, w)
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, wait := decoded(t, d, data); wait != nil {
			t.Error(wait, r)
		}
	})
}

// FuzzSchemas: whatever text a schema and what it refers to are, or whatever bytes a set of descriptors has, nothing
// panics, and no more memory is taken than there is for it.
func FuzzSchemas(f *testing.F) {
	text := newSchema(rand.New(rand.NewPCG(3, 2)))
	f.Add(text, "", false, []byte{2, 4, 8, 1})
	f.Add(`import "a.proto"; message R { A a = 1; double rating = 2; }`, "message A {}", false, []byte{0, 8, 1})
	f.Add("CgdhLnByb3Rv", "", true, []byte{0})
	f.Add("CgdhLnByb3Rv", "CgdhLnByb3Rv", false, []byte{0})
	f.Fuzz(func(t *testing.T, text, reference string, isSet bool, data []byte) {
		if n := len(text) + len(reference); n > 4<<10 {
			t.Skipf("%d bytes: a schema of at most %d is compiled", n, 4<<10)
		}
		w := &event.Writer{Format: event.FormatProtobuf, Text: text, IsSet: isSet,
			References: []event.Reference{{Name: "a.proto", Text: reference}}}
		d := decoderOf(t, w)
		began := time.Now()
		n := allocated(func() { _, _ = Compile(w, nil, d.Asked(), 32) })
		if took := time.Since(began); n > 16<<20 || took > 5*time.Second {
			t.Errorf("%d bytes are allocated and %v taken for a schema of %d", n, took, len(text)+len(reference))
		}
		_, _ = decoded(t, d, data)
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
		if r, wait := decoded(t, c.decoder, c.value); r != nil || wait != nil {
			t.Errorf("%s: %v, %v", name, r, wait)
		}
		var ev event.Event
		record := event.Record{Value: append([]byte{0, 0, 0, 0, 7}, c.value...), Time: 5}
		if _, _ = c.decoder.DecodeRecord(&ev, &record); ev.Label != 4.5 || ev.Categorical[1] != c.item {
			t.Errorf("%s: %+v", name, ev)
		}
	}
}
