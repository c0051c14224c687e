package avro

import (
	"encoding/binary"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
)

// decoded decodes a value, and fails the test where that takes more memory than an event may have bytes. Values of at
// most a quarter of that are decoded: what is kept of one may be longer than it, as bytes are in base64.
func decoded(t *testing.T, d *event.Mapped, value []byte) (*event.Rejection, *event.Wait) {
	t.Helper()
	most := event.DefaultLimits().MaxEventBytes
	if len(value) > most/4 {
		t.Skipf("%d bytes: a value of at most %d is decoded", len(value), most/4)
	}
	// The first time a schema is compiled, and room is made that is kept.
	var first, second event.Event
	if r, wait := d.DecodeRecord(&first, &event.Record{Value: value, Time: 5}); wait != nil {
		return r, wait // it is compiled again for the next record
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, wait := d.DecodeRecord(&second, &event.Record{Value: value, Time: 5})
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > uint64(most) {
		t.Errorf("%d bytes are allocated for a value of %d", n, len(value))
	}
	return r, wait
}

// compiled fails the test where compiling a schema takes more than is thought of in the footprint of a model.
func compiled(t *testing.T, text string, compile func()) {
	t.Helper()
	if len(text) > 4<<10 {
		t.Skipf("%d bytes: a schema of at most %d is compiled", len(text), 4<<10)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	compile()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("%v for a schema of %d bytes", took, len(text))
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
		t.Errorf("%d bytes are allocated for a schema of %d", n, len(text))
	}
}

// FuzzValues: whatever bytes a value has, nothing panics, and it is an event or rejected.
func FuzzValues(f *testing.F) {
	var decoders []*event.Mapped
	for seed := range uint64(8) {
		text, user, value := newEvolution(seed)
		f.Add(encoded(f, text, value))
		decoders = append(decoders, decoderOf(place(f, "user="+user, "item=what.item"), known{seven: written(text)}, nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, d := range decoders {
			if r, wait := decoded(t, d, confluent(data)); wait != nil {
				t.Error(r, wait)
			}
		}
	})
}

// FuzzSchemas: whatever text the schemas of a writer and of a reader are, nothing panics, and no more memory is taken
// than there is for it.
func FuzzSchemas(f *testing.F) {
	text, _, _ := newEvolution(1)
	f.Add(text, "", []byte{1, 2, 3})
	f.Add(rowSchema, rowSchema, []byte{0, 2})
	f.Add(`{"type":"map","values":{"type":"array","items":"null"}}`, "", []byte(listsOfNothing(100)))
	f.Fuzz(func(t *testing.T, text, reader string, data []byte) {
		w, fixed := written(text), (*event.Writer)(nil)
		if reader != "" {
			fixed = written(reader)
		}
		d := decoderOf(place(t, "item=what.item"), known{seven: w}, fixed)
		compiled(t, text+reader, func() { _, _ = Compile(w, fixed, d.Asked(), 32) })
		_, _ = decoded(t, d, confluent(data))
	})
}

// listsOfNothing has n entries of a map called tags, each a list of some hundred values that take no bytes.
func listsOfNothing(n int) string {
	return string(binary.AppendVarint(nil, int64(n))) + strings.Repeat("\x08tags\xfe\x07\x00", n) + "\x00"
}

// TestListsAgain: a list that a value has again and again takes no more memory than the fields may have.
func TestListsAgain(t *testing.T) {
	const n = 60
	d := decoderOf(place(t), known{seven: written(`{"type":"map","values":{"type":"array","items":"null"}}`)}, nil)
	r, _ := decoded(t, d, confluent([]byte(listsOfNothing(n))))
	if reason(r) != "too_large" {
		t.Errorf("%v", r)
	}
}
