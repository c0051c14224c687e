package mixture

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
)

// TestPooledWeights: where two forms know half of the label each, their sum by the weights is what both say together,
// for numbers and classes, and what Learn returns. Of numbers the weight of a form that is gone counts for the first,
// of classes the other has what is best without it. The first pooledEvents have none.
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
			w := u.Weights(false, two)
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
		with, without := u.Weights(false, two), u.Weights(false, one)
		sumOf, alone := with.Factors[0]+with.Factors[4], without.Factors[0]
		if task == "binary" && !(alone > 1.2 && alone < with.Factors[0]) || task == "regression" &&
			math.Abs(sumOf-alone) > 1e-12 || without.Factors[4] != 0 {
			t.Errorf("weights %v, without trees %v", with.Factors, without.Factors)
		}
		u.Used = with
		if !u.Has(FormTrees) || u.Has(FormBlend) {
			t.Error("forms of the sum")
		}
	}
}

// classesPool returns a pool of a binary label, and a function that has it learn an event by the log odds of its forms,
// those that are not given missing, and the log odds of its label.
func classesPool(t *testing.T) (u *PooledUpdate, learn func(said map[Variant]float64, truth float64)) {
	m := config.DefaultModel()
	m.Schema = config.Schema{Task: "binary", Label: "y", TimeUnit: "ms", Numeric: []string{"a"}}
	m.Resolve()
	target, err := encode.NewTarget(&m, nil)
	if err != nil {
		t.Fatal(err)
	}
	u = NewPooledUpdate(target)
	r, outputs, targets := rand.New(rand.NewPCG(3, 4)), make([]float64, NumForms), make([]float64, 1)
	return u, func(said map[Variant]float64, truth float64) {
		for f := range outputs {
			outputs[f] = math.NaN()
		}
		for f, o := range said {
			outputs[f] = o
		}
		ev := event.Event{}
		if r.Float64() < 1/(1+math.Exp(-truth)) {
			ev.Label = 1
		}
		target.Encode(targets, &ev)
		u.Learn(outputs, ev.Label, targets)
	}
}

// TestPooledWeightsOfWhoComesAgain: a form that says the same as another takes a share of its weight. Once it is gone
// the other has all, and a form in its place, of another meaning, begins with none.
func TestPooledWeightsOfWhoComesAgain(t *testing.T) {
	u, learn := classesPool(t)
	r := rand.New(rand.NewPCG(1, 1))
	all := func(Variant) bool { return true }
	for range 2000 {
		a := r.NormFloat64()
		learn(map[Variant]float64{FormFoldIn: a, FormNewton: a}, a)
	}
	if w := u.Weights(false, all).Factors; w[0] < 0.3 || w[1] < 0.3 || math.Abs(w[0]+w[1]-1) > 0.3 {
		t.Fatalf("weights %v of two that say the same", w)
	}
	for range 5 {
		a := r.NormFloat64()
		learn(map[Variant]float64{FormNewton: a}, a)
	}
	if w := u.Weights(false, all).Factors; w[0] != 0 || math.Abs(w[1]-1) > 0.3 {
		t.Errorf("weights %v after one is gone", w)
	}
	learn(map[Variant]float64{FormFoldIn: r.NormFloat64(), FormNewton: 1}, 1)
	if w := u.Weights(false, all).Factors; math.Abs(w[0]) > 0.2 || math.Abs(w[1]-1) > 0.3 {
		t.Errorf("weights %v after another came in its place", w)
	}
}

// TestPooledWeightsOfTheSure: versions add up outputs without a bound, so the weight of a form that is far too sure is
// that of its outputs, not of what is left of them at some least probability.
func TestPooledWeightsOfTheSure(t *testing.T) {
	u, learn := classesPool(t)
	r := rand.New(rand.NewPCG(2, 1))
	for range 4000 {
		sign := float64(2*r.IntN(2) - 1)
		learn(map[Variant]float64{FormFoldIn: 16 * sign}, sign)
	}
	w := u.Weights(false, func(f Variant) bool { return f == FormFoldIn })
	if says := 16 * w.Factors[0]; math.Abs(says-1) > 0.25 {
		t.Errorf("log odds of %g, want 1", says)
	}
}

// TestPooledSums: a sum without Newton's form and one without the fold-in learn next to each other, and the one that
// predicts better is preferred.
func TestPooledSums(t *testing.T) {
	for _, better := range []Variant{FormFoldIn, FormNewton} {
		u, learn := classesPool(t)
		u.LeaveOut(false, func(f Variant) bool { return f == FormNewton })
		u.LeaveOut(true, func(f Variant) bool { return f == FormFoldIn })
		r := rand.New(rand.NewPCG(2, 1))
		for range 1000 {
			a := r.NormFloat64()
			said := map[Variant]float64{FormFoldIn: r.NormFloat64(), FormNewton: r.NormFloat64()}
			said[better] = 2 * a
			learn(said, 4*a)
		}
		newton := u.PrefersNewton()
		w := u.Weights(newton, func(f Variant) bool { return f == better })
		if newton != (better == FormNewton) || w.Newton != newton || w.Factors[better/2] < 1.2 {
			t.Errorf("form %d is better: Newton's map %t, weights %v", better, newton, w.Factors)
		}
	}
}
