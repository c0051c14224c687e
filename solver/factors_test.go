package solver

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
)

// factorsCase returns a descent over random vectors and a problem of two features a row, or of any number, with weights and a linear term;
// from seed 12 on with the homogeneous kernel.
func factorsCase(seed uint64) (f *factorDescent, vectors [][]float64, v []float64) {
	rng := rand.New(rand.NewPCG(seed, 71))
	const n, d, k = 60, 9, 3
	p := &Problem{X: NewRows(d, n, n*d), Outputs: 1, Loss: []Loss{Squared{}, BinaryLogistic{}, BinarySquaredHinge{}}[seed%3]}
	two := seed%2 == 0
	for range n {
		var index []int32
		var value []float64
		if two {
			j := rng.IntN(d - 1)
			index, value = []int32{int32(j), int32(j + 1 + rng.IntN(d-1-j))}, []float64{rng.NormFloat64(), 1}
		} else {
			for j := range d {
				if x := rng.IntN(4); x > 0 {
					index, value = append(index, int32(j)), append(value, float64(x-1)) // zeros among them
				}
			}
		}
		p.X.Append(index, value)
		p.Targets = append(p.Targets, float64(2*rng.IntN(2)-1))
		if seed >= 6 {
			p.Weights = append(p.Weights, float64(rng.IntN(3)))
		}
	}
	linear := newLinearFit(p, 0.3*float64(seed%4), 0.2*float64(seed%3), testWorkers(1))
	for r := range k {
		vectors, v = append(vectors, randomUnit(d, rng.Uint64())), append(v, 1-2*float64(r%2)+0.1*rng.NormFloat64())
	}
	kernel := ANOVA
	if seed >= 12 {
		kernel = Homogeneous
	}
	return newFactorDescent(p, kernel, linear, 0.4, testWorkers(1)), vectors, v
}

// slowObjective is the objective of vectors and weights with the linear term of the descent, row by row, and what they predict.
func (f *factorDescent) slowObjective(vectors [][]float64, v []float64) (objective float64, pred []float64) {
	d := f.p.X.NumColumns
	kernel := ANOVA
	if f.squares {
		kernel = Homogeneous
	}
	model := NewModel(kernel, d, 1, true)
	model.NumBasis, model.Weights = len(vectors), v
	for j := range d {
		for _, h := range vectors {
			model.Basis = append(model.Basis, h[j])
		}
	}
	copy(model.Linear, f.linear.theta[:d])
	copy(model.Bias, f.linear.theta[d:])
	objective = f.linear.penalty() + f.lambda*floats.Norm(v, 1)
	out, work := make([]float64, 1), make([]float64, 2*len(vectors))
	for i := range f.p.X.NumRows() {
		index, value := f.p.X.Row(i)
		model.Predict(out, work, index, value)
		objective += f.p.Weight(i) * f.p.Loss.Eval(nil, out, f.p.Target(i))
		pred = append(pred, out[0])
	}
	return objective, pred
}

// TestFactorDescent: a sweep lowers the objective by what it says, of squared loss, or by more; the predictions it keeps are those of where it is; and the end
// is stationary in every coordinate.
func TestFactorDescent(t *testing.T) {
	for seed := range uint64(24) {
		f, vectors, v := factorsCase(seed)
		_, squared := f.p.Loss.(Squared)
		for range 4 {
			before, pred := f.slowObjective(vectors, v)
			f.begin(vectors, v, pred)
			rowLosses(f.workers, f.p, f.pred, f.slope)
			fall, ok := f.sweep()
			if vectors, v = f.end(); !ok {
				t.Fatal("called off")
			}
			after, _ := f.slowObjective(vectors, v)
			if fell := before - after; fall < 0 || fell < fall-1e-9*before || squared && !near(fell, fall, 1e-9, 1e-9*before) {
				t.Errorf("%d: the objective fell by %v from %v, a sweep says %v", seed, fell, before, fall)
			}
		}
		begun, pred := f.slowObjective(vectors, v)
		f.begin(vectors, v, pred)
		f.run(20000, 1e-14)
		vectors, v = f.end()
		end, pred := f.slowObjective(vectors, v)
		for i, x := range pred {
			if f.p.Weight(i) > 0 && !near(x, f.pred[i], 1e-7, 1e-7) {
				t.Fatalf("%d: prediction %v of row %d, kept as %v", seed, x, i, f.pred[i])
			}
		}
		if !(end < begun) || len(v) == 0 {
			t.Errorf("%d: from %v to %v with %d vectors", seed, begun, end, len(v))
		}
		for r, h := range vectors { // along p_r: v and h change together
			for j := range h {
				const step = 1e-5
				move := func(by float64) float64 {
					p := append([]float64(nil), h...)
					floats.Scale(math.Sqrt(math.Abs(v[r])), p)
					p[j] += by
					size := norm2(p)
					floats.Scale(1/size, p)
					all, weights := append([][]float64(nil), vectors...), append([]float64(nil), v...)
					all[r], weights[r] = p, math.Copysign(size*size, v[r])
					x, _ := f.slowObjective(all, weights)
					return x
				}
				if slope := (move(step) - move(-step)) / (2 * step); math.Abs(slope) > 1e-4*(1+end) {
					t.Errorf("%d: slope %v along coordinate %d of factor %d", seed, slope, j, r)
				}
			}
		}
	}
}

// TestFactorDescentIsCancelled: wherever it is called off, it ends no higher than it began, and does not go by slopes that it has not worked out.
func TestFactorDescentIsCancelled(t *testing.T) {
	for seed := range uint64(24) {
		for stop := range 6 {
			f, vectors, v := factorsCase(seed)
			begun, pred := f.slowObjective(vectors, v)
			done, pauses := make(chan struct{}), 0
			f.workers.done, f.workers.pause = done, func() {
				if pauses++; pauses == stop+1 {
					close(done)
				}
			}
			f.begin(vectors, v, pred)
			for i := range f.slope {
				f.slope[i] = 1e3
			}
			f.run(10, 0)
			vectors, v = f.end()
			if end, _ := f.slowObjective(vectors, v); end > begun*(1+1e-12) || stop == 5 && end == begun {
				t.Errorf("%d, called off at look %d: from %v to %v", seed, stop, begun, end)
			}
		}
	}
}

// TestFactorDescentInChunks: derivatives a few factors at a time come to the same.
func TestFactorDescentInChunks(t *testing.T) {
	for _, seed := range []uint64{0, 1, 12, 13} {
		var ends [2][]float64
		for way := range ends {
			f, vectors, v := factorsCase(seed)
			_, pred := f.slowObjective(vectors, v)
			f.begin(vectors, v, pred)
			rowLosses(f.workers, f.p, f.pred, f.slope)
			for j := range f.p.X.NumColumns {
				f.nearOf(j)
				if way == 0 {
					f.moveFactors(j, 0, f.k)
				} else {
					f.moveFactors(j, 0, 1)
					f.moveFactors(j, 1, f.k)
				}
				f.slopesOf(j)
			}
			ends[way] = f.factors
		}
		if !floats.EqualApprox(ends[0], ends[1], 1e-12) {
			t.Errorf("%d: %v and %v", seed, ends[0], ends[1])
		}
	}
}

// TestConvexFMNewRows: where a twentieth of the rows are others than those of the model that a fit begins from, the descent and the certificate of the
// first step are enough, without a search for vectors; the certificate holds.
func TestConvexFMNewRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(91, 92))
	const users, items, n, replaced = 40, 30, 800, 40
	left, right := randomUnit(2*users, 1), randomUnit(2*items, 2)
	all := &Problem{X: NewRows(users+items, n+replaced, 2*(n+replaced)), Outputs: 1, Loss: Squared{}}
	for range n + replaced {
		u, i := rng.IntN(users), rng.IntN(items)
		all.X.Append([]int32{int32(u), int32(users + i)}, []float64{1, 1})
		all.Targets = append(all.Targets, 40*left[u]*right[i]+20*left[users+u]*right[items+i]+rng.NormFloat64())
	}
	from := func(first int) *Problem {
		p := &Problem{X: NewRows(users+items, n, 2*n), Outputs: 1, Loss: Squared{}, Targets: all.Targets[first : first+n]}
		for i := first; i < first+n; i++ {
			p.X.Append(all.X.Row(i))
		}
		return p
	}
	s := convexSettings(ANOVA, 0.1, 12, 20)
	s.Tolerance = 1e-2
	before, err := ConvexFM{}.Fit(t.Context(), from(0), nil, s)
	if err != nil {
		t.Fatal(err)
	}
	p := from(replaced)
	warm, err := ConvexFM{}.Fit(t.Context(), p, &Warm{Model: before.Model}, s)
	if err != nil {
		t.Fatal(err)
	}
	s.Tolerance = 1e-9
	best, err := ConvexFM{}.Fit(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	above := warm.Objective - best.Objective + best.Gap
	if len(before.Steps) < 2 || len(warm.Steps) != 1 || warm.Status != Converged || warm.Steps[0].Nu != 0 || warm.Gap < above || above < 0 {
		t.Errorf("%d steps from nothing, %d from the model before, the first with ν %v; %v, gap %v, %v above the optimum", len(before.Steps), len(warm.Steps),
			warm.Steps[0].Nu, warm.Status, warm.Gap, above)
	}
}
