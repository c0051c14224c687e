package experts

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// newBoostedTest returns the learner of a model with numbers and one field of names, and its setting.
func newBoostedTest(t *testing.T, m *config.Model) (*Expert, *Setting) {
	t.Helper()
	m.Schema.Categorical = []string{"kind"}
	s, err := SettingOf(m)
	if err != nil {
		t.Fatal(err)
	}
	if !boostedKind.Applies(s) {
		t.Fatal("the model has no boosted trees")
	}
	return boostedKind.New(s, nil, nil), s
}

// ruled returns a random event whose class is a rule on a number and a name, which is another after a change.
func ruled(random *rand.Rand, m *config.Model, changed bool) *event.Event {
	ev := &event.Event{Weight: 1, Numeric: make([]float64, len(m.Schema.Numeric)),
		Categorical: []string{fmt.Sprint("k", random.IntN(4))}}
	for f := range ev.Numeric {
		ev.Numeric[f] = random.NormFloat64()
	}
	class := 0
	if (ev.Numeric[0] > 0.3) == (ev.Categorical[0] == "k1") {
		class = 1
	}
	if changed {
		class = 1 - class
	}
	ev.Classes = m.Schema.Classes[class : class+1]
	return ev
}

// TestBoostedLearnsRules: a rule that is linear in nothing is learned, its opposite within 1,000 events of a change.
// New names, and numbers that are missing or huge, leave outputs finite.
func TestBoostedLearnsRules(t *testing.T) {
	m := cycletest.NumericModel(3, 2)
	b, s := newBoostedTest(t, m)
	random := rand.New(rand.NewPCG(5, 6))
	right, counted := 0, 0
	for i := range 5000 {
		ev := ruled(random, m, i >= 2500)
		out := b.Predict(ev)
		if i >= 1000 && i < 2500 || i >= 3500 {
			if counted++; (out[1] > out[0]) == (ev.Classes[0] == m.Schema.Classes[1]) {
				right++
			}
		}
		b.Learn(ev, &rows.Counted{Shared: true})
	}
	if share := float64(right) / float64(counted); share < 0.95 {
		t.Errorf("%g of the classes are predicted", share)
	}
	for i := range 600 {
		ev := ruled(random, m, false)
		ev.Numeric[0], ev.Numeric[1], ev.Categorical[0] = math.NaN(), math.MaxFloat64, fmt.Sprint("other", i)
		if i%2 == 0 {
			ev.Categorical[0] = ""
		}
		if out := b.Predict(ev); !encode.IsFinite(out) {
			t.Fatalf("outputs %v", out)
		}
		b.Learn(ev, &rows.Counted{Shared: true})
	}
	if n := boostedKind.Footprint(s); n > 8<<20 {
		t.Errorf("it may take %d bytes", n)
	}
}

// TestBoostedCorrects: trees are fitted to corrected labels, as if they had come so.
func TestBoostedCorrects(t *testing.T) {
	m := cycletest.NumericModel(3, 2)
	a, _ := newBoostedTest(t, m)
	b, _ := newBoostedTest(t, m)
	random := rand.New(rand.NewPCG(7, 8))
	var list []*event.Event
	for range boostedFirst - 1 {
		list = append(list, ruled(random, m, false))
	}
	counts := &rows.Counted{Shared: true}
	for i, ev := range list {
		wrong := *ev
		if i%3 == 0 {
			wrong.Classes = m.Schema.Classes[:1]
			if ev.Classes[0] == wrong.Classes[0] {
				wrong.Classes = m.Schema.Classes[1:2]
			}
		}
		a.Predict(ev)
		a.Learn(ev, counts)
		b.Predict(&wrong)
		b.Learn(&wrong, counts)
		if i%3 == 0 {
			of := admission.Correction{Was: &wrong, Is: ev, Counts: counts}
			b.Correct(of)
		}
	}
	next := ruled(random, m, false)
	for _, of := range []*Expert{a, b} {
		of.Predict(next)
		of.Learn(next, counts)
	}
	probe := ruled(random, m, false)
	if x, y := a.Learner.(*Boosted), b.Learner.(*Boosted); x.each[0].ensemble == nil || y.each[0].ensemble == nil {
		t.Fatal("nothing was fitted")
	} else {
		x.Gather(probe)
		y.Gather(probe)
		if want, got := x.each[0].outputs, y.each[0].outputs; !slices.Equal(got, want) {
			t.Errorf("outputs %v after corrections, %v of labels that came so", got, want)
		}
	}
}

// BenchmarkBoosted is an event of eight numbers and a name with two classes, fits included.
func BenchmarkBoosted(b *testing.B) {
	m := cycletest.NumericModel(8, 2)
	m.Schema.Categorical = []string{"kind"}
	s, err := SettingOf(m)
	if err != nil {
		b.Fatal(err)
	}
	x, random := boostedKind.New(s, nil, nil), rand.New(rand.NewPCG(9, 10))
	counts := &rows.Counted{Shared: true}
	for b.Loop() {
		ev := ruled(random, m, false)
		x.Predict(ev)
		x.Learn(ev, counts)
	}
}
