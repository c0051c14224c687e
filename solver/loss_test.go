package solver

import (
	"math"
	"testing"

	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/solvertest"
	"pgregory.net/rapid"
)

var allLosses = []Loss{
	MultinomialLogistic{},
	SmoothedHinge{},
	SquaredHinge{},
	BinaryLogistic{},
	Squared{},
	BinarySquaredHinge{},
}

func lossNamed(t *testing.T, name string) Loss {
	t.Helper()
	for _, loss := range allLosses {
		if loss.Name() == name {
			return loss
		}
	}
	t.Fatalf("no loss %q", name)
	return nil
}

// drawRow draws the outputs and a valid target of one example.
func drawRow(t *rapid.T, lossFn Loss, outputs *rapid.Generator[float64]) (pred, target []float64) {
	m := rapid.IntRange(1, 6).Draw(t, "m")
	pred = rapid.SliceOfN(outputs, m, m).Draw(t, "pred")
	target = make([]float64, m)
	switch lossFn.(type) {
	case MultinomialLogistic, SmoothedHinge, SquaredHinge:
		target[rapid.IntRange(0, m-1).Draw(t, "class")] = 1
	case BinaryLogistic, BinarySquaredHinge:
		for c := range target {
			target[c] = rapid.SampledFrom([]float64{-1, 1}).Draw(t, "sign")
		}
	default:
		target = rapid.SliceOfN(rapid.Float64Range(-5, 5), m, m).Draw(t, "target")
	}
	return pred, target
}

func TestLossGradient(t *testing.T) {
	outputs := rapid.OneOf(rapid.Float64Range(-8, 8),
		rapid.SampledFrom([]float64{-700, -30, -1e-9, 0, 1e-9, 1, 30, 700}))
	for _, loss := range allLosses {
		t.Run(loss.Name(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				pred, target := drawRow(t, loss, outputs)
				grad := make([]float64, len(pred))
				value := loss.Eval(grad, pred, target)
				if math.IsNaN(value) || math.IsInf(value, 0) || value < -1e-9 {
					t.Fatalf("value %g at %v", value, pred)
				}
				if twin := loss.Eval(nil, pred, target); twin != value {
					t.Fatalf("value %g without gradient, %g with", twin, value)
				}
				const h = 1e-5
				for c := range pred {
					up, down := append([]float64(nil), pred...), append([]float64(nil), pred...)
					up[c] += h
					down[c] -= h
					slope := (loss.Eval(nil, up, target) - loss.Eval(nil, down, target)) / (2 * h)
					// Central differences lose 1e-16·value/h to rounding, and half a step times the curvature where
					// the second derivative jumps.
					if tol := 1e-6 + 1e-10*math.Abs(value) + 0.5*h*loss.Curvature(len(pred)); math.Abs(
						slope-grad[c]) > tol {
						t.Fatalf("gradient %d at %v, target %v: %g, central difference %g", c, pred, target, grad[c],
							slope)
					}
				}
			})
		})
	}
}

// TestLossCurvature checks that the gradient along a segment grows at most as Curvature says.
func TestLossCurvature(t *testing.T) {
	for _, loss := range allLosses {
		t.Run(loss.Name(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				a, target := drawRow(t, loss, rapid.Float64Range(-4, 4))
				b := rapid.SliceOfN(rapid.Float64Range(-4, 4), len(a), len(a)).Draw(t, "b")
				ga, gb := make([]float64, len(a)), make([]float64, len(a))
				loss.Eval(ga, a, target)
				loss.Eval(gb, b, target)
				inner, square := 0.0, 0.0
				for c := range a {
					inner += (ga[c] - gb[c]) * (a[c] - b[c])
					square += (a[c] - b[c]) * (a[c] - b[c])
				}
				if inner < -1e-12 || inner > loss.Curvature(len(a))*square+1e-12 {
					t.Fatalf("⟨Δg, Δo⟩ = %g for ‖Δo‖² = %g and curvature %g", inner, square, loss.Curvature(len(a)))
				}
			})
		})
	}
}

// TestEvalRows compares the fast path over many rows with one row at a time.
func TestEvalRows(t *testing.T) {
	for _, lossFn := range allLosses {
		rapid.Check(t, func(t *rapid.T) {
			first, _ := drawRow(t, lossFn, rapid.Float64Range(-40, 40))
			m := len(first)
			n := rapid.IntRange(1, 700).Draw(t, "n")
			step := rapid.Float64Range(0.1, 3).Draw(t, "step")
			pred, target := make([]float64, n*m), make([]float64, n*m)
			var weight []float64
			if rapid.Bool().Draw(t, "weighted") {
				weight = make([]float64, n)
			}
			want := 0.0
			wantGrad := make([]float64, n*m)
			for i := range n {
				for c := range m {
					pred[i*m+c] = 20 * math.Sin(step*float64(i*m+c))
					target[i*m+c] = 1 - 2*float64((i+c)%2)
				}
				switch lossFn.(type) {
				case MultinomialLogistic, SmoothedHinge, SquaredHinge:
					clear(target[i*m : i*m+m])
					target[i*m+i%m] = 1
				}
				scale := 1.0
				if weight != nil {
					weight[i] = float64(i%3) / 2
					scale = weight[i]
				}
				want += scale * lossFn.Eval(wantGrad[i*m:i*m+m], pred[i*m:i*m+m], target[i*m:i*m+m])
				for c := range m {
					wantGrad[i*m+c] *= scale
				}
			}
			if got := loss.EvalRows(lossFn, nil, pred, target, weight, m); !solvertest.Near(got, want, 1e-12, 1e-12) {
				t.Fatalf("%s: value %v, want %v", lossFn.Name(), got, want)
			}
			got := loss.EvalRows(lossFn, pred, pred, target, weight, m) // in place
			if !solvertest.Near(got, want, 1e-12, 1e-12) {
				t.Fatalf("%s: value in place %v, want %v", lossFn.Name(), got, want)
			}
			for i := range pred {
				if !solvertest.Near(pred[i], wantGrad[i], 1e-14, 0) {
					t.Fatalf("%s: gradient %d is %v, want %v", lossFn.Name(), i, pred[i], wantGrad[i])
				}
			}
		})
	}
}
