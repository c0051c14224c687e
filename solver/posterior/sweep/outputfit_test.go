package sweep

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/online"
	"github.com/refitd/refitd/solver/posterior/posteriortest"
)

func TestOutputEvidenceNeverFalls(t *testing.T) {
	for _, l := range []posterior.Likelihood{posterior.Gaussian, posterior.Logistic, posterior.Multinomial} {
		for seed := range uint64(4) {
			r := rand.New(rand.NewPCG(seed, uint64(l)))
			x, field := mixedRows(r, 300)
			p := outputProblem(r, l, x, field, 4, 3)
			if seed == 1 { // a class that hardly ever occurs, one that never does, and weights
				p.Weights = make([]float64, 300)
				for i := range p.Weights {
					p.Weights[i] = 2 * r.Float64()
					if l == posterior.Multinomial && p.Targets[3*i+2] == 1 {
						p.Targets[3*i], p.Targets[3*i+2] = 1, 0
					}
				}
			}
			s := posterior.NewSeparate(l, 3, field, 4, posterior.PriorFor(l, 1))
			addRandomVectors(r, s, 3)
			f, err := NewRefit(s, p, 10, 2)
			if err != nil {
				t.Fatal(err)
			}
			last, moved := math.Inf(-1), false
			for sweep := range 15 {
				before := slices.Clone(s.Weights)
				e, err := f.Sweep(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				if e < last-1e-9*math.Abs(last) {
					t.Errorf("%v seed %d: evidence falls from %.9g to %.9g in sweep %d", l, seed, last, e, sweep)
				}
				last = e
				moved = moved || !slices.Equal(before, s.Weights)
			}
			if !moved {
				t.Errorf("%v seed %d: no sweep kept new output weights", l, seed)
			}
			mean, _ := s.Row(4)
			for _, m := range mean {
				if m != 0 {
					t.Errorf("%v: a feature that does not occur has mean %g", l, m)
				}
			}
			if err := s.Validate(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestOutputFoldInIsTheRefitOfARow: events learned one by one give the row that a refit solves for, where no bound
// depends on the order.
func TestOutputFoldInIsTheRefitOfARow(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 62))
	x, field := mixedRows(r, 60)
	p := outputProblem(r, posterior.Gaussian, x, field, 4, 2)
	s, _ := randomOutputs(r, p, posterior.Gaussian, 2)
	for j := range s.Field { // all but feature 0 are known for certain, so that they do not move
		_, cov := s.Row(j)
		for i := range cov {
			cov[i] *= 1e-12
		}
	}
	s.Reset(0)
	f := online.NewFoldIn(s.Clone(), make([][]float64, 4))
	for j := range s.Field {
		f.Place(int32(j), online.Feature{Field: field[j], Row: -1, Base: int32(j)})
	}
	for i := range 60 {
		index, value := x.Row(i)
		if index[0] != 0 {
			continue
		}
		var features []online.Feature
		for _, j := range index {
			features = append(features, online.Feature{Field: field[j], Row: j, Base: j})
		}
		f.Learn(features, value, p.Target(i), 1)
	}
	live := f.State([]online.Feature{{Field: 0, Row: 0, Base: 0}}, nil)
	refit, err := NewRefit(s, p, 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	refit.outputs.observe()
	refit.outputs.takeTotals()
	newOutputUpdate(refit.outputs).updateFeature(0)
	mean, cov := s.Row(0)
	for i, want := range mean {
		posteriortest.Nearly(t, "mean", live.Mean[i], want, 1e-5)
	}
	for i, want := range cov {
		posteriortest.Nearly(t, "covariance", live.Covariance[i], want, 1e-5)
	}
}

// classes draws n examples of two names whose class depends on an interaction: the column of users is field 0, that of
// items field 1. It also returns the probabilities of the classes.
func classes(r *rand.Rand, truth *posterior.State, n, users int) (*solver.Problem, [][]float64) {
	d, m := len(truth.Field), len(truth.Bias)
	p := &solver.Problem{
		X:         solver.NewRows(d, n, 2*n),
		Outputs:   m,
		Loss:      solver.MultinomialLogistic{},
		Field:     truth.Field,
		NumFields: 2,
	}
	view := posterior.NewOutputView(truth)
	var probabilities [][]float64
	for range n {
		p.X.Append([]int32{int32(r.IntN(users)), int32(users + r.IntN(d-users))}, []float64{1, 1})
		view.Gather(p.X.Row(p.X.NumRows() - 1))
		top := posterior.LogSumExp(view.Out)
		var q []float64
		for _, o := range view.Out {
			q = append(q, math.Exp(o-top))
		}
		probabilities = append(probabilities, q)
		p.Targets = append(p.Targets, posteriortest.DrawClass(r, view.Out)...)
	}
	return p, probabilities
}

// plantedClasses returns a model of users and items with m classes and k basis vectors.
func plantedClasses(r *rand.Rand, users, items, m, k int) *posterior.State {
	field := make([]int32, users+items)
	for j := users; j < len(field); j++ {
		field[j] = 1
	}
	truth := posterior.NewSeparate(posterior.Multinomial, m, field, 2, posterior.PriorFor(posterior.Multinomial, 1))
	addRandomVectors(r, truth, k)
	for j := range field {
		mean, _ := truth.Row(j)
		for a := range mean {
			mean[a] = 0.5 * r.NormFloat64()
			if a >= m {
				mean[a] = 1.3 * r.NormFloat64()
			}
		}
	}
	return truth
}

// TestRefitRecoversPlantedClasses: interactions bring the accuracy on new examples close to that of the generator,
// which no linear model reaches.
func TestRefitRecoversPlantedClasses(t *testing.T) {
	r := rand.New(rand.NewPCG(71, 72))
	truth := plantedClasses(r, 60, 40, 4, 2)
	train, _ := classes(r, truth, 6000, 60)
	test, probabilities := classes(r, truth, 4000, 60)
	bayes := 0.0
	for i, q := range probabilities {
		if test.Target(i)[argmax(q)] == 1 {
			bayes++
		}
	}
	accuracy := func(k int) float64 {
		s := posterior.NewSeparate(posterior.Multinomial, 4, truth.Field, 2,
			posterior.PriorFor(posterior.Multinomial, 1))
		addRandomVectors(r, s, k)
		f, err := NewRefit(s, train, posterior.PriorFor(posterior.Multinomial, 1).Cap, 0)
		if err != nil {
			t.Fatal(err)
		}
		for range 16 {
			if _, err := f.Sweep(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		m, right := s.Model(), 0.0
		out, work := make([]float64, 4), make([]float64, 2*m.NumBasis)
		for i := range probabilities {
			index, value := test.X.Row(i)
			m.Predict(out, work, index, value)
			right += test.Target(i)[argmax(out)]
		}
		return right
	}
	linear, multilinear := accuracy(0), accuracy(4)
	if multilinear < 0.96*bayes || multilinear < linear+0.1*bayes {
		t.Errorf("of %d classes %.0f are right with interactions and %.0f without; the generator itself gets %.0f",
			len(probabilities), multilinear, linear, bayes)
	}
}

func argmax(v []float64) int {
	at := 0
	for c, x := range v {
		if x > v[at] {
			at = c
		}
	}
	return at
}

// TestOutputWeightsAreTried: weights that only differ in scale are taken, with the evidence unchanged; worse ones leave
// everything as it was.
func TestOutputWeightsAreTried(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	x, field := mixedRows(r, 200)
	p := outputProblem(r, posterior.Logistic, x, field, 4, 3)
	s := posterior.NewSeparate(posterior.Logistic, 3, field, 4, posterior.PriorFor(posterior.Logistic, 1))
	addRandomVectors(r, s, 2)
	f, err := NewRefit(s, p, 1e9, 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := f.Sweep(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	o := f.outputs
	evidence := o.likelihood() - o.divergence()
	before := s.Clone()
	worse := slices.Clone(s.Weights)
	for i := range worse {
		worse[i] *= -3
	}
	if o.tryWeights(worse) {
		t.Error("weights with the opposite sign are taken")
	}
	for i, want := range before.Mean {
		posteriortest.Nearly(t, "mean", s.Mean[i], want, 1e-12)
	}
	for i, want := range before.Covariance {
		posteriortest.Nearly(t, "covariance", s.Covariance[i], want, 1e-12)
	}
	if !slices.Equal(s.Weights, before.Weights) || !slices.Equal(s.Precision, before.Precision) {
		t.Error("weights or precisions are not what they were")
	}
	// Undo the normalisation by hand: V and the precision times 4, the coordinates over 2.
	s.Weights = slices.Clone(s.Weights)
	for i := range s.Weights {
		s.Weights[i] *= 4
	}
	for fld := range s.NumFields {
		for i, d := range s.PrecisionOf(fld)[3:] {
			s.PrecisionOf(fld)[3+i] = 4 * d
		}
	}
	o.scaleBasis([]float64{0.25, 0.25})
	o.predict()
	posteriortest.Nearly(t, "evidence", o.likelihood()-o.divergence(), evidence, 1e-10)
}

func TestOutputSweepsDoNotDependOnWorkers(t *testing.T) {
	for _, l := range []posterior.Likelihood{posterior.Logistic, posterior.Gaussian, posterior.Multinomial} {
		var want []float64
		for _, workers := range []int{1, 2, 8} {
			r := rand.New(rand.NewPCG(81, 82))
			x, field := mixedRows(r, 1500)
			p := outputProblem(r, l, x, field, 4, 3)
			s := posterior.NewSeparate(l, 3, field, 4, posterior.PriorFor(l, 1))
			addRandomVectors(r, s, 2)
			f, err := NewRefit(s, p, 10, workers)
			if err != nil {
				t.Fatal(err)
			}
			var got []float64
			for range 2 {
				e, err := f.Sweep(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e)
			}
			got = slices.Concat(got, s.Mean, s.Weights, s.Covariance)
			if want == nil {
				want = got
			} else if !slices.Equal(got, want) {
				t.Errorf("%v: %d workers give other numbers", l, workers)
			}
		}
	}
}

func BenchmarkOutputSweep(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	truth := plantedClasses(r, 900, 700, 5, 8)
	p, _ := classes(r, truth, 20_000, 900)
	f, err := NewRefit(truth, p, 3, 1)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Sweep(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
