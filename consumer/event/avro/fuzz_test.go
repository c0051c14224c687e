package avro

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/eventtest"
)

// FuzzValues: whatever bytes a value has, nothing panics, and it is an event or rejected.
func FuzzValues(f *testing.F) {
	var decoders []*event.Mapped
	for seed := range uint64(8) {
		c := newWildCase(f, seed)
		f.Add(c.value(nil, c.written, 5))
		decoders = append(decoders, c.decoder)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, d := range decoders {
			if r, wait := eventtest.Decoded(t, d, data); wait != nil {
				t.Error(r, wait)
			}
		}
	})
}

// FuzzSchemas: whatever text the schemas of a writer and of a reader are, nothing panics, and no more memory is taken
// than there is for it.
func FuzzSchemas(f *testing.F) {
	for seed := range uint64(8) {
		c := newWildCase(f, seed)
		f.Add(c.text, c.readAs, c.value(nil, c.written, 5))
	}
	f.Add(rowSchema, rowSchema, []byte{0, 2})
	f.Add(`{"type":"map","values":{"type":"array","items":"null"}}`, "", []byte(listsOfNothing(100)))
	f.Fuzz(func(t *testing.T, text, reader string, data []byte) {
		w, fixed := written(text), (*event.Writer)(nil)
		if reader != "" {
			fixed = written(reader)
		}
		d := decoderOf(place(t, "item=what.item"), known{seven: w}, fixed)
		eventtest.Compiles(t, len(text)+len(reader), func() { _, _ = Compile(w, fixed, d.Asked(), 32) })
		_, _ = eventtest.Decoded(t, d, data)
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
	r, _ := eventtest.Decoded(t, d, []byte(listsOfNothing(n)))
	if reason(r) != "too_large" {
		t.Errorf("%v", r)
	}
}
