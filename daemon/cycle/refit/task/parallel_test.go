package task

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// TestInParallel: both parts run, one after the other with one worker and concurrently with two. A panic of either part
// reaches the caller once both have ended, with the stack where it happened.
func TestInParallel(t *testing.T) {
	var order []string
	one := &Task{Process: Process{Workers: 1}}
	one.InParallel(func() { order = append(order, "f") }, func() { order = append(order, "g") })
	if !slices.Equal(order, []string{"f", "g"}) {
		t.Errorf("one worker ran %v", order)
	}
	two, met := &Task{Process: Process{Workers: 2}}, make(chan bool)
	two.InParallel(func() { met <- true }, func() { <-met })
	for _, workers := range []int{1, 2} {
		for name, inG := range map[string]bool{"f": false, "g": true} {
			t.Run(name, func(t *testing.T) {
				var ended atomic.Int32
				part := func(panics bool) func() {
					return func() {
						if panics {
							panic("division")
						}
						ended.Add(1)
					}
				}
				defer func() {
					v := recover()
					if p, ok := v.(*stackedPanic); ok {
						if p.String() != "division" || !strings.Contains(string(p.Stack()), "parallel_test.go") {
							t.Errorf("recovered %v with the stack %s", p, p.Stack())
						}
						v = p.value
					} else if inG && workers == 2 {
						t.Error("the stack is not known")
					}
					if v != "division" || ended.Load() != 1 && (inG || workers == 2) {
						t.Errorf("recovered %v after %d parts had ended", v, ended.Load())
					}
				}()
				(&Task{Process: Process{Workers: workers}}).InParallel(part(!inG), part(inG))
				t.Error("InParallel returned")
			})
		}
	}
}

// TestSampleIsDecodedInHalves: rows decoded side by side are those of DecodeEvent one by one, over the borders of
// halves and of the arrays that names share, and no event's names are in the way of what another appends to its own. A
// row that does not fit fails the whole, in either half.
func TestSampleIsDecodedInHalves(t *testing.T) {
	n := 2*encode.DecodeBlock + 7
	rowList := make([][]byte, n)
	for i := range rowList {
		ev := event.Event{
			Label:       float64(i),
			Weight:      1,
			Categorical: []string{string(rune('a' + i%7)), string(rune('a' + i%5))},
		}
		rowList[i] = rows.AppendEvent(nil, &ev)
	}
	for _, workers := range []int{1, 2} {
		j := &Task{Process: Process{Workers: workers}}
		for _, train := range []int{0, 5, n - 9, n} {
			rest := rowList[train:]
			s := &encode.Sample{Train: rowList[:train], Select: rest[:len(rest)/2], Gate: rest[len(rest)/2:]}
			a, b, c, err := s.Decode(j.InParallel)
			if err != nil {
				t.Fatal(err)
			}
			got := slices.Concat(a, b, c)
			for i := range got {
				_ = append(got[i].Categorical, "another")
			}
			for i, ev := range got {
				var want event.Event
				if err := rows.DecodeEvent(&want, rowList[i], make(rows.Interner)); err != nil {
					t.Fatal(err)
				}
				if ev.Label != want.Label || !slices.Equal(ev.Categorical, want.Categorical) {
					t.Fatalf("%d training rows: row %d is %+v, want %+v", train, i, ev, want)
				}
			}
		}
		for _, bad := range []int{0, n - 1} {
			broken := slices.Clone(rowList)
			broken[bad] = []byte("x")
			if _, _, _, err := (&encode.Sample{Train: broken}).Decode(j.InParallel); err == nil {
				t.Errorf("row %d is no event, and was taken", bad)
			}
		}
	}
}
