// Package eventtest has what the fuzzers of several formats share. It is for tests alone.
package eventtest

import (
	"flag"
	"runtime"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
)

// Seven is Confluent's frame for the schema with the ID 7.
const Seven = "\x00\x00\x00\x00\x07"

var first = flag.Uint64("first", 0, "the first seed of random schemas and evolutions")

// Seeds returns so many seeds of random schemas, from -first on.
func Seeds(n uint64) (list []uint64) {
	for i := range n {
		list = append(list, *first+i)
	}
	return list
}

// Allocated returns how many bytes f allocates.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Decoded decodes a value behind the frame of Seven, and fails the test where that takes more memory than an event may
// have bytes. Values of at most a quarter of that are decoded: what is kept of one may be longer than it, as bytes are
// in base64.
func Decoded(t *testing.T, d *event.Mapped, value []byte) (r *event.Rejection, wait *event.Wait) {
	t.Helper()
	most := event.DefaultLimits().MaxEventBytes
	if len(value) > most/4 {
		t.Skipf("%d bytes: a value of at most %d is decoded", len(value), most/4)
	}
	// The first time a schema is compiled, and room is made that is kept.
	record := event.Record{Value: append([]byte(Seven), value...), Time: 5}
	if r, wait = d.DecodeRecord(new(event.Event), &record); wait != nil {
		return r, wait // it is compiled again for the next record
	}
	var ev event.Event
	if n := Allocated(func() { r, wait = d.DecodeRecord(&ev, &record) }); n > uint64(most) {
		t.Errorf("%d bytes are allocated for a value of %d", n, len(value))
	}
	return r, wait
}

// Compiles fails the test where compiling a schema of so many bytes takes more memory than is thought of in the
// footprint of a model, or seconds. Long schemas are not compiled.
func Compiles(t *testing.T, bytes int, compile func()) {
	t.Helper()
	const longest, most, slow = 4 << 10, 16 << 20, 5 * time.Second
	if bytes > longest {
		t.Skipf("%d bytes: a schema of at most %d is compiled", bytes, longest)
	}
	began := time.Now()
	n := Allocated(compile)
	if took := time.Since(began); n > most || took > slow {
		t.Errorf("%d bytes are allocated and %v taken for a schema of %d", n, took, bytes)
	}
}
