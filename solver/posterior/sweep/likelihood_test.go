package sweep

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/posteriortest"
)

// TestSweepFallsBack: a sweep that lowers the evidence is undone and made by the bound, to the last bit as if nothing
// else had been tried: here that over a number of which a few values are a thousand times the others.
func TestSweepFallsBack(t *testing.T) {
	for _, separate := range []bool{false, true} {
		r := rand.New(rand.NewPCG(3, 7))
		const names, n = 40, 2000
		field := make([]int32, names+1)
		field[names] = 1
		p := &solver.Problem{
			X:         solver.NewRows(names+1, n, 2*n),
			Outputs:   1,
			Loss:      solver.BinaryLogistic{},
			Field:     field,
			NumFields: 2,
		}
		for range n {
			name, x := r.Int32N(names), r.NormFloat64()
			if r.IntN(100) == 0 {
				x *= 1e5
			}
			p.X.Append([]int32{name, names}, []float64{1, x})
			p.Targets = append(p.Targets, math.Copysign(1, float64(name)-names/2+x))
		}
		state := func() *posterior.State {
			if separate {
				return posterior.NewSeparate(posterior.Logistic, 1, field, 2, posterior.PriorFor(posterior.Logistic, 1))
			}
			return posterior.New(posterior.Logistic, 1, 0, field, 2, posterior.PriorFor(posterior.Logistic, 1))
		}
		a, b := state(), state()
		f, err := NewRefit(a, p, 10, 1)
		if err != nil {
			t.Fatal(err)
		}
		bounded, err := NewRefit(b, p, 10, 1)
		if err != nil {
			t.Fatal(err)
		}
		for sweep := 0; !f.bounded; sweep++ {
			if sweep == 12 {
				t.Fatalf("separate=%v: no sweep fell", separate)
			}
			b.Restore(a)
			if _, err := f.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !f.bounded {
				continue
			}
			if bounded.outputs != nil {
				bounded.outputs.predict()
			} else {
				bounded.predict()
			}
			bounded.bounded, bounded.observed = true, false
			if _, err := bounded.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(a.Mean, b.Mean) || !slices.Equal(a.Bias, b.Bias) ||
				!slices.Equal(a.Precision, b.Precision) {
				t.Fatalf("separate=%v, %d: after a fall the sweep is not that of the bound: θ %v, %v", separate, sweep,
					a.Bias, b.Bias)
			}
		}
	}
}

// rareLabels returns labels of which about one in 150 is 1, by 20 places of which one makes it nine times as likely,
// and by 200 shops without an effect, and how many are 1.
func rareLabels(n int) (p *solver.Problem, ones float64) {
	const places, shops = 20, 200
	r := rand.New(rand.NewPCG(45, 46))
	p = &solver.Problem{
		X:         solver.NewRows(places+shops, n, 2*n),
		Outputs:   1,
		Loss:      solver.BinaryLogistic{},
		Field:     make([]int32, places+shops),
		NumFields: 2,
	}
	for j := places; j < places+shops; j++ {
		p.Field[j] = 1
	}
	for range n {
		place, o, target := r.Int32N(places), -5.5, -1.0
		if place == 3 {
			o += 2.2
		}
		if r.Float64() < 1/(1+math.Exp(-o)) {
			target = 1
			ones++
		}
		p.X.Append([]int32{place, places + r.Int32N(shops)}, []float64{1, 1})
		p.Targets = append(p.Targets, target)
	}
	return p, ones
}

// TestRareLabels: four sweeps over rare labels, as a refit makes them, find how rare they are and the informative name.
func TestRareLabels(t *testing.T) {
	p, ones := rareLabels(20_000)
	for _, separate := range []bool{false, true} {
		s := posterior.New(posterior.Logistic, 1, 0, p.Field, p.NumFields, posterior.PriorFor(posterior.Logistic, 1))
		if s.MainOnly = []bool{true, true}; separate {
			s = posterior.NewSeparate(posterior.Logistic, 1, p.Field, p.NumFields,
				posterior.PriorFor(posterior.Logistic, 1))
		}
		s.Bias[0] = -4
		f, err := NewRefit(s, p, 10, 2)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if _, err := f.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		sum := 0.0
		for i := range p.X.NumRows() {
			index, _ := p.X.Row(i)
			o := s.Bias[0]
			for _, j := range index {
				mean, _ := s.Row(int(j))
				o += mean[0]
			}
			sum += 1 / (1 + math.Exp(-o))
		}
		if math.Abs(sum-ones) > 0.05*ones {
			t.Errorf("separate=%v: the predictions sum to %.4g, %g labels are 1", separate, sum, ones)
		}
		informative, _ := s.Row(3)
		other, _ := s.Row(4)
		if d := informative[0] - other[0]; !(d > 1.4) {
			t.Errorf("separate=%v: the informative name is worth %.3g above another, 2.2 planted", separate, d)
		}
	}
}

// TestLogDets: what takeLogDets finds in the covariances is what the solves of a sweep have left.
func TestLogDets(t *testing.T) {
	for _, separate := range []bool{false, true} {
		r := rand.New(rand.NewPCG(5, 9))
		x, field := mixedRows(r, 80)
		p := outputProblem(r, posterior.Logistic, x, field, 4, 1)
		s := posterior.New(posterior.Logistic, 1, 0, field, 4, posterior.PriorFor(posterior.Logistic, 1))
		if separate {
			s = posterior.NewSeparate(posterior.Logistic, 1, field, 4, posterior.PriorFor(posterior.Logistic, 1))
		}
		for range 3 {
			h := make([]float64, len(field))
			for j := range h {
				h[j] = 0.5 * r.NormFloat64()
			}
			s.AddBasis(h, []float64{1}, 8)
		}
		f, err := NewRefit(s, p, 10, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := slices.Clone(f.logDet)
		clear(f.logDet)
		f.takeLogDets()
		for j, v := range want {
			posteriortest.Nearly(t, "log det", f.logDet[j], v, 1e-9)
		}
	}
}
