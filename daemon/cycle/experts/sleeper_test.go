package experts

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
)

// TestNeighboursKeep: neighbours that have kept events find the same ones when they wake as those that have learned
// each event, to the bit.
func TestNeighboursKeep(t *testing.T) {
	m := cycletest.NumericModel(3, 3)
	m.Schema.Categorical = []string{"kind"}
	target, err := encode.NewTarget(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 8))
	numbers := encode.NewNumberScale(3, target)
	a, b := newNeighbours(numbers, target, 1), newNeighbours(numbers, target, 1)
	targets := make([]float64, target.Outputs())
	for i := range 9000 {
		ev := &event.Event{Numeric: []float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()},
			Categorical: []string{[]string{"x", "y"}[r.IntN(2)]}, Classes: m.Schema.Classes[i%3 : i%3+1], Weight: 1}
		if !target.Encode(targets, ev) {
			t.Fatal("no target")
		}
		numbers.Take(ev)
		a.Gather(ev)
		switch {
		case i < 3000 || i >= 8700:
			if b.Gather(ev); !slices.Equal(a.each[0], b.each[0]) || !slices.Equal(a.each[1], b.each[1]) {
				t.Fatalf("event %d: means %v, awake all along %v", i, b.each, a.each)
			}
			b.Learn(ev, targets, 1)
		default:
			if b.Keep(ev, targets, 1); i == 8699 {
				b.Wake()
			}
		}
		a.Learn(ev, targets, 1)
		numbers.Learn(0)
	}
}

// TestBoostedKeep: boosted trees that have kept events in which a rule has changed know the new one when they wake.
func TestBoostedKeep(t *testing.T) {
	m := cycletest.NumericModel(3, 2)
	b, _ := newBoostedTest(t, m)
	random := rand.New(rand.NewPCG(5, 6))
	for range 1500 {
		ev := ruled(random, m, false)
		b.Take(ev)
		b.Predict(ev)
		b.Learn(ev, nil)
		b.LearnNumbers(0)
	}
	b.SetAsleep(true)
	for range 2000 {
		ev := ruled(random, m, true)
		b.Take(ev)
		b.Relearn(ev, nil)
		b.LearnNumbers(0)
	}
	b.SetAsleep(false)
	right := 0
	for range 500 {
		ev := ruled(random, m, true)
		b.Take(ev)
		if out := b.Predict(ev); (out[1] > out[0]) == (ev.Classes[0] == m.Schema.Classes[1]) {
			right++
		}
	}
	if right < 470 {
		t.Errorf("%d of 500 right after it woke", right)
	}
}
