package posterior

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestIncrementsFollow: a fold-in that is told the increments of another one every few events has the same rows and losses, in every form, also after rows
// were widened there.
func TestIncrementsFollow(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	p := ratings(r, 399, 8, 8, 2, true) // 57 times seven
	shared := randomState(rand.New(rand.NewPCG(7, 2)), p, Logistic, 3)
	separate, _ := randomOutputs(rand.New(rand.NewPCG(7, 2)), p, Logistic, 3)
	alone := randomState(rand.New(rand.NewPCG(7, 2)), p, Logistic, 3)
	alone.MainOnly = []bool{false, true}
	for j, field := range alone.Field {
		if mean, _ := alone.Row(j); field == 1 {
			clear(mean[1:])
		}
	}
	for name, s := range map[string]*State{"shared": shared, "separate": separate, "main effects": alone} {
		rates := [][]float64{DefaultRates, nil}
		f, g := NewFoldIn(s, rates), NewFoldIn(s, rates)
		f.Track()
		for j, field := range s.Field {
			f.Place(int32(j), Feature{Field: field, Row: -1, Base: int32(j)})
			g.Place(int32(j), Feature{Field: field, Row: -1, Base: int32(j)})
		}
		touched := make(map[int32]bool)
		for i := range p.X.NumRows() {
			index, value := p.X.Row(i)
			features := []Feature{{Field: 0, Row: index[0], Base: index[0]}, {Field: 1, Row: index[1], Base: index[1]}}
			predicted(f, features, value)
			f.Learn(features, value, p.Target(i), 1)
			touched[index[0]], touched[index[1]] = true, true
			if i == 200 || i == 203 {
				f.Widen(0, 0.1)
			}
			if i%7 != 6 {
				continue
			}
			for j := range s.Field {
				inc := f.Increment(int32(j))
				if (inc != nil) != touched[int32(j)] {
					t.Fatalf("%s: row %d was touched: %t", name, j, touched[int32(j)])
				}
				if inc != nil && !g.Apply(int32(j), inc) {
					t.Fatalf("%s: increment of row %d not applied", name, j)
				}
			}
			for field, inc := range f.RateIncrements() {
				if !g.ApplyRates(int32(field), &inc) {
					t.Fatalf("%s: losses of field %d not applied", name, field)
				}
			}
			clear(touched)
		}
		for j := range s.Field {
			a, b := &f.rows[j], &g.rows[j]
			for what, pair := range map[string][2][]float64{"evidence": {a.evidence, b.evidence}, "mean": {a.mean, b.mean}, "covariance": {a.cov, b.cov},
				"loss": {a.loss, b.loss}} {
				for k := range pair[0] {
					if d := math.Abs(pair[0][k] - pair[1][k]); !(d <= 1e-8*(1+math.Abs(pair[0][k]))) {
						t.Fatalf("%s: %s %d of row %d is %g, told it is %g", name, what, k, j, pair[0][k], pair[1][k])
					}
				}
			}
		}
		if got, want := g.RateLosses()[0], f.RateLosses()[0]; math.Abs(got[0]-want[0]) > 1e-9*want[0] || math.Abs(got[2]-want[2]) > 1e-9*want[2] {
			t.Errorf("%s: losses of rates %g, told %g", name, want, got)
		}
	}
}

// TestIncrementsAddUp: of two fold-ins that learn half of a name's events each, beside a partner that is known for certain, the increments make the row of one
// that has learned all of them, whichever comes first; what forgets comes to the order in which they are applied.
func TestIncrementsAddUp(t *testing.T) {
	p := ratings(rand.New(rand.NewPCG(2, 3)), 60, 1, 20, 2, false)
	s := randomState(rand.New(rand.NewPCG(2, 4)), p, Gaussian, 2)
	for j := range s.Field {
		if _, cov := s.Row(j); s.Field[j] == 1 {
			for i := range cov {
				cov[i] *= 1e-12
			}
		}
	}
	s.Reset(0)
	for _, rates := range [][]float64{nil, DefaultRates} {
		fold := func() *FoldIn {
			f := NewFoldIn(s, [][]float64{rates, nil})
			f.Track()
			for j, field := range s.Field {
				f.Place(int32(j), Feature{Field: field, Row: -1, Base: int32(j)})
			}
			return f
		}
		learn := func(f *FoldIn, i int) {
			index, value := p.X.Row(i)
			f.Learn([]Feature{{Field: 0, Row: index[0], Base: index[0]}, {Field: 1, Row: index[1], Base: index[1]}}, value, p.Target(i), 1)
		}
		halves := []*FoldIn{fold(), fold()}
		for i := range 60 {
			learn(halves[i/30], i)
		}
		incs := []*Increment{halves[0].Increment(0), halves[1].Increment(0)}
		orders := [][]int{{0, 1}}
		if rates == nil {
			orders = append(orders, []int{1, 0})
		}
		for _, order := range orders {
			whole, told := fold(), fold()
			for _, h := range order {
				for i := range 30 {
					learn(whole, 30*h+i)
				}
				told.Apply(0, incs[h])
			}
			for k, want := range whole.rows[0].mean {
				if got := told.rows[0].mean[k]; math.Abs(got-want) > 1e-5*(1+math.Abs(want)) {
					t.Errorf("rates %v, order %v: mean[%d] = %.9g, of all events %.9g", rates, order, k, got, want)
				}
			}
		}
	}
}

// TestIncrementsThatDoNotFit change nothing.
func TestIncrementsThatDoNotFit(t *testing.T) {
	p := ratings(rand.New(rand.NewPCG(2, 3)), 20, 2, 2, 2, false)
	s := randomState(rand.New(rand.NewPCG(2, 4)), p, Gaussian, 2)
	f := NewFoldIn(s, [][]float64{DefaultRates, nil})
	f.Place(0, Feature{Field: 0, Row: -1, Base: 0})
	good := func() *Increment { return newIncrement(len(DefaultRates), len(f.increment), len(DefaultRates)) }
	before := slices.Clone(f.rows[0].numbers)
	for name, spoil := range map[string]func(inc *Increment){
		"versions": func(inc *Increment) { inc.Keep = inc.Keep[:2] }, "size": func(inc *Increment) { inc.Added = inc.Added[1:] },
		"losses": func(inc *Increment) { inc.Loss = nil }, "keep": func(inc *Increment) { inc.Keep[1] = 1.5 },
		"number": func(inc *Increment) { inc.Added[0] = math.NaN() }, "infinite": func(inc *Increment) { inc.Added[3] = math.Inf(1) },
		"loss": func(inc *Increment) { inc.LossKeep = math.NaN() },
	} {
		inc := good()
		spoil(inc)
		if f.Apply(0, inc) || !slices.Equal(before, f.rows[0].numbers) {
			t.Errorf("%s: applied", name)
		}
	}
	if !f.Apply(0, good()) {
		t.Error("what fits is refused")
	}
	for field, inc := range []RateIncrement{{1, []float64{1}}, {1, []float64{1}}} {
		if f.ApplyRates(int32(field), &inc) {
			t.Errorf("losses of other rates of field %d are applied", field)
		}
	}
	if f.ApplyRates(0, &RateIncrement{2, make([]float64, 3)}) {
		t.Error("losses of other rates are applied")
	}
}
