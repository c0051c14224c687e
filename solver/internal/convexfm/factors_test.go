package convexfm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/problem"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/floats"
)

// factorsCase returns a descent over random vectors and a problem of two features a row, or of any number, with weights
// and a linear term; from seed 12 on with the homogeneous kernel.
func factorsCase(seed uint64) (f *factorDescent, vectors [][]float64, v []float64) {
	rng := rand.New(rand.NewPCG(seed, 71))
	const n, d, k = 60, 9, 3
	p := &problem.Problem{
		X:       problem.NewRows(d, n, n*d),
		Outputs: 1,
		Loss:    []loss.Loss{loss.Squared{}, loss.BinaryLogistic{}, loss.BinarySquaredHinge{}}[seed%3],
	}
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
	linear := linear.NewLinearFit(p, 0.3*float64(seed%4), 0.2*float64(seed%3), solvertest.TestWorkers(1))
	for r := range k {
		vectors, v = append(vectors, gamma.RandomUnit(d, rng.Uint64())), append(v,
			1-2*float64(r%2)+0.1*rng.NormFloat64())
	}
	kernel := problem.ANOVA
	if seed >= 12 {
		kernel = problem.Homogeneous
	}
	return NewFactorDescent(p, kernel, linear, 0.4, solvertest.TestWorkers(1)), vectors, v
}

// slowObjective is the objective of vectors and weights with the linear term of the descent, row by row, and what they
// predict.
func (f *factorDescent) slowObjective(vectors [][]float64, v []float64) (objective float64, pred []float64) {
	d := f.p.X.NumColumns
	kernel := problem.ANOVA
	if f.squares {
		kernel = problem.Homogeneous
	}
	model := problem.NewModel(kernel, d, 1, true)
	model.NumBasis, model.Weights = len(vectors), v
	for j := range d {
		for _, h := range vectors {
			model.Basis = append(model.Basis, h[j])
		}
	}
	copy(model.Linear, f.linear.Theta[:d])
	copy(model.Bias, f.linear.Theta[d:])
	objective = f.linear.Penalty() + f.lambda*floats.Norm(v, 1)
	out, work := make([]float64, 1), make([]float64, 2*len(vectors))
	for i := range f.p.X.NumRows() {
		index, value := f.p.X.Row(i)
		model.Predict(out, work, index, value)
		objective += f.p.Weight(i) * f.p.Loss.Eval(nil, out, f.p.Target(i))
		pred = append(pred, out[0])
	}
	return objective, pred
}

// TestFactorDescent: a sweep lowers the objective by what it says, of squared loss, or by more; the predictions it
// keeps are those of where it is; and the end is stationary in every coordinate.
func TestFactorDescent(t *testing.T) {
	for seed := range uint64(24) {
		f, vectors, v := factorsCase(seed)
		_, squared := f.p.Loss.(loss.Squared)
		for range 4 {
			before, pred := f.slowObjective(vectors, v)
			f.Begin(vectors, v, pred)
			linear.RowLosses(f.workers, f.p, f.pred, f.slope)
			fall, ok := f.sweep()
			if vectors, v = f.End(); !ok {
				t.Fatal("called off")
			}
			after, _ := f.slowObjective(vectors, v)
			if fell := before - after; fall < 0 || fell < fall-1e-9*before ||
				squared && !solvertest.Near(fell, fall, 1e-9, 1e-9*before) {
				t.Errorf("%d: the objective fell by %v from %v, a sweep says %v", seed, fell, before, fall)
			}
		}
		begun, pred := f.slowObjective(vectors, v)
		f.Begin(vectors, v, pred)
		f.Run(20000, 1e-14)
		vectors, v = f.End()
		end, pred := f.slowObjective(vectors, v)
		for i, x := range pred {
			if f.p.Weight(i) > 0 && !solvertest.Near(x, f.pred[i], 1e-7, 1e-7) {
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
					size := dense.Norm2(p)
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

// TestFactorDescentIsCancelled: wherever it is called off, it ends no higher than it began, and does not go by slopes
// that it has not worked out.
func TestFactorDescentIsCancelled(t *testing.T) {
	for seed := range uint64(24) {
		for stop := range 6 {
			f, vectors, v := factorsCase(seed)
			begun, pred := f.slowObjective(vectors, v)
			done, pauses := make(chan struct{}), 0
			f.workers.Done, f.workers.Pause = done, func() {
				if pauses++; pauses == stop+1 {
					close(done)
				}
			}
			f.Begin(vectors, v, pred)
			for i := range f.slope {
				f.slope[i] = 1e3
			}
			f.Run(10, 0)
			vectors, v = f.End()
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
			f.Begin(vectors, v, pred)
			linear.RowLosses(f.workers, f.p, f.pred, f.slope)
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
