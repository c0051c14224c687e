package solver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
)

// eagerEpoch is the slow twin of lazyEpochs: every step touches all of H and takes the gradient of its batch from a full pass over it.
func eagerEpoch(f *fullFit, u []float64, order []int) []float64 {
	d, k, m := f.p.X.NumColumns, f.k, f.p.Outputs
	u = append([]float64(nil), u...)
	v, h := f.split(u)
	largest := 0.0
	for r := range k {
		largest = max(largest, norm2(v[r*m:r*m+m]))
	}
	stepV, stepH := weightStep*largest, rowStep*norm2(h)/math.Sqrt(float64(d))
	sumV, sumH := make([]float64, k), make([]float64, d)
	gradient := make([]float64, len(u))
	for lo := 0; lo < len(order); lo += stochasticBatch {
		chosen := order[lo:min(len(order), lo+stochasticBatch)]
		batchGradient(f, u, gradient, chosen)
		inV, inH := f.split(gradient)
		for r := range k {
			g, row := inV[r*m:r*m+m], v[r*m:r*m+m]
			if sumV[r] += floats.Dot(g, g); sumV[r] > 0 {
				eta := stepV / math.Sqrt(sumV[r])
				floats.AddScaled(row, -eta, g)
				if f.form.tau == 0 {
					f.form.step(row, 1, m, eta)
				}
			}
		}
		if f.form.tau > 0 {
			f.form.step(v, k, m, 1)
		}
		for j := range d {
			g, row := inH[j*k:j*k+k], h[j*k:j*k+k]
			if sumH[j] += floats.Dot(g, g); sumH[j] > 0 {
				eta := stepH / math.Sqrt(sumH[j])
				floats.AddScaled(row, -eta, g)
				floats.Scale(1/(1+eta*f.ridge), row)
			}
		}
		if !f.free() {
			for r, square := range f.lengths(h) {
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
func batchGradient(f *fullFit, u, gradient []float64, chosen []int) {
	n, m := f.p.X.NumRows(), f.p.Outputs
	part := *f.p
	part.X, part.Targets, part.Weights = f.p.X.Select(chosen), nil, nil
	var offset []float64
	for _, i := range chosen {
		part.Targets = append(part.Targets, f.p.Target(i)...)
		part.Weights = append(part.Weights, f.p.Weight(i)*float64(n)/float64(len(chosen)))
		offset = append(offset, f.offset[i*m:i*m+m]...)
	}
	fit := newFullFit(&part, f.kernel, f.form, f.ridge, offset, testWorkers(1))
	fit.resize(f.k)
	fit.pass(u, gradient)
}

// lazyCases calls f for both kernels, forms and ridges, with few entries in many columns: most rows of H are not touched in most batches.
func lazyCases(t *testing.T, check func(t *testing.T, f *fullFit, u []float64, order []int)) {
	const n = 3000
	for _, kernel := range []Kernel{ANOVA, Homogeneous, ANOVA3, Homogeneous3} {
		for _, form := range []form{{penalty: L1L2, lambda: 3}, {penalty: L1Linf, tau: 4}} {
			for _, ridge := range []float64{0, 20} {
				t.Run(fmt.Sprintf("%v/%g/%g", kernel, form.tau, ridge), func(t *testing.T) {
					f, u := fullCase(n, 2000, 3, 2, 0.0015, kernel, BinaryLogistic{}, form, ridge, 1)
					_, h := f.split(u)
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
		if !near(got[i], want[i], 1e-9, 1e-11) {
			t.Fatalf("u[%d] = %v, eager %v, at first %v", i, got[i], want[i], before[i])
		}
	}
}

func TestLazyEpochs(t *testing.T) {
	lazyCases(t, func(t *testing.T, f *fullFit, u []float64, order []int) {
		lazy := newLazyEpochs(f, u)
		for lo := 0; lo < len(order); lo += stochasticBatch {
			lazy.batch(order[lo:min(len(order), lo+stochasticBatch)])
		}
		lazy.settle()
		equalPoints(t, lazy.u, eagerEpoch(f, u, order), u)
	})
}

// eagerSVRG is the slow twin of lazySVRG.
func eagerSVRG(f *fullFit, snapshot, full []float64, order []int, step [2]float64) []float64 {
	k, m := f.k, f.p.Outputs
	u := append([]float64(nil), snapshot...)
	v, h := f.split(u)
	now, then := make([]float64, len(u)), make([]float64, len(u))
	for lo := 0; lo < len(order); lo += stochasticBatch {
		chosen := order[lo:min(len(order), lo+stochasticBatch)]
		batchGradient(f, u, now, chosen)
		batchGradient(f, snapshot, then, chosen)
		floats.Sub(now, then)
		floats.Add(now, full)
		inV, inH := f.split(now)
		floats.AddScaled(v, -step[0], inV)
		f.form.step(v, k, m, step[0])
		floats.AddScaled(h, -step[1], inH)
		floats.Scale(1/(1+step[1]*f.ridge), h)
		if f.free() {
			continue
		}
		for r, square := range f.lengths(h) {
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
	lazyCases(t, func(t *testing.T, f *fullFit, u []float64, order []int) {
		full := make([]float64, len(u))
		f.pass(u, full)
		lazy := newLazySVRG(f)
		lazy.begin(u, full, 1)
		for lo := 0; lo < len(order); lo += stochasticBatch {
			lazy.batch(order[lo:min(len(order), lo+stochasticBatch)])
		}
		lazy.settle()
		equalPoints(t, lazy.u, eagerSVRG(f, u, full, order, lazy.step), u)
	})
}

// TestFullStochastic checks that epochs lower the objective far from the optimum, that the seed fixes them, and that they are dropped at it.
func TestFullStochastic(t *testing.T) {
	for name, method := range map[string]func(*fullFit, []float64, int, *rand.Rand) (int, bool){
		"AdaGrad": (*fullFit).stochastic, "SVRG": (*fullFit).svrg,
	} {
		t.Run(name, func(t *testing.T) { testFullStochastic(t, method) })
	}
}

func testFullStochastic(t *testing.T, method func(*fullFit, []float64, int, *rand.Rand) (int, bool)) {
	f, u := fullCase(700, 40, 3, 3, 0.1, ANOVA, MultinomialLogistic{}, form{penalty: L1L2, lambda: 3}, 0, 1)
	_, h := f.split(u)
	f.normalize(u)
	floats.Scale(0.9, h)
	start := f.pass(u, nil) + f.term(u)
	epochs := func(from []float64) (point []float64, fell bool) {
		point = append([]float64(nil), from...)
		_, fell = method(f, point, 5, rand.New(rand.NewPCG(2, 2)))
		return point, fell
	}
	one, fell := epochs(u)
	if got := f.pass(one, nil) + f.term(one); !fell || !(got < start) {
		t.Errorf("objective %v, was %v (%v)", got, start, fell)
	}
	if two, _ := epochs(u); !floats.Same(one, two) {
		t.Error("the same seed gives another point")
	}
	for r, square := range f.lengths(one[f.k*3:]) {
		if square > 1+1e-12 {
			t.Errorf("‖h_%d‖² = %v", r, square)
		}
	}
	f.minimize(one, fitLimits{1e-12, 20, 3000})
	kept, fell := epochs(one)
	if gain := f.pass(one, nil) + f.term(one) - f.pass(kept, nil) - f.term(kept); gain < 0 || gain > 1e-6*start || fell != !floats.Same(kept, one) {
		t.Errorf("epochs at the optimum lower the objective by %v (%v)", gain, fell)
	}
}
