package rows

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/report"
)

func TestPayloadRoundTrip(t *testing.T) {
	for _, ev := range []event.Event{
		{Weight: 1},
		{Label: 4, Weight: 0.5, Time: -3, Categorical: []string{"u", ""}, Numeric: []float64{1.5, math.Inf(1)},
			Multi: [][]string{{}, {"a", "b"}}},
		{Weight: 1, Time: math.MaxInt64, Classes: []string{"x\x00y"}, Numeric: []float64{}},
	} {
		b := AppendEvent(nil, &ev)
		var got event.Event
		if err := DecodeEvent(&got, b, Interner{}); err != nil {
			t.Fatalf("%+v: %v", ev, err)
		}
		if again := AppendEvent(nil, &got); !slices.Equal(again, b) {
			t.Errorf("%+v came back as %+v", ev, got)
		}
		for n := range b {
			if DecodeEvent(&got, b[:n], Interner{}) == nil {
				t.Errorf("%d of %d bytes are accepted", n, len(b))
			}
		}
		if DecodeEvent(&got, append(b, 0), Interner{}) == nil {
			t.Error("a byte too many is accepted")
		}
	}
}

// TestAppendEventAllocatesOnce: without memory for it an event takes one piece, and its bytes are those of one that is
// appended where there is some.
func TestAppendEventAllocatesOnce(t *testing.T) {
	ev := event.Event{Label: 4, Weight: 0.5, Time: 1700000000000, Classes: []string{"yes"},
		Categorical: []string{"user-123456", "item"}, Numeric: []float64{1.5, 2}, Multi: [][]string{{"a", "b"}, nil}}
	var b []byte
	if n := testing.AllocsPerRun(100, func() { b = AppendEvent(nil, &ev) }); n > 1 {
		t.Errorf("%v pieces of memory", n)
	}
	if want := AppendEvent([]byte{}, &ev); !slices.Equal(b, want) {
		t.Errorf("bytes %v, want %v", b, want)
	}
}

func FuzzDecodeEvent(f *testing.F) {
	f.Add(
		AppendEvent(nil,
			&event.Event{Weight: 1, Categorical: []string{"a"}, Numeric: []float64{1}, Multi: [][]string{{"x"}}}),
	)
	f.Fuzz(func(t *testing.T, b []byte) {
		var ev event.Event
		if DecodeEvent(&ev, b, Interner{}) == nil {
			if again := AppendEvent(nil, &ev); len(again) > len(b)+1 {
				t.Errorf("%d bytes decode to an event of %d", len(b), len(again))
			}
		}
	})
}

// TestSlotsAgainstList compares the slots with a list of names in order of use.
func TestSlotsAgainstList(t *testing.T) {
	for _, limit := range []int{5, 100} { // of the table of the index a third, and almost half
		slotsAgainstList(t, limit)
	}
}

func slotsAgainstList(t *testing.T, limit int) {
	t.Helper()
	s := NewSlots(limit)
	s.Evicted = new(atomic.Int64)
	evicted := int64(0)
	var recent []string // newest last
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		field, name := r.IntN(2), fmt.Sprint(r.IntN(limit+3))
		key := fmt.Sprint(field, name)
		known := slices.Contains(recent, key)
		if got := s.Find(field, name) >= 0; got != known {
			t.Fatalf("%s: found %v, want %v", key, got, known)
		}
		_, fresh := s.Touch(s.Find(field, name), field, name)
		if fresh == known {
			t.Fatalf("%s: fresh %v, known %v", key, fresh, known)
		}
		recent = append(slices.DeleteFunc(recent, func(k string) bool { return k == key }), key)
		if len(recent) > limit {
			recent = recent[1:]
			evicted++
		}
	}
	if got := s.Evicted.Load(); got != evicted || got == 0 {
		t.Errorf("%d names gave up their slot, want %d", got, evicted)
	}
}

func TestBacklogCut(t *testing.T) {
	var b Backlog
	for i := range 10 {
		b.Add(Position{"t", int32(i % 2), int64(i)}, []byte{byte(i)}, nil)
	}
	b.Cut([]report.Cut{{Topic: "t", Partition: 0, Next: 6}, {Topic: "t", Partition: 1, Next: 9}})
	left, _ := b.From(0)
	var got []byte
	for _, p := range left {
		got = append(got, p.Payload...)
	}
	if !slices.Equal(got, []byte{6, 8, 9}) {
		t.Errorf("left %v, want 6, 8 and 9", got)
	}
}

// TestBacklogInPieces: a caller that reads a backlog piece by piece gets every event once and in order, but for what
// was dropped before it was read.
func TestBacklogInPieces(t *testing.T) {
	var b Backlog
	for i := range 17 {
		b.Add(Position{"t", 0, int64(i)}, binary.BigEndian.AppendUint32(nil, uint32(i)), nil)
	}
	b.Cut([]report.Cut{{Topic: "t", Partition: 0, Next: 7}})
	at, asked, seen := 17, 0, 7
	for _, more := range []int{0, 100, MaxBacklog, 3 * MaxBacklog / 2, 1} {
		for range more {
			b.Add(Position{"t", 0, int64(at)}, binary.BigEndian.AppendUint32(nil, uint32(at)), nil)
			at++
		}
		var payloads []Pending
		payloads, asked = b.From(asked)
		if n := len(payloads); n > MaxBacklog || more <= MaxBacklog/2 && n != at-seen ||
			n < min(at-seen, MaxBacklog-MaxBacklog/backlogBlocks) {
			t.Fatalf("%d events of %d to %d", n, seen, at)
		}
		seen = at - len(payloads)
		for _, p := range payloads {
			if got := int(binary.BigEndian.Uint32(p.Payload)); got != seen {
				t.Fatalf("event %d, want %d", got, seen)
			}
			seen++
		}
	}
}
