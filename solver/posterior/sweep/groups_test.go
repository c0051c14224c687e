package sweep

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/posteriortest"
)

// TestUnitsMatchRowByRow: sweeps over units give what sweeps over rows give.
func TestUnitsMatchRowByRow(t *testing.T) {
	for _, l := range []posterior.Likelihood{posterior.Gaussian, posterior.Logistic} {
		for _, weighted := range []bool{false, true} {
			testUnits(t, l, weighted, nil, nil)
			testUnits(t, l, weighted, []int32{0, 0, 2, 3, 3}, nil)
			testUnits(t, l, weighted, []int32{0, 0, 2, 3, 4}, []bool{false, false, false, false, true})
		}
	}
}

// testUnits compares both ways for two groups, or for those given.
func testUnits(t *testing.T, l posterior.Likelihood, weighted bool, three []int32, only []bool) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, uint64(l)))
	p, group := posteriortest.GroupedRatings(r, 600, 2, l == posterior.Logistic)
	if weighted {
		for range p.X.NumRows() {
			p.Weights = append(p.Weights, 0.5+r.Float64())
		}
	}
	fast := randomState(r, p, l, 3)
	if three != nil {
		group = three
	}
	fast.Group = group
	fast.SetMainOnly(only)
	slow := fast.Clone()
	f, err := NewRefit(fast, p, 10, 2)
	if err != nil {
		t.Fatal(err)
	}
	if (three == nil) != (f.pairs != nil) || (three == nil) != (f.units == nil) {
		t.Fatal("the sample is not swept by units")
	}
	g, err := NewRefit(slow, p, 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	n := p.X.NumRows()
	g.pairs, g.units, g.omega, g.right, g.mean, g.spread = nil, nil, make([]float64, n), make([]float64,
		n), make([]float64, n), make([]float64, n)
	g.columns.fill(p.X)
	g.predict()
	for sweep := range 3 {
		a, err := f.Sweep(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		b, err := g.Sweep(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(a-b) > 1e-7*math.Abs(b) {
			t.Errorf("%v weighted=%v sweep %d: evidence %.12g, row by row %.12g", l, weighted, sweep, a, b)
		}
	}
	for i, v := range fast.Mean {
		if math.Abs(v-slow.Mean[i]) > 1e-7*(1+math.Abs(v)) {
			t.Fatalf("%v weighted=%v: mean[%d] = %.10g, row by row %.10g", l, weighted, i, v, slow.Mean[i])
		}
	}
	for i, v := range fast.Covariance {
		if math.Abs(v-slow.Covariance[i]) > 1e-7*(1+math.Abs(v)) {
			t.Fatalf("%v weighted=%v: covariance[%d] = %.10g, row by row %.10g", l, weighted, i, v, slow.Covariance[i])
		}
	}
}

// TestGroupedEvidenceNeverFalls, with ages that are and are not functions of the user.
func TestGroupedEvidenceNeverFalls(t *testing.T) {
	for _, ages := range []int{1, 3} {
		for _, l := range []posterior.Likelihood{posterior.Gaussian, posterior.Logistic} {
			r := rand.New(rand.NewPCG(8, uint64(l)))
			p, group := posteriortest.GroupedRatings(r, 900, ages, l == posterior.Logistic)
			s := Start(l, p, group, nil, 4, posterior.PriorFor(l, 1), r)
			f, err := NewRefit(s, p, 10, 0)
			if err != nil {
				t.Fatal(err)
			}
			last := math.Inf(-1)
			for n := range 12 {
				e, err := f.Sweep(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				if e < last-1e-9*math.Abs(last) {
					t.Errorf("%v, %d ages: sweep %d lowers the evidence from %.10g to %.10g", l, ages, n, last, e)
				}
				last = e
			}
		}
	}
}

// TestLeadingRowsGiveAwayTheirPart: no prediction changes, the bound rises to a maximum, and features that do not go
// with the lead stay.
func TestLeadingRowsGiveAwayTheirPart(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	p, group := posteriortest.GroupedRatings(r, 700, 2, false)
	s := randomState(r, p, posterior.Gaussian, 3)
	s.Group = group
	f, err := NewRefit(s, p, 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.leading) != 2 {
		t.Fatalf("%d groups with a lead, want 2", len(f.leading))
	}
	before := predictions(s, p)
	f.predict()
	f.squares, _, _ = f.residuals()
	bound, ages := f.evidence(), append([]float64(nil), s.Mean[40*4:44*4]...)
	for range 2 { // the second time there is nothing left to move
		for _, l := range f.leading {
			l.recenter(s)
		}
		for i, v := range predictions(s, p) {
			if math.Abs(v-before[i]) > 1e-8 {
				t.Fatalf("prediction %d changed from %v to %v", i, before[i], v)
			}
		}
		after := f.evidence()
		if after < bound-1e-9*math.Abs(bound) {
			t.Errorf("evidence %v, %v before", after, bound)
		}
		bound = after
	}
	for i, v := range ages {
		if s.Mean[40*4+i] != v {
			t.Fatal("an age that users change was moved")
		}
	}
	for j := range s.Field { // no small part more is worth moving
		for _, l := range f.leading {
			for t2, g := range l.features {
				if int(g) == j {
					for _, h := range []float64{-1e-3, 1e-3} {
						moved := s.Clone()
						moved.Mean[j*4+1] += h
						for u := range l.lead {
							for e := l.start[u]; e < l.start[u+1]; e++ {
								if l.other[e] == int32(t2) {
									moved.Mean[int(l.lead[u])*4+1] -= l.value[e] * h
								}
							}
						}
						f.state = moved
						if e := f.evidence(); e > bound+1e-9*math.Abs(bound) {
							t.Errorf("feature %d: moving %g more raises the evidence by %g", j, h, e-bound)
						}
						f.state = s
					}
				}
			}
		}
	}
}

// predictions returns the first output of every row under the published model.
func predictions(s *posterior.State, p *solver.Problem) []float64 {
	m := s.Model()
	out, work, all := make([]float64, p.Outputs), make([]float64, 2*m.NumBasis), []float64(nil)
	for i := range p.X.NumRows() {
		index, value := p.X.Row(i)
		m.Predict(out, work, index, value)
		all = append(all, out[0])
	}
	return all
}

// TestGroupedModelIsTheMean: the published model predicts what the posterior mean does, also for rows it has not seen,
// with two groups and with three.
func TestGroupedModelIsTheMean(t *testing.T) {
	for _, group := range [][]int32{{0, 0, 0, 3, 3}, {0, 0, 2, 3, 3}, {0, 0, 0, 0, 0}} {
		t.Run(fmt.Sprint(group), func(t *testing.T) {
			r := rand.New(rand.NewPCG(6, 1))
			p, _ := posteriortest.GroupedRatings(r, 200, 3, false)
			s := randomState(r, p, posterior.Gaussian, 3)
			s.Group = group
			v := posterior.NewRowView(s.Sign)
			for i, got := range predictions(s, p) {
				index, value := p.X.Row(i)
				if want := s.Bias[0] + v.Gather(s, index, value); math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
					t.Fatalf("row %d: model %g, mean %g", i, got, want)
				}
			}
		})
	}
}
