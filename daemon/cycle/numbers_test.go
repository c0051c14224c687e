package cycle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"gonum.org/v1/gonum/mat"
)

// TestNewtonIsLeastSquares: without change, and with a noise that is known, Newton's weights for a number are those of
// ridge regression on the same inputs.
func TestNewtonIsLeastSquares(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	target := experts.GaussianTarget(targetOf(t, "ordinal"))
	n := encode.NewNumberScale(2, target)
	n.Label.N, n.Label.Variance = encode.FirstValues, 1 // as it is
	l := experts.NewNewton(n, target)
	inputs := len(l.Inputs)
	normal, right := mat.NewSymDense(inputs, nil), mat.NewVecDense(inputs, nil)
	for i := range inputs {
		normal.SetSym(i, i, 1/experts.NewtonPrior)
	}
	for range 60 {
		n.Z[0], n.Z[1] = r.NormFloat64(), r.NormFloat64()
		y := 0.3*n.Z[0] - 0.2*n.Z[1]
		l.Judge.Noise = evaluate.Fading{Rate: experts.NoiseFade} // of variance 1
		l.Gather(nil)
		x := mat.NewVecDense(inputs, slices.Clone(l.Inputs))
		normal.SymRankOne(normal, 1, x)
		right.AddScaledVec(right, y, x)
		before := slices.Clone(l.Covariance)
		l.Learn(nil, []float64{y}, 1)
		for i := range inputs {
			at, taken := i*inputs+i, l.Pending*l.Last[i]*l.Last[i]
			if grown := l.Covariance[at] - taken - before[at]; grown > experts.NewtonWalk+1e-12 {
				t.Fatalf("the variance of a weight grew by %g", grown)
			}
			l.Covariance[at] = min(l.Covariance[at], experts.NewtonPrior+taken)
		}
	}
	var want mat.VecDense
	if err := want.SolveVec(normal, right); err != nil {
		t.Fatal(err)
	}
	for i, w := range l.Weights {
		if math.Abs(w-want.AtVec(i)) > 0.01 {
			t.Errorf("weight %d: %.4f, least squares %.4f", i, w, want.AtVec(i))
		}
	}
}

// TestAdagradByDefinition compares one expert with steps by definition, of a number, of a product and of a name.
func TestAdagradByDefinition(t *testing.T) {
	target := targetOf(t, "binary")
	n := encode.NewNumberScale(2, target)
	l := experts.NewAdaGrad(n, &event.Schema{Categorical: []string{"user"}}, target, 100, false)

	x := &l.Each[5+2]
	if x.Step != 0.1 || x.Fade != 0.999 {
		t.Fatalf("expert of step %g and fade %g", x.Step, x.Fade)
	}
	r := rand.New(rand.NewPCG(1, 7))
	bias, weights, squares := 0.0, make([]float64, 6), make([]float64, 6) // two numbers, three products, the name "k0"
	for i := range 300 {
		n.Z[0], n.Z[1] = r.NormFloat64(), r.NormFloat64()
		a, b := n.Z[0], n.Z[1]
		ev := &event.Event{Categorical: []string{fmt.Sprint("k", i%2)}}
		in := []float64{a, b, (a*a - 1) / math.Sqrt2, a * b, (b*b - 1) / math.Sqrt2, float64(1 - i%2)}
		l.Gather(ev)
		other := 0.0
		if i%2 == 1 && i > 1 {
			other = l.Row(l.Slots.Find(0, "k1"), 7)[1]
		}
		out := bias + other
		for j, v := range in {
			out += weights[j] * v
		}
		if got := l.OutputsOf[7][0]; math.Abs(got-out) > 1e-9 {
			t.Fatalf("event %d: output %.12g, by definition %.12g", i, got, out)
		}
		y := -1.0
		if a*b+0.5*in[5] > 0 {
			y = 1
		}
		l.Learn(ev, []float64{y}, 1)
		residual := (y+1)/2 - 1/(1+math.Exp(-out))
		bias += x.BiasStep * residual
		for j, v := range in {
			if j == 5 && v == 0 { // squares of a name fade when it comes
				continue
			}
			squares[j] = 0.999*squares[j] + cycletest.Squared(residual*v)
			weights[j] += 0.1 * residual * v / math.Sqrt(squares[j]+experts.LeastSquare)
		}
	}
}

// TestNumbersCountFromTheFirstEvent: with names, whose posterior ignores numbers before the first champion, the live
// prediction is far better than without them, for numbers and for classes; and one value in 500 that is a million times
// too large costs a twentieth at most.
func TestNumbersCountFromTheFirstEvent(t *testing.T) {
	for _, task := range []string{"regression", "binary"} {
		run := func(numbers, outliers bool) float64 {
			m := amountsModel(func(m *config.Model) {
				m.Schema.Task, m.Schema.Weight = task, ""
				if !numbers {
					m.Schema.Numeric = nil
				}
			})
			c := newCycle(t, m)
			r := rand.New(rand.NewPCG(12, 3))
			total := 0.0
			for i := range 4000 {
				a, b := r.NormFloat64(), r.NormFloat64()
				user := r.IntN(20)
				ev := event.Event{
					Weight:      1,
					Categorical: []string{fmt.Sprint("u", user), "i"},
					Label:       float64(user%3) + a - b*b + 0.3*r.NormFloat64(),
				}
				if task == "binary" {
					ev.Label = float64(min(1, max(0, int(ev.Label+1))))
				}
				clean := true
				if outliers && i%500 == 7 {
					a, clean = a*1e6, false
				}
				if outliers && task == "regression" && i%500 == 107 {
					ev.Label, clean = ev.Label*1e6, false
				}
				if numbers {
					ev.Numeric = []float64{a, b}
				}
				before := c.progress.progressive.Sums.All[evaluate.Live]
				c.Observe(&ev, true, rows.Position{}, nil, nil)
				after := c.progress.progressive.Sums.All[evaluate.Live]
				if clean {
					total += after.Square - before.Square + after.Loss - before.Loss
				}
			}
			return total
		}
		with, without, hit := run(true, false), run(false, false), run(true, true)
		t.Logf("%s: %.0f with numbers, %.0f without, %.0f with outliers", task, with, without, hit)
		if !(with < 0.6*without) {
			t.Errorf("%s: loss %.0f with numbers, %.0f without", task, with, without)
		}
		if !(hit < 1.05*with) {
			t.Errorf("%s: loss %.0f with outliers, %.0f without", task, hit, with)
		}
	}
}
