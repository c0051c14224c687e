package solver

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/refitd/refitd/solver/internal/convexfm"
	"github.com/refitd/refitd/solver/internal/gamma"
	"gonum.org/v1/gonum/floats"
)

// batchProblem has six classes of eight numbers, each class with its own directions.
func batchProblem() *Problem {
	const n, d, m = 400, 8, 6
	rng := rand.New(rand.NewPCG(5, 17))
	truth := make([]float64, d*m)
	for i := range truth {
		truth[i] = rng.NormFloat64()
	}
	p := &Problem{X: NewRows(d, n, n*d), Outputs: m, Loss: MultinomialLogistic{}, Targets: make([]float64, n*m)}
	index := []int32{0, 1, 2, 3, 4, 5, 6, 7}
	for i := range n {
		row, score := make([]float64, d), make([]float64, m)
		for j := range row {
			row[j] = rng.NormFloat64()
		}
		p.X.Append(index, row)
		for c := range m {
			inner := floats.Dot(row, truth[c*d:c*d+d])
			score[c] = inner * inner
		}
		p.Targets[i*m+floats.MaxIdx(score)] = 1
	}
	return p
}

// TestBatchesOfVectors: a rough solve that adds several vectors at once takes fewer steps to as many vectors, keeps to
// the limits, and ends about as low as one that adds them one by one; it does not depend on the workers. Vectors of a
// batch enter, and none is like another.
func TestBatchesOfVectors(t *testing.T) {
	p := batchProblem()
	s := DefaultSettings()
	s.Kernel, s.Penalty, s.Lambda, s.LinearRidge, s.MaxBasis, s.Tolerance = Homogeneous, L1L2, 2, 0, 20, 1e-3
	s.Rough, s.Workers = true, 1
	solved := func(share float64, change func(*Settings)) *Result {
		t.Helper()
		own := s
		own.BatchShare = share
		change(&own)
		r, err := Solve(t.Context(), p, nil, own)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	none := func(*Settings) {}
	single, batched := solved(0, none), solved(0.5, none)
	if most := len(single.Steps) * 2 / 3; single.Model.NumBasis != s.MaxBasis || batched.Model.NumBasis != s.MaxBasis ||
		len(batched.Steps) > most {
		t.Errorf("%d steps to %d vectors, one by one %d to %d", len(batched.Steps), batched.Model.NumBasis,
			len(single.Steps), single.Model.NumBasis)
	}
	if first, a, b := single.Steps[0].Objective, single.Objective, batched.Objective; b-a > 0.05*(first-a) {
		t.Errorf("objective %g, one by one %g, %g before any vector", b, a, first)
	}
	if again := solved(0.5, func(s *Settings) { s.Workers = 3 }); !reflect.DeepEqual(again.Model, batched.Model) {
		t.Error("the model depends on the workers")
	}
	if r := solved(1, func(s *Settings) { s.MaxSteps = 6 }); r.Model.NumBasis > 6 {
		t.Errorf("%d vectors of at most 6 tries", r.Model.NumBasis)
	}
	polished := func(s *Settings) { s.Rough, s.MaxBasis = false, 8 }
	if a, b := solved(0, polished), solved(1, polished); !reflect.DeepEqual(a.Model, b.Model) {
		t.Error("a solve that is not rough adds several vectors at once")
	}
	for _, share := range []float64{-0.1, 1.1, math.NaN()} {
		s := s
		if s.BatchShare = share; !errors.Is(s.Validate(), ErrSettings) {
			t.Errorf("a share of %g is taken", share)
		}
	}

	run, err := newSolve(t.Context(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	run.begin()
	run.gamma.Prepare()
	search := gamma.QuickOracle
	search.Several = true
	run.last = run.gamma.SelectBasis(s.Penalty, nil, search, 1)
	first := [][]float64{run.last.Basis}
	run.k, run.s.BatchShare = 4, 1
	criteria := func(h []float64) float64 {
		q := make([]float64, p.Outputs)
		run.gamma.QuadraticTo(q, h, 1)
		return s.Penalty.RowDual(q)
	}
	batch := run.batch(first, 0, 5)
	if len(batch) < 3 || len(batch) > 5 {
		t.Fatalf("a batch of %d of at most 5", len(batch))
	}
	if n := len(run.batch(first, criteria(batch[len(batch)-1]), 5)); n >= len(batch) {
		t.Errorf("%d vectors, among them one that does not enter", n)
	}
	if n := len(run.batch(first, 0, 2)); n != 2 {
		t.Errorf("a batch of %d where two may be tried", n)
	}
	if run.s.MaxBasis = 6; len(run.batch(first, 0, 5)) != 2 {
		t.Error("a batch beyond the largest number of vectors")
	}
	for i, h := range batch {
		if length := floats.Norm(h, 2); math.Abs(length-1) > 1e-12 {
			t.Errorf("vector %d has length %g", i, length)
		}
		for _, other := range batch[:i] {
			if cos := math.Abs(floats.Dot(h, other)); cos >= convexfm.Alike {
				t.Errorf("cosine %g within a batch", cos)
			}
		}
	}
}
