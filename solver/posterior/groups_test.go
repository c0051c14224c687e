package posterior

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver"
)

// groupedRatings returns ratings of users with an age and lists of tastes, and items with a year: fields user, age, tastes, item, year. ages
// is how many ages a user is seen with.
func groupedRatings(r *rand.Rand, n, ages int, logistic bool) (*solver.Problem, []int32) {
	const users, items, perAge, tastes, years = 40, 30, 4, 6, 5
	p := ratings(r, n, users, items, 2, logistic)
	firstItem := users + perAge + tastes
	d := firstItem + items + years
	x := solver.NewRows(d, n, 6*n)
	field := make([]int32, d)
	for j := range field {
		for _, start := range []int{users, users + perAge, firstItem, firstItem + items} {
			if j >= start {
				field[j]++
			}
		}
	}
	for i := range n {
		index, _ := p.X.Row(i)
		u, item := int(index[0]), int(index[1])-users
		age, taste := users+(u+i%ages)%perAge, users+perAge
		list := []int32{int32(u), int32(age), int32(taste + u%tastes)}
		value := []float64{1, 1, 1}
		if u%tastes < tastes-1 {
			list, value = append(list, int32(taste+u%tastes+1)), []float64{1, 1, math.Sqrt2 / 2, math.Sqrt2 / 2}
		}
		x.Append(append(list, int32(firstItem+item), int32(firstItem+items+item%years)), append(value, 1, 1))
	}
	p.X, p.Field, p.NumFields = x, field, 5
	return p, []int32{0, 0, 0, 3, 3}
}

// TestUnitsMatchRowByRow: sweeps over units give what sweeps over rows give.
func TestUnitsMatchRowByRow(t *testing.T) {
	for _, l := range []Likelihood{Gaussian, Logistic} {
		for _, weighted := range []bool{false, true} {
			testUnits(t, l, weighted, nil, nil)
			testUnits(t, l, weighted, []int32{0, 0, 2, 3, 3}, nil)
			testUnits(t, l, weighted, []int32{0, 0, 2, 3, 4}, []bool{false, false, false, false, true})
		}
	}
}

// testUnits compares both ways for two groups, or for those given.
func testUnits(t *testing.T, l Likelihood, weighted bool, three []int32, only []bool) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, uint64(l)))
	p, group := groupedRatings(r, 600, 2, l == Logistic)
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
	g.pairs, g.units, g.omega, g.right, g.mean, g.spread = nil, nil, make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
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
		for _, l := range []Likelihood{Gaussian, Logistic} {
			r := rand.New(rand.NewPCG(8, uint64(l)))
			p, group := groupedRatings(r, 900, ages, l == Logistic)
			s := Start(l, p, group, nil, 4, PriorFor(l, 1), r)
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

// TestLeadingRowsGiveAwayTheirPart: no prediction changes, the bound rises to a maximum, and features that do not go with the lead stay.
func TestLeadingRowsGiveAwayTheirPart(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	p, group := groupedRatings(r, 700, 2, false)
	s := randomState(r, p, Gaussian, 3)
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
func predictions(s *State, p *solver.Problem) []float64 {
	m := s.Model()
	out, work, all := make([]float64, p.Outputs), make([]float64, 2*m.NumBasis), []float64(nil)
	for i := range p.X.NumRows() {
		index, value := p.X.Row(i)
		m.Predict(out, work, index, value)
		all = append(all, out[0])
	}
	return all
}

// TestGroupedModelIsTheMean: the published model predicts what the posterior mean does, also for rows it has not seen, with two groups and with three.
func TestGroupedModelIsTheMean(t *testing.T) {
	for _, group := range [][]int32{{0, 0, 0, 3, 3}, {0, 0, 2, 3, 3}, {0, 0, 0, 0, 0}} {
		t.Run(fmt.Sprint(group), func(t *testing.T) {
			r := rand.New(rand.NewPCG(6, 1))
			p, _ := groupedRatings(r, 200, 3, false)
			s := randomState(r, p, Gaussian, 3)
			s.Group = group
			v := newRowView(s.Sign)
			for i, got := range predictions(s, p) {
				index, value := p.X.Row(i)
				if want := s.Bias[0] + v.gather(s, index, value); math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
					t.Fatalf("row %d: model %g, mean %g", i, got, want)
				}
			}
		})
	}
}

// TestGroupedFoldInIsASweepOfOneRow: learning one event updates the rows of its features one after the other as a sweep over that event does.
func TestGroupedFoldInIsASweepOfOneRow(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 7))
	p, group := groupedRatings(r, 1, 1, false)
	s := New(Gaussian, 1, 2, p.Field, p.NumFields, PriorFor(Gaussian, 1))
	s.Group = group
	index, value := p.X.Row(0)
	for _, j := range index {
		mean, _ := s.Row(int(j))
		for a := range mean {
			mean[a] = r.NormFloat64()
		}
	}
	start := s.Clone()
	f := NewFoldIn(start, make([][]float64, 5))
	var features []Feature
	for e, j := range index {
		feature := Feature{Field: s.Field[j], Row: int32(e), Base: j}
		f.Place(int32(e), feature)
		features = append(features, feature)
	}
	f.Learn(features, value, p.Target(0), 1)
	got := f.State(features, nil)
	for e := range index { // by definition: evidence of the prior's mean, plus the event's
		view, solve := newRowView(s.Sign), newSolver(3)
		z := view.gather(s, index, value)
		j := index[e]
		mean, cov := s.Row(int(j))
		prior := s.precision(int(s.Field[j]))
		solve.restore(solve.evidence, solve.right, prior, mean, cov)
		view.accumulate(solve.evidence, solve.right, e, z, s.Noise, s.Noise*(p.Target(0)[0]-s.Bias[0]))
		solve.finish(prior, mean, cov, nil)
		for a := range mean {
			if g := got.Mean[e*3+a]; math.Abs(g-mean[a]) > 1e-9 {
				t.Fatalf("entry %d: mean[%d] = %.10g, by definition %.10g", e, a, g, mean[a])
			}
		}
	}
}
