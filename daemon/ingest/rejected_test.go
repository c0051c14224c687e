package ingest

import (
	"bytes"
	"testing"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/sketch"
)

// TestKeepRejected: what is kept of a rejected record is at most what a dead letter may have: half of it for the key
// and whole headers, and the rest for the value.
func TestKeepRejected(t *testing.T) {
	const most, half = sketch.MaxDeadLetterBytes, sketch.MaxDeadLetterBytes / 2
	header := func(n int) []byte {
		return framing.AppendHeaders(nil, framing.Header{Name: "a", Value: []byte("b")},
			framing.Header{Name: "c", Value: make([]byte, n)})
	}
	short := header(10)
	for name, c := range map[string]struct {
		key, headers, value []byte
		kept                [3]int // bytes of each
	}{
		"all of it":     {[]byte("k"), short, []byte("value"), [3]int{1, len(short), 5}},
		"a value alone": {nil, nil, make([]byte, most+1), [3]int{0, 0, most}},
		"neither":       {nil, nil, nil, [3]int{}},
		"a long key":    {make([]byte, most), short, make([]byte, most), [3]int{half, 0, half}},
		"a long header": {[]byte("k"), header(half), make([]byte, most), [3]int{1, 5, most - 6}},
		"room for them": {make([]byte, 100), header(half - 120), make([]byte, most),
			[3]int{100, half - 120 + 9, half + 11}},
		"an empty key":      {[]byte{}, nil, []byte("v"), [3]int{0, 0, 1}},
		"headers cut short": {nil, short[:len(short)-1], []byte("v"), [3]int{0, 5, 1}},
	} {
		to := sketch.Record{Detail: new(sketch.Detail)}
		arena := keepRejected(&to, &consumer.Record{Key: c.key, Headers: c.headers, Value: c.value}, []byte("before"))
		if got := [3]int{len(to.Detail.Key), len(to.Detail.Headers), len(to.Payload)}; got != c.kept {
			t.Errorf("%s: %d bytes, want %d", name, got, c.kept)
		}
		if !bytes.HasPrefix(c.key, to.Detail.Key) || !bytes.HasPrefix(c.headers, to.Detail.Headers) ||
			!bytes.HasPrefix(c.value, to.Payload) || (c.key == nil) != (to.Detail.Key == nil) ||
			!bytes.HasPrefix(arena, []byte("before")) {
			t.Errorf("%s: %q, %q, %q", name, to.Detail.Key, to.Detail.Headers, to.Payload)
		}
	}
}
