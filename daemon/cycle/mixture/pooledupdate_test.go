package mixture

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
)

// TestPooledWeights: where two forms know half of the label each, their sum by the weights is what both say together,
// for numbers and classes, and what Learn returns. Weights of a form that is gone count for the first. The first
// pooledEvents have none.
func TestPooledWeights(t *testing.T) {
	for _, task := range []string{"regression", "binary"} {
		m := config.DefaultModel()
		m.Schema = config.Schema{Task: task, Label: "y", TimeUnit: "ms", Categorical: []string{"a"}}
		m.Resolve()
		target, err := encode.NewTarget(&m, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !IsPooled(target) {
			t.Fatalf("%s is not pooled", task)
		}
		u, r := NewPooledUpdate(target), rand.New(rand.NewPCG(1, 2))
		outputs, targets := make([]float64, NumForms), make([]float64, 1)
		for f := range outputs {
			outputs[f] = math.NaN()
		}
		sum := func(w *PooledWeights) float64 {
			return w.Constant[0] + w.Factors[0]*outputs[FormFoldIn] + w.Factors[4]*outputs[FormTrees]
		}
		two := func(f Variant) bool { return f == FormFoldIn || f == FormTrees }
		one := func(f Variant) bool { return f == FormFoldIn }
		miss := 0.0
		for i := range 4000 {
			a, b := r.NormFloat64(), r.NormFloat64()
			outputs[FormFoldIn], outputs[FormTrees] = a, b
			// Of numbers the truth is 2 + (a+b)/2, as weights have a sum near 1; of classes the log odds are 1 + 2a + b.
			ev := event.Event{Label: 2 + (a+b)/2 + 0.1*r.NormFloat64()}
			truth := ev.Label
			if task == "binary" {
				if truth, ev.Label = 1+2*a+b, 0; r.Float64() < 1/(1+math.Exp(-truth)) {
					ev.Label = 1
				}
			}
			target.Encode(targets, &ev)
			w := u.Weights(two)
			if (w == nil) != (i < pooledEvents) {
				t.Fatalf("weights %v after %d events", w, i)
			}
			said := u.Learn(outputs, ev.Label, targets)
			if w == nil {
				continue
			}
			if w.Factors[1]+w.Factors[2]+w.Factors[3] != 0 {
				t.Fatalf("weights %v of forms that are not there", w.Factors)
			}
			if task == "regression" && math.Abs(said[0]-sum(w)) > 1e-9 {
				t.Fatalf("the sum is %g, %g was said", sum(w), said[0])
			}
			if i >= 3000 {
				miss += math.Abs(sum(w)-truth) / 1000
			}
		}
		if miss > 0.4 {
			t.Errorf("%s: outputs are %g off on average", task, miss)
		}
		with, without := u.Weights(two), u.Weights(one)
		if math.Abs(with.Factors[0]+with.Factors[4]-without.Factors[0]) > 1e-12 || without.Factors[4] != 0 {
			t.Errorf("weights %v, without trees %v", with.Factors, without.Factors)
		}
		u.Used = with
		if !u.Has(FormTrees) || u.Has(FormBlend) {
			t.Error("forms of the sum")
		}
	}
}

// TestVariantThatWasMissing: a variant of classes that was missing comes back without weight, which the first one has
// had for it, and one that goes leaves it to the others.
func TestVariantThatWasMissing(t *testing.T) {
	m := config.DefaultModel()
	m.Schema = config.Schema{Task: "binary", Label: "y", TimeUnit: "ms", Categorical: []string{"a"}}
	m.Resolve()
	target, err := encode.NewTarget(&m, nil)
	if err != nil {
		t.Fatal(err)
	}
	u, r := NewPooledUpdate(target), rand.New(rand.NewPCG(3, 2))
	trees := slices.Index(PooledForms[:], FormTrees)
	outputs, targets := make([]float64, NumForms), make([]float64, 1)
	learn := func(n int, isThere bool) {
		for range n {
			for f := range outputs {
				outputs[f] = math.NaN()
			}
			a := r.NormFloat64()
			if outputs[FormFoldIn] = a; isThere {
				outputs[FormTrees] = r.NormFloat64() // says nothing of the label
			}
			ev := event.Event{}
			if r.Float64() < 1/(1+math.Exp(-2*a)) {
				ev.Label = 1
			}
			target.Encode(targets, &ev)
			u.Learn(outputs, ev.Label, targets)
		}
	}
	all := func(f Variant) bool { return f == FormFoldIn || f == FormTrees }
	learn(2000, false)
	learn(1, true)
	if w := u.Weights(all).Factors[trees]; math.Abs(w) > 0.05 {
		t.Errorf("weight %g of a variant that has come", w)
	}
	learn(2000, true)
	learn(1, false)
	learn(2000, false)
	learn(1, true)
	if w := u.Weights(all).Factors; math.Abs(w[trees]) > 0.05 || w[0] < 1 {
		t.Errorf("weights %v after a variant has come back", w)
	}
}
