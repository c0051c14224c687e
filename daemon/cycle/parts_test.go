package cycle

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/solver"
)

func TestPayloadRoundTrip(t *testing.T) {
	for _, ev := range []event.Event{
		{Weight: 1},
		{Label: 4, Weight: 0.5, Time: -3, Categorical: []string{"u", ""}, Numeric: []float64{1.5, math.Inf(1)}, Multi: [][]string{{}, {"a", "b"}}},
		{Weight: 1, Time: math.MaxInt64, Classes: []string{"x\x00y"}, Numeric: []float64{}},
	} {
		b := AppendEvent(nil, &ev)
		var got event.Event
		if err := DecodeEvent(&got, b, interner{}); err != nil {
			t.Fatalf("%+v: %v", ev, err)
		}
		if again := AppendEvent(nil, &got); !slices.Equal(again, b) {
			t.Errorf("%+v came back as %+v", ev, got)
		}
		for n := range b {
			if DecodeEvent(&got, b[:n], interner{}) == nil {
				t.Errorf("%d of %d bytes are accepted", n, len(b))
			}
		}
		if DecodeEvent(&got, append(b, 0), interner{}) == nil {
			t.Error("a byte too many is accepted")
		}
	}
}

func FuzzDecodeEvent(f *testing.F) {
	f.Add(AppendEvent(nil, &event.Event{Weight: 1, Categorical: []string{"a"}, Numeric: []float64{1}, Multi: [][]string{{"x"}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var ev event.Event
		if DecodeEvent(&ev, b, interner{}) == nil {
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
	s := newSlots(limit)
	s.evicted = new(atomic.Int64)
	evicted := int64(0)
	var recent []string // newest last
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		field, name := r.IntN(2), fmt.Sprint(r.IntN(limit+3))
		key := fmt.Sprint(field, name)
		known := slices.Contains(recent, key)
		if got := s.find(field, name) >= 0; got != known {
			t.Fatalf("%s: found %v, want %v", key, got, known)
		}
		_, fresh := s.touch(s.find(field, name), field, name)
		if fresh == known {
			t.Fatalf("%s: fresh %v, known %v", key, fresh, known)
		}
		recent = append(slices.DeleteFunc(recent, func(k string) bool { return k == key }), key)
		if len(recent) > limit {
			recent = recent[1:]
			evicted++
		}
	}
	if got := s.evicted.Load(); got != evicted || got == 0 {
		t.Errorf("%d names gave up their slot, want %d", got, evicted)
	}
}

// TestProgressiveWindow compares the running sums with sums over the outcomes themselves.
func TestProgressiveWindow(t *testing.T) {
	target := newCycle(t, ratingsModel(nil)).target
	p := newProgressive(target, 7, true)
	r := rand.New(rand.NewPCG(2, 2))
	var all [][numRoles]outcome
	for n := range 100 {
		var o [numRoles]outcome
		for i := range o {
			if i != published || n >= 20 {
				o[i].number(r.NormFloat64())
			}
		}
		all = append(all, o)
		p.add(&o, compared{})
		last := all[max(0, len(all)-7):]
		for role := range numRoles {
			count, square := int64(0), 0.0
			for _, o := range last {
				if o[role].present {
					count++
					square += o[role].square
				}
			}
			if w := p.window()[role]; w.N != count || math.Abs(w.Square-square) > 1e-9 {
				t.Fatalf("event %d role %d: window %d, %g; by definition %d, %g", n, role, w.N, w.Square, count, square)
			}
		}
	}
	if p.sums.NoModel != 20 || p.sums.N != 100 {
		t.Errorf("%d of %d events without a model", p.sums.NoModel, p.sums.N)
	}
	b, err := p.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	again := newProgressive(target, 7, true)
	if err := again.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(again.sums, p.sums) {
		t.Errorf("sums %+v came back as %+v, error %v", p.sums, again.sums, err)
	}
}

// TestMapModelIsExact: on events whose names both vocabularies know, a mapped model predicts the same.
func TestMapModelIsExact(t *testing.T) {
	events := stream(9, 400)
	schema := ratingsModel(nil).Schema.Event()
	from := buildVocabulary(&schema, events, false, 1000, nil, nil)
	extra := slices.Clone(events)
	extra = append(extra, event.Event{Categorical: []string{"a-new-user", "zz-new-item"}})
	to := buildVocabulary(&schema, extra, false, 1000, nil, nil)
	r := rand.New(rand.NewPCG(3, 3))
	model := solver.NewModel(solver.ANOVA, from.NumColumns(), 2, true)
	model.NumBasis = 3
	for range from.NumColumns() * 3 {
		model.Basis = append(model.Basis, r.NormFloat64())
	}
	for range 6 {
		model.Weights = append(model.Weights, r.NormFloat64())
	}
	for i := range model.Linear {
		model.Linear[i] = r.NormFloat64()
	}
	mapped := mapModel(model, from, to)
	a, b := newScorer(model, from), newScorer(mapped, to)
	x, y := make([]float64, 2), make([]float64, 2)
	for i := range events {
		a.outputs(x, &events[i])
		b.outputs(y, &events[i])
		for c := range x {
			if math.Abs(x[c]-y[c]) > 1e-9*(1+math.Abs(x[c])) {
				t.Fatalf("event %d: %g before, %g after", i, x[c], y[c])
			}
		}
	}
	for c := range 3 {
		norm := 0.0
		for j := range mapped.NumFeatures {
			norm += mapped.Basis[j*3+c] * mapped.Basis[j*3+c]
		}
		if math.Abs(norm-1) > 1e-12 {
			t.Errorf("basis vector %d has norm² %g", c, norm)
		}
	}
}

func TestVocabularyIsCappedByCountThenName(t *testing.T) {
	schema := ratingsModel(nil).Schema.Event()
	var events []event.Event
	for _, names := range [][]string{{"b", "x"}, {"a", "x"}, {"c", "y"}, {"c", "y"}} {
		events = append(events, event.Event{Categorical: names})
	}
	v := buildVocabulary(&schema, events, false, 3, nil, nil)
	if want := [][]string{{"c"}, {"x", "y"}}; !reflect.DeepEqual(v.Names, want) || v.Dropped != 2 {
		t.Errorf("kept %v without %d, want %v without 2", v.Names, v.Dropped, want)
	}
	index, _ := v.Encode(nil, nil, &events[0])
	if !slices.Equal(index, []int32{1}) {
		t.Errorf("an event with one unknown name has columns %v", index)
	}
}

func TestBacklogCut(t *testing.T) {
	var b backlog
	for i := range 10 {
		b.add(Position{"t", int32(i % 2), int64(i)}, []byte{byte(i)}, nil)
	}
	b.cut([]report.Cut{{Topic: "t", Partition: 0, Next: 6}, {Topic: "t", Partition: 1, Next: 9}})
	left, _ := b.from(0)
	var got []byte
	for _, p := range left {
		got = append(got, p.payload...)
	}
	if !slices.Equal(got, []byte{6, 8, 9}) {
		t.Errorf("left %v, want 6, 8 and 9", got)
	}
}

// TestBacklogGoesOn: who reads a backlog piece by piece gets every event once and in order, but for what was dropped before it was read.
func TestBacklogGoesOn(t *testing.T) {
	var b backlog
	for i := range 17 {
		b.add(Position{"t", 0, int64(i)}, binary.BigEndian.AppendUint32(nil, uint32(i)), nil)
	}
	b.cut([]report.Cut{{Topic: "t", Partition: 0, Next: 7}})
	at, asked, seen := 17, 0, 7
	for _, more := range []int{0, 100, maxBacklog, 3 * maxBacklog / 2, 1} {
		for range more {
			b.add(Position{"t", 0, int64(at)}, binary.BigEndian.AppendUint32(nil, uint32(at)), nil)
			at++
		}
		var payloads []pending
		payloads, asked = b.from(asked)
		if n := len(payloads); n > maxBacklog || more <= maxBacklog/2 && n != at-seen || n < min(at-seen, maxBacklog-maxBacklog/backlogBlocks) {
			t.Fatalf("%d events of %d to %d", n, seen, at)
		}
		seen = at - len(payloads)
		for _, p := range payloads {
			if got := int(binary.BigEndian.Uint32(p.payload)); got != seen {
				t.Fatalf("event %d, want %d", got, seen)
			}
			seen++
		}
	}
}

// TestWholeLabelsAreKeys: a label has the key that it is written as, whether that was written before or not.
func TestWholeLabelsAreKeys(t *testing.T) {
	target := newCycle(t, ratingsModel(nil)).target
	for _, label := range []float64{0, math.Copysign(0, -1), 1, 3, 31, 32, 1000, -1, 2.5, 0.04, 31.5, math.Inf(1), math.NaN()} {
		if got, want := labelKey(target, &event.Event{Label: label}), strconv.FormatFloat(label, 'g', labelDigits, 64); got != want {
			t.Errorf("%g: key %q, want %q", label, got, want)
		}
	}
}
