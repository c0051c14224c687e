package consumer

import (
	"math"
	"strings"
	"testing"
	"time"
)

// TestResponsesOfTwoLeaders delivers what two leaders answered in an order that only a change of leader makes.
func TestResponsesOfTwoLeaders(t *testing.T) {
	m := newMemory()
	r := newRig(t, m, []string{"127.0.0.1:1"}, []string{"t"}, nil)
	p := r.add(tp("t", 0), 0, false, time.Now())
	p.fetched = 30
	batch := func(base int64) []byte {
		b := rawBatch{base: base, lastDelta: 9}
		for delta := range int64(10) {
			b.records = append(b.records,
				rawRecord{delta: delta, value: []byte(numbers(int(base+delta), int(base+delta+1))[0])})
		}
		return b.bytes(t)
	}
	for _, step := range []struct{ from, applied, fetched int64 }{
		{0, 10, 30},
		{20, 10, 10}, // too early: asked for again
		{10, 20, 20},
		{10, 20, 20}, // twice
		{20, 30, 30},
	} {
		o := portion{p: p, from: step.from, records: batch(step.from), end: 40}
		if err := r.deliverPortion(t.Context(), &o); err != nil {
			t.Fatal(err)
		}
		if p.applied != step.applied || p.fetched != step.fetched {
			t.Fatalf("after %d: applied %d, fetched %d, want %+v", step.from, p.applied, p.fetched, step)
		}
	}
	wide := portion{p: p, from: 20, records: append(batch(20), batch(30)...), end: 40} // overlaps what is applied
	stale := portion{p: p, from: 0, halt: "of long ago"}
	for _, o := range []*portion{&wide, &stale} {
		if err := r.deliverPortion(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	m.check(t)
	equalValues(t, m, p.TopicPartition, numbers(0, 40))
	if p.halted != "" {
		t.Errorf("halted by a response that is overtaken: %s", p.halted)
	}
}

// TestGoodAnswerWithHigherLogStart has a broker that answers although its log starts above the offset asked for.
func TestGoodAnswerWithHigherLogStart(t *testing.T) {
	r := newRig(t, newMemory(), []string{"127.0.0.1:1"}, []string{"t"}, nil)
	p := r.add(tp("t", 0), 10, true, time.Now())
	a := &partitionResponse{topic: "t", logStart: 60, high: 100, stable: 100,
		records: rawBatch{base: 60, records: []rawRecord{{value: []byte("x")}}}.bytes(t)}
	o, ok := r.accept(t.Context(), question{p: p, from: 10}, a)
	if !ok || !o.gap || len(o.records) > 0 || !strings.Contains(o.halt, "gap of 50 offsets") || !p.waiting ||
		p.fetched != 10 {
		t.Errorf("%v %+v, partition %+v", ok, o, p)
	}
	if p.wants(-1, time.Now()) || p.until != math.MaxInt64 {
		t.Errorf("fetched while the gap is being handled: %+v", p)
	}
}
