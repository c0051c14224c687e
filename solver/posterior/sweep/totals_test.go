package sweep

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/posteriortest"
)

// sweepFields updates every field of a refit once.
func sweepFields(t *testing.T, f *Refit, sweepField func(context.Context, int) error) {
	t.Helper()
	for field := range f.state.NumFields {
		if err := sweepField(t.Context(), field); err != nil {
			t.Fatal(err)
		}
	}
}

func allNearly(t *testing.T, name string, got, want []float64, tolerance float64) {
	t.Helper()
	for i, v := range want {
		posteriortest.Nearly(t, name, got[i], v, tolerance)
	}
}

// TestOutputTotalsFollow: what moves of rows have made of the totals is what the rows add up to after all fields have
// been updated, and solveWeights has the variances of the outputs.
func TestOutputTotalsFollow(t *testing.T) {
	for _, l := range []posterior.Likelihood{posterior.Gaussian, posterior.Logistic, posterior.Multinomial} {
		r := rand.New(rand.NewPCG(61, uint64(l)))
		x, field := mixedRows(r, 300)
		p := outputProblem(r, l, x, field, 4, 3)
		for i := range x.NumRows() {
			p.Weights = append(p.Weights, 0.5+float64(i%3))
		}
		s, _ := randomOutputs(r, p, l, 2)
		f, err := NewRefit(s, p, 10, 2)
		if err != nil {
			t.Fatal(err)
		}
		o := f.outputs
		o.observe()
		o.takeTotals()
		before := slices.Clone(o.totals)
		sweepFields(t, f, o.sweepField)
		if slices.Equal(o.totals, before) {
			t.Fatal("no totals have moved")
		}
		totals, outputs := slices.Clone(o.totals), slices.Clone(o.mean)
		clear(o.spread)
		o.solveWeights(o.leastScale())
		spread := slices.Clone(o.spread)
		o.predict()
		allNearly(t, l.String()+" variances", spread, o.spread, 1e-10)
		allNearly(t, l.String()+" outputs", outputs, o.mean, 1e-10)
		o.takeTotals()
		allNearly(t, l.String()+" totals", totals, o.totals, 1e-10)
	}
}

// sharedOf is a problem of outputs that share z over mixed rows, and a state for it that fits nothing yet.
func sharedOf(r *rand.Rand, l posterior.Likelihood) (*posterior.State, *solver.Problem) {
	x, field := mixedRows(r, 300)
	p := outputProblem(r, l, x, field, 4, 1)
	for i := range x.NumRows() {
		p.Weights = append(p.Weights, 0.5+float64(i%3))
	}
	return randomState(r, p, l, 3), p
}

// TestRowTotalsFollow is TestOutputTotalsFollow for outputs that share z, and of E[z].
func TestRowTotalsFollow(t *testing.T) {
	for _, l := range []posterior.Likelihood{posterior.Gaussian, posterior.Logistic} {
		r := rand.New(rand.NewPCG(62, uint64(l)))
		s, p := sharedOf(r, l)
		f, err := NewRefit(s, p, 10, 2)
		if err != nil {
			t.Fatal(err)
		}
		f.observe()
		f.totals.take()
		before := slices.Clone(f.totals.numbers)
		sweepFields(t, f, f.sweepField)
		if slices.Equal(f.totals.numbers, before) {
			t.Fatal("no totals have moved")
		}
		totals, mean := slices.Clone(f.totals.numbers), slices.Clone(f.mean)
		f.totals.take()
		allNearly(t, l.String()+" totals", totals, f.totals.numbers, 1e-10)
		allNearly(t, l.String()+" E[z]", mean, f.mean, 1e-10)
	}
}

// TestRowTotalsMatchRowByRow: sweeps by totals go as those do that look at every partner of every row, with and without
// fields that have linear weights alone.
func TestRowTotalsMatchRowByRow(t *testing.T) {
	for _, l := range []posterior.Likelihood{posterior.Gaussian, posterior.Logistic} {
		for _, only := range [][]bool{nil, {false, true, false, false}} {
			r := rand.New(rand.NewPCG(63, uint64(l)))
			s, p := sharedOf(r, l)
			if only != nil {
				s.SetMainOnly(only)
			}
			slow := s.Clone()
			f, err := NewRefit(s, p, 10, 2)
			if err != nil {
				t.Fatal(err)
			}
			g, err := NewRefit(slow, p, 10, 1)
			if err != nil {
				t.Fatal(err)
			}
			if f.totals, f.units, g.totals, g.units = newRowTotals(f), nil, nil, nil; f.totals == nil {
				t.Fatal("four entries in a row are taken for few")
			}
			for range 4 {
				got, err := f.Sweep(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				want, err := g.Sweep(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				posteriortest.Nearly(t, l.String()+" evidence", got, want, 1e-10)
			}
			allNearly(t, l.String()+" mean", s.Mean, slow.Mean, 1e-8)
			allNearly(t, l.String()+" covariance", s.Covariance, slow.Covariance, 1e-8)
			allNearly(t, l.String()+" precision", s.Precision, slow.Precision, 1e-8)
		}
	}
}

// TestRowTotalsDoNotDependOnWorkers: nor do those of separate outputs, see TestOutputSweepsDoNotDependOnWorkers.
func TestRowTotalsDoNotDependOnWorkers(t *testing.T) {
	var want []float64
	for _, workers := range []int{1, 2, 8} {
		r := rand.New(rand.NewPCG(64, 64))
		p := numbersAndNames(r, 1500)
		s := randomState(r, p, posterior.Logistic, 3)
		f, err := NewRefit(s, p, 10, workers)
		if err != nil {
			t.Fatal(err)
		}
		if f.totals == nil {
			t.Fatal("rows of five entries have no totals")
		}
		for range 2 {
			if _, err := f.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := slices.Concat(s.Mean, s.Covariance); want == nil {
			want = got
		} else if !slices.Equal(got, want) {
			t.Errorf("%d workers give other numbers", workers)
		}
	}
}

// numbersAndNames draws examples of two fields of 700 names and three numbers.
func numbersAndNames(r *rand.Rand, n int) *solver.Problem {
	p := &solver.Problem{
		X:         solver.NewRows(1403, n, 5*n),
		Outputs:   1,
		Loss:      solver.BinaryLogistic{},
		NumFields: 5,
		Field:     make([]int32, 1403),
	}
	for j := range p.Field {
		p.Field[j] = int32(min(j/700, 2) + max(0, j-1400))
	}
	for range n {
		p.X.Append([]int32{int32(r.IntN(700)), int32(700 + r.IntN(700)), 1400, 1401, 1402},
			[]float64{1, 1, r.NormFloat64(), r.NormFloat64(), r.NormFloat64()})
		p.Targets = append(p.Targets, float64(1-2*r.IntN(2)))
	}
	return p
}
