package solver

import (
	"math"
	"reflect"
	"testing"
)

// weighted gives the rows of a problem different weights, a third entry here and there, and values that are not 1.
func weighted(p *Problem) *Problem {
	q := *p
	q.X = NewRows(p.X.NumColumns, p.X.NumRows(), 0)
	for i := range p.X.NumRows() {
		index, value := p.X.Row(i)
		index, value = append([]int32(nil), index...), append([]float64(nil), value...)
		if last := index[len(index)-1]; i%3 == 0 && int(last)+1 < p.X.NumColumns {
			index, value = append(index, last+1), append(value, 0.5)
		}
		q.X.Append(index, value)
		q.Weights = append(q.Weights, 0.5+float64(i%4)/2)
	}
	return &q
}

// TestBasisStepSlopes: the slopes of both kernels of degree 2 are the differences of the loss when a coordinate moves,
// less what the sphere pulls back, and the bounds no less than its second differences.
func TestBasisStepSlopes(t *testing.T) {
	p := weighted(plantedRatings(4, 300, 8, 9))
	for _, kernel := range []Kernel{ANOVA, Homogeneous} {
		s := smallSettings()
		s.Kernel, s.MaxBasis, s.Lambda = kernel, 3, 0.5
		fitted, err := Solve(t.Context(), p, nil, s)
		if err != nil || fitted.Model.NumBasis < 2 {
			t.Fatalf("%v: %d basis vectors, error %v", kernel, fitted.Model.NumBasis, err)
		}
		r, err := newSolve(t.Context(), p, s)
		if err == nil {
			err = r.load(fitted.Model)
		}
		if err != nil {
			t.Fatal(err)
		}
		r.begin()
		step := newBasisStep(&r.current)
		step.slopes()
		lossAt := func(b, j int, by float64) float64 {
			m := fitted.Model.Clone()
			m.Basis[j*m.NumBasis+b] += by
			out, work, sum := make([]float64, p.Outputs), make([]float64, 2*m.NumBasis), 0.0
			for i := range p.X.NumRows() {
				index, value := p.X.Row(i)
				m.Predict(out, work, index, value)
				sum += p.Weight(i) * p.Loss.Eval(nil, out, p.Target(i))
			}
			return sum
		}
		const by = 1e-4
		k := len(step.chosen)
		for c, b := range step.chosen {
			along, slope := 0.0, make([]float64, p.X.NumColumns)
			for j := range slope {
				up, down := lossAt(b, j, by), lossAt(b, j, -by)
				slope[j] = (up - down) / (2 * by)
				along += slope[j] * r.basis[b][j]
				curvature := (up + down - 2*lossAt(b, j, 0)) / (by * by)
				if bound := step.bound[j*k+c]; curvature > bound*(1+1e-3)+1e-3 {
					t.Errorf("%v: curvature %v in feature %d of vector %d, bound %v", kernel, curvature, j, b, bound)
				}
			}
			if along >= 0 {
				t.Fatalf("%v: the loss of vector %d rises outwards", kernel, b)
			}
			for j, g := range slope {
				if want, got := g-along*r.basis[b][j], step.slope[j*k+c]; math.Abs(got-want) > 1e-4*(1+math.Abs(g)) {
					t.Errorf("%v: slope %v in feature %d of vector %d, want %v", kernel, got, j, b, want)
				}
			}
		}
	}
}

// TestMoveBasis: after rows were replaced a step on the basis vectors lowers the objective below that of refitted
// weights, by any number of workers to the same bits; the objective is that of the model, whose vectors are of unit
// length. A step that lowers nothing leaves the model that there was.
func TestMoveBasis(t *testing.T) {
	_, s, first := fiveVectors(t)
	p := weighted(plantedRatings(9, 3000, 30, 40))
	s.WeightsOnly = true
	still, err := Solve(t.Context(), p, first.Model, s)
	if err != nil {
		t.Fatal(err)
	}
	s.MoveBasis = true
	var moved *Result
	for _, workers := range []int{1, 2, 3} {
		s.Workers = workers
		res, err := Solve(t.Context(), p, first.Model, s)
		if err != nil {
			t.Fatal(err)
		}
		if moved != nil && !reflect.DeepEqual(res.Model, moved.Model) {
			t.Errorf("%d workers come to another model", workers)
		}
		moved = res
	}
	if !(moved.Objective < 0.999*still.Objective) {
		t.Errorf("objective %v after a step, %v without", moved.Objective, still.Objective)
	}
	if want := objectiveOf(p, moved.Model, s); math.Abs(moved.Objective-want) > 1e-9*want {
		t.Errorf("objective %v, that of the model is %v", moved.Objective, want)
	}
	for b := range moved.Model.NumBasis {
		square := 0.0
		for j := range moved.Model.NumFeatures {
			h := moved.Model.Basis[j*moved.Model.NumBasis+b]
			square += h * h
		}
		if math.Abs(square-1) > 1e-12 {
			t.Errorf("vector %d has the length %v", b, math.Sqrt(square))
		}
	}

	r, err := newSolve(t.Context(), p, s)
	if err == nil {
		err = r.load(moved.Model)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.begin()
	before, grad := r.model(), append([]float64(nil), r.gamma.Grad...)
	r.loss = 0 // nothing is below it
	r.moveBasis()
	if !reflect.DeepEqual(r.model(), before) || !reflect.DeepEqual(r.gamma.Grad, grad) {
		t.Error("a step that lowers nothing was kept, or its gradients")
	}
}
