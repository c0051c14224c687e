package solver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/full"
	"github.com/refitd/refitd/solver/internal/output"
	"github.com/refitd/refitd/solver/penalty"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/floats"
)

// eagerEpoch is the slow twin of lazyEpochs: every step touches all of H and takes the gradient of its batch from a
// full pass over it.
func eagerEpoch(f *full.FullFit, u []float64, order []int) []float64 {
	d, k, m := f.P.X.NumColumns, f.K, f.P.Outputs
	u = append([]float64(nil), u...)
	v, h := f.Split(u)
	largest := 0.0
	for r := range k {
		largest = max(largest, dense.Norm2(v[r*m:r*m+m]))
	}
	stepV, stepH := full.WeightStep*largest, full.RowStep*dense.Norm2(h)/math.Sqrt(float64(d))
	sumV, sumH := make([]float64, k), make([]float64, d)
	gradient := make([]float64, len(u))
	for lo := 0; lo < len(order); lo += output.StochasticBatch {
		chosen := order[lo:min(len(order), lo+output.StochasticBatch)]
		batchGradient(f, u, gradient, chosen)
		inV, inH := f.Split(gradient)
		for r := range k {
			g, row := inV[r*m:r*m+m], v[r*m:r*m+m]
			if sumV[r] += floats.Dot(g, g); sumV[r] > 0 {
				eta := stepV / math.Sqrt(sumV[r])
				floats.AddScaled(row, -eta, g)
				if f.Form.Tau == 0 {
					f.Form.Step(row, 1, m, eta)
				}
			}
		}
		if f.Form.Tau > 0 {
			f.Form.Step(v, k, m, 1)
		}
		for j := range d {
			g, row := inH[j*k:j*k+k], h[j*k:j*k+k]
			if sumH[j] += floats.Dot(g, g); sumH[j] > 0 {
				eta := stepH / math.Sqrt(sumH[j])
				floats.AddScaled(row, -eta, g)
				floats.Scale(1/(1+eta*f.Ridge), row)
			}
		}
		if !f.Free() {
			for r, square := range f.Lengths(h) {
				if square > 1 {
					for i := r; i < len(h); i += k {
						h[i] /= math.Sqrt(square)
					}
				}
			}
		}
	}
	return u
}

// batchGradient stores the gradient of the chosen rows at u, scaled to all rows, from a full pass over them.
func batchGradient(f *full.FullFit, u, gradient []float64, chosen []int) {
	n, m := f.P.X.NumRows(), f.P.Outputs
	part := *f.P
	part.X, part.Targets, part.Weights = f.P.X.Select(chosen), nil, nil
	var offset []float64
	for _, i := range chosen {
		part.Targets = append(part.Targets, f.P.Target(i)...)
		part.Weights = append(part.Weights, f.P.Weight(i)*float64(n)/float64(len(chosen)))
		offset = append(offset, f.Offset[i*m:i*m+m]...)
	}
	fit := full.NewFullFit(&part, f.Kernel, f.Form, f.Ridge, offset, solvertest.TestWorkers(1))
	fit.Resize(f.K)
	fit.Pass(u, gradient)
}

// lazyCases calls f for both kernels, forms and ridges, with few entries in many columns: most rows of H are not
// touched in most batches.
func lazyCases(t *testing.T, check func(t *testing.T, f *full.FullFit, u []float64, order []int)) {
	const n = 3000
	for _, kernel := range []Kernel{ANOVA, Homogeneous, ANOVA3, Homogeneous3} {
		for _, form := range []penalty.Form{{Penalty: L1L2, Lambda: 3}, {Penalty: L1Linf, Tau: 4}} {
			for _, ridge := range []float64{0, 20} {
				t.Run(fmt.Sprintf("%v/%g/%g", kernel, form.Tau, ridge), func(t *testing.T) {
					f, u := fullCase(n, 2000, 3, 2, 0.0015, kernel, BinaryLogistic{}, form, ridge, 1)
					_, h := f.Split(u)
					floats.Scale(1.2, h) // against the unit ball
					check(t, f, u, rand.New(rand.NewPCG(1, 1)).Perm(n))
				})
			}
		}
	}
}

// equalPoints fails unless two points are equal up to rounding and far from a third.
func equalPoints(t *testing.T, got, want, before []float64) {
	t.Helper()
	if floats.Distance(before, want, math.Inf(1)) < 1e-3 {
		t.Error("the epoch moved nothing")
	}
	for i := range want {
		if !solvertest.Near(got[i], want[i], 1e-9, 1e-11) {
			t.Fatalf("u[%d] = %v, eager %v, at first %v", i, got[i], want[i], before[i])
		}
	}
}

func TestLazyEpochs(t *testing.T) {
	lazyCases(t, func(t *testing.T, f *full.FullFit, u []float64, order []int) {
		lazy := full.NewLazyEpochs(f, u)
		for lo := 0; lo < len(order); lo += output.StochasticBatch {
			lazy.Batch(order[lo:min(len(order), lo+output.StochasticBatch)])
		}
		lazy.Settle()
		equalPoints(t, lazy.U, eagerEpoch(f, u, order), u)
	})
}

// eagerSVRG is the slow twin of lazySVRG.
func eagerSVRG(f *full.FullFit, snapshot, full []float64, order []int, step [2]float64) []float64 {
	k, m := f.K, f.P.Outputs
	u := append([]float64(nil), snapshot...)
	v, h := f.Split(u)
	now, then := make([]float64, len(u)), make([]float64, len(u))
	for lo := 0; lo < len(order); lo += output.StochasticBatch {
		chosen := order[lo:min(len(order), lo+output.StochasticBatch)]
		batchGradient(f, u, now, chosen)
		batchGradient(f, snapshot, then, chosen)
		floats.Sub(now, then)
		floats.Add(now, full)
		inV, inH := f.Split(now)
		floats.AddScaled(v, -step[0], inV)
		f.Form.Step(v, k, m, step[0])
		floats.AddScaled(h, -step[1], inH)
		floats.Scale(1/(1+step[1]*f.Ridge), h)
		if f.Free() {
			continue
		}
		for r, square := range f.Lengths(h) {
			if square > 1 {
				for i := r; i < len(h); i += k {
					h[i] /= math.Sqrt(square)
				}
			}
		}
	}
	return u
}

func TestLazySVRG(t *testing.T) {
	lazyCases(t, func(t *testing.T, f *full.FullFit, u []float64, order []int) {
		fitted := make([]float64, len(u))
		f.Pass(u, fitted)
		lazy := full.NewLazySVRG(f)
		lazy.Begin(u, fitted, 1)
		for lo := 0; lo < len(order); lo += output.StochasticBatch {
			lazy.Batch(order[lo:min(len(order), lo+output.StochasticBatch)])
		}
		lazy.Settle()
		equalPoints(t, lazy.U, eagerSVRG(f, u, fitted, order, lazy.Step), u)
	})
}

// TestFullStochastic checks that epochs lower the objective far from the optimum, that the seed fixes them, and that
// they are dropped at it.
func TestFullStochastic(t *testing.T) {
	for name, method := range map[string]func(*full.FullFit, []float64, int, *rand.Rand) (int, bool){
		"AdaGrad": (*full.FullFit).Stochastic, "SVRG": (*full.FullFit).Svrg,
	} {
		t.Run(name, func(t *testing.T) { testFullStochastic(t, method) })
	}
}

func testFullStochastic(t *testing.T, method func(*full.FullFit, []float64, int, *rand.Rand) (int, bool)) {
	f, u := fullCase(700, 40, 3, 3, 0.1, ANOVA, MultinomialLogistic{}, penalty.Form{Penalty: L1L2, Lambda: 3}, 0, 1)
	_, h := f.Split(u)
	f.Normalize(u)
	floats.Scale(0.9, h)
	start := f.Pass(u, nil) + f.Term(u)
	epochs := func(from []float64) (point []float64, fell bool) {
		point = append([]float64(nil), from...)
		_, fell = method(f, point, 5, rand.New(rand.NewPCG(2, 2)))
		return point, fell
	}
	one, fell := epochs(u)
	if got := f.Pass(one, nil) + f.Term(one); !fell || !(got < start) {
		t.Errorf("objective %v, was %v (%v)", got, start, fell)
	}
	if two, _ := epochs(u); !floats.Same(one, two) {
		t.Error("the same seed gives another point")
	}
	for r, square := range f.Lengths(one[f.K*3:]) {
		if square > 1+1e-12 {
			t.Errorf("‖h_%d‖² = %v", r, square)
		}
	}
	f.Minimize(one, output.FitLimits{Tolerance: 1e-12, Span: 20, Iterations: 3000})
	kept, fell := epochs(one)
	if gain := f.Pass(one, nil) + f.Term(one) - f.Pass(kept, nil) - f.Term(kept); gain < 0 || gain > 1e-6*start ||
		fell != !floats.Same(kept, one) {
		t.Errorf("epochs at the optimum lower the objective by %v (%v)", gain, fell)
	}
}
