package solver

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/solver/problem"
)

// densePart is a random problem for a DenseFit with its columns.
type densePart struct {
	p      *Problem
	offset []float64
	rows   [][]float64
}

func newDensePart(lossFn Loss, n, m, k int, weighted bool) *densePart {
	random := rand.New(rand.NewPCG(3, uint64(n*m+k)))
	d := &densePart{p: &Problem{X: NewRows(1, n, 0), Outputs: m, Loss: lossFn}}
	for i := range n {
		d.p.X.Append(nil, nil)
		row, at := make([]float64, k), random.IntN(m)
		shared := random.NormFloat64() // correlated columns
		for j := range row {
			row[j] = 0.2*random.NormFloat64() + shared
		}
		d.rows = append(d.rows, row)
		for c := range m {
			t := -1.0
			if c == at {
				t = 1
			}
			if m == 1 && random.Float64() < 0.5 {
				t = -1
			}
			switch lossFn.(type) {
			case Squared:
				t = 3*row[c%k] + random.NormFloat64()
			case MultinomialLogistic, SquaredHinge:
				t = max(0, t)
			}
			d.p.Targets = append(d.p.Targets, t)
			d.offset = append(d.offset, 0.3*random.NormFloat64())
		}
		if weighted {
			d.p.Weights = append(d.p.Weights, float64(i%4))
		}
	}
	return d
}

func (d *densePart) fit(ctx context.Context, workers int) *DenseFit {
	s := DefaultSettings()
	s.Tolerance, s.Workers = 1e-9, workers
	f := NewDenseFit(ctx, d.p, d.offset, len(d.rows[0]), s)
	for i, row := range d.rows {
		f.SetRow(i, row)
	}
	return f
}

// objective is the formula of DenseFit, evaluated literally.
func (d *densePart) objective(weights, bias []float64, ridge, biasRidge float64) float64 {
	m, total := d.p.Outputs, 0.0
	for i, row := range d.rows {
		pred := slices.Clone(d.offset[i*m : i*m+m])
		for c := range pred {
			pred[c] += bias[c]
			for j, x := range row {
				pred[c] += x * weights[j*m+c]
			}
		}
		total += d.p.Weight(i) * d.p.Loss.Eval(nil, pred, d.p.Target(i))
	}
	for _, w := range weights {
		total += 0.5 * ridge * w * w
	}
	for _, b := range bias {
		total += 0.5 * biasRidge * b * b
	}
	return total
}

// A fit ends where the objective, evaluated literally, has no slope and is convex along every coordinate.
func TestDenseFitIsOptimal(t *testing.T) {
	for _, test := range []struct {
		name     string
		loss     Loss
		m        int
		weighted bool
	}{{"squared", Squared{}, 1, false}, {"squared, weighted", Squared{}, 2, true}, {"binary", BinaryLogistic{}, 1, true},
		{"levels", BinaryLogistic{}, 3, false}, {"classes", MultinomialLogistic{}, 4, true}, {"hinge", SquaredHinge{}, 3,
			false}} {
		t.Run(test.name, func(t *testing.T) {
			d := newDensePart(test.loss, 700, test.m, 6, test.weighted)
			f := d.fit(t.Context(), 1)
			for _, ridge := range []float64{10, 0.1} { // the second one from where the first ended
				if !f.Fit(ridge) {
					t.Fatal("no fit")
				}
				weights, bias := f.Weights()
				at := d.objective(weights, bias, ridge, f.BiasRidge)
				for _, list := range [][]float64{weights, bias} {
					for j, w := range list {
						const h = 1e-4
						list[j] = w + h
						above := d.objective(weights, bias, ridge, f.BiasRidge)
						list[j] = w - h
						below := d.objective(weights, bias, ridge, f.BiasRidge)
						list[j] = w
						if slope := (above - below) / (2 * h); math.Abs(slope) > 1e-3*math.Sqrt(at) {
							t.Errorf("ridge %g: slope %g in weight %d at objective %g", ridge, slope, j, at)
						}
						if above < at-1e-7*at || below < at-1e-7*at {
							t.Errorf("ridge %g: objective %g near weight %d, %g at it", ridge, min(above, below), j, at)
						}
					}
				}
			}
		})
	}
}

func TestDenseFitDoesNotDependOnWorkers(t *testing.T) {
	d := newDensePart(MultinomialLogistic{}, 3*problem.FitBlock+17, 3, 5, true)
	one, four := d.fit(t.Context(), 1), d.fit(t.Context(), 4)
	if !one.Fit(1) || !four.Fit(1) {
		t.Fatal("no fit")
	}
	if !slices.Equal(one.Theta, four.Theta) {
		t.Error("one worker and four find different weights")
	}
}

// A fit that is called off leaves the weights as they were.
func TestDenseFitCalledOff(t *testing.T) {
	d := newDensePart(BinaryLogistic{}, 2*problem.FitBlock, 1, 4, false)
	ctx, cancel := context.WithCancel(t.Context())
	s := DefaultSettings()
	blocks, end := 0, math.MaxInt
	s.Yield = func() {
		if blocks++; blocks > end {
			cancel()
		}
	}
	s.Tolerance, s.Workers = 1e-12, 1
	f := NewDenseFit(ctx, d.p, d.offset, 4, s)
	for i, row := range d.rows {
		f.SetRow(i, row)
	}
	if !f.Fit(100) {
		t.Fatal("no fit")
	}
	before := slices.Clone(f.Theta)
	end = blocks + 7 // in the third or fourth pass
	if f.Fit(1e-3) {
		t.Fatal("it was not called off")
	}
	if !slices.Equal(f.Theta, before) {
		t.Error("the weights moved")
	}
}

// Columns that are all equal, rows that all weigh nothing: no NaN.
func TestDenseFitDegenerate(t *testing.T) {
	d := newDensePart(MultinomialLogistic{}, 50, 3, 2, true)
	for i := range d.rows {
		d.rows[i][1] = d.rows[i][0]
	}
	if !d.fit(t.Context(), 1).Fit(1e-6) {
		t.Error("no fit with equal columns")
	}
	clear(d.p.Weights)
	f := d.fit(t.Context(), 1)
	if !f.Fit(1) {
		t.Error("no fit without weight")
	}
	for _, w := range f.Theta {
		if w != 0 {
			t.Errorf("weight %g without rows that count", w)
		}
	}
}
