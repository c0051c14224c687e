package sweep

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/online"
	"github.com/refitd/refitd/solver/posterior/posteriortest"
)

// withTags puts two fields before those of ratings: one of names, and one of lists of names.
func withTags(r *rand.Rand, n int, logistic bool) *solver.Problem {
	const names, tags = 5, 4
	p := posteriortest.Ratings(r, n, 30, 20, 2, logistic)
	d := names + tags + len(p.Field)
	x := solver.NewRows(d, n, 5*n)
	field := make([]int32, d)
	for j := range field {
		if j >= names {
			field[j] = 1
		}
		if j >= names+tags {
			field[j] = 2 + p.Field[j-names-tags]
		}
	}
	for i := range n {
		index, value := p.X.Row(i)
		first := int32(r.IntN(tags))
		list, values := []int32{int32(r.IntN(names)), names + first}, []float64{1, 1}
		if first < tags-1 {
			list, values = append(list, names+first+1), []float64{1, math.Sqrt2 / 2, math.Sqrt2 / 2}
		}
		for e, j := range index {
			list, values = append(list, names+tags+j), append(values, value[e])
		}
		x.Append(list, values)
	}
	p.X, p.Field, p.NumFields = x, field, 4
	return p
}

// pinned gives the coordinates of fields a precision that leaves nothing of them.
func pinned(s *posterior.State, fields []bool) *posterior.State {
	s = s.Clone()
	for f, only := range fields {
		if only {
			for a := range s.PrecisionOf(f)[1:] {
				s.PrecisionOf(f)[a+1] = 1e14
			}
		}
	}
	for j, f := range s.Field {
		if mean, cov := s.Row(j); fields[f] {
			clear(mean[1:])
			clear(cov[1:])
		}
	}
	return s
}

func close6(a, b float64) bool { return math.Abs(a-b) <= 1e-6*(1+math.Abs(a)) }

// TestMainEffectsAgainstPinnedCoordinates: a field with linear weights alone equals one whose coordinates are certain
// to be 0, whether rows are pairs, units or neither.
func TestMainEffectsAgainstPinnedCoordinates(t *testing.T) {
	groups := map[string][]int32{"pairs": nil, "units": {0, 0, 2, 3}, "rows": nil, "unit rows": nil}
	for name, group := range groups {
		for _, l := range []posterior.Likelihood{posterior.Gaussian, posterior.Logistic} {
			r := rand.New(rand.NewPCG(4, uint64(l)))
			p := withTags(r, 500, l == posterior.Logistic)
			only := []bool{true, true, false, false}
			if name == "rows" || name == "unit rows" {
				only[0] = false
			}
			fast := randomState(r, p, l, 3)
			slow := pinned(fast, only)
			slow.Group = group
			fast.Group = group
			fast.SetMainOnly(only)
			f, err := NewRefit(fast, p, 1e15, 2)
			if err != nil {
				t.Fatal(err)
			}
			if (f.pairs == nil) != !only[0] || (f.units == nil) != only[0] {
				t.Fatalf("%s: pairs %t, units %t", name, f.pairs != nil, f.units != nil)
			}
			if name == "rows" {
				f.units, f.totals = nil, newRowTotals(f)
			}
			clear(f.apart) // precisions as those of coordinates are
			g, err := NewRefit(slow, p, 1e15, 1)
			if err != nil {
				t.Fatal(err)
			}
			if !only[0] { // fields with linear weights alone come first
				g.observe()
				g.totals.take()
				for _, field := range []int{1, 0, 2, 3} {
					if err := g.sweepField(context.Background(), field); err != nil {
						t.Fatal(err)
					}
				}
				g.predict()
				g.updateOutputs()
				g.recenter(g.mean)
				g.updatePrecision()
			} else if _, err := g.Sweep(context.Background()); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Sweep(context.Background()); err != nil {
				t.Fatal(err)
			}
			for i, v := range fast.Mean {
				if !close6(v, slow.Mean[i]) {
					t.Fatalf("%s %v: mean[%d] = %.10g, pinned %.10g", name, l, i, v, slow.Mean[i])
				}
			}
			for i, v := range fast.Covariance {
				if !close6(v, slow.Covariance[i]) {
					t.Fatalf("%s %v: covariance[%d] = %.10g, pinned %.10g", name, l, i, v, slow.Covariance[i])
				}
			}
			if !close6(fast.Noise, slow.Noise) || !close6(fast.Bias[0], slow.Bias[0]) {
				t.Errorf("%s %v: noise %g θ %g, pinned %g %g", name, l, fast.Noise, fast.Bias[0], slow.Noise,
					slow.Bias[0])
			}
		}
	}
}

// TestMainEffectsNeverLowerTheEvidence, from the start of a cold refit.
func TestMainEffectsNeverLowerTheEvidence(t *testing.T) {
	for _, only := range [][]bool{{true, true, false, false}, {true, false, false, false}, {true, true, true, true}} {
		for _, l := range []posterior.Likelihood{posterior.Gaussian, posterior.Logistic} {
			r := rand.New(rand.NewPCG(5, uint64(l)))
			p := withTags(r, 700, l == posterior.Logistic)
			s := Start(l, p, nil, only, 3, posterior.PriorFor(l, 1), r)
			f, err := NewRefit(s, p, 10, 0)
			if err != nil {
				t.Fatal(err)
			}
			last := math.Inf(-1)
			for n := range 10 {
				e, err := f.Sweep(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				if e < last-1e-9*math.Abs(last) {
					t.Errorf("%v %v: sweep %d lowers the evidence from %.10g to %.10g", l, only, n, last, e)
				}
				last = e
			}
			if err := s.Validate(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestChoosePrecision: the precision is where the evidence with the weights integrated out is greatest, far up for a
// field that carries nothing.
func TestChoosePrecision(t *testing.T) {
	for _, effect := range []float64{0, 0.2, 2} {
		r := rand.New(rand.NewPCG(9, uint64(10*effect)))
		p := withTags(r, 2000, false)
		of := []float64{-1, 0.5, 1, -0.5, 0}
		for i := range p.Targets {
			index, _ := p.X.Row(i)
			p.Targets[i] += effect * of[index[0]]
		}
		s := Start(posterior.Gaussian, p, nil, []bool{true, true, false, false}, 2,
			posterior.PriorFor(posterior.Gaussian, 1), r)
		f, err := NewRefit(s, p, 10, 1)
		if err != nil {
			t.Fatal(err)
		}
		f.observe()
		f.choosePrecision(0, []int{0, 1, 2, 3, 4})
		marginal := func(d float64) (sum float64) {
			for j := range 5 {
				a, b := f.mainEvidence(j)
				sum += 0.5 * (math.Log(d) - math.Log(d+a) + b*b/(d+a))
			}
			return sum
		}
		chosen := s.PrecisionOf(0)[0]
		for e := -8.0; e <= 8; e += 0.01 {
			if d := math.Pow(10, e); marginal(d) > marginal(chosen)+1e-6*math.Abs(marginal(chosen)) {
				t.Errorf("effect %g: precision %g has %.9g, the chosen %g has %.9g", effect, d, marginal(d), chosen,
					marginal(chosen))
				break
			}
		}
		if (effect == 0) != (chosen > 1e4) {
			t.Errorf("effect %g: precision %g", effect, chosen)
		}
	}
}

// TestFoldInOfMainEffects: single events move a linear weight as they move that of a row whose coordinates are certain
// to be 0.
func TestFoldInOfMainEffects(t *testing.T) {
	for _, l := range []posterior.Likelihood{posterior.Gaussian, posterior.Logistic} {
		r := rand.New(rand.NewPCG(6, uint64(l)))
		p := withTags(r, 300, l == posterior.Logistic)
		only := []bool{true, false, false, true}
		base := randomState(r, p, l, 3)
		slow := pinned(base, only)
		for j, f := range slow.Field { // zeros have no inverse
			if only[f] {
				_, cov := slow.Row(j)
				for a := 1; a <= 3; a++ {
					cov[slow.Variance(a)] = 1e-14
				}
			}
		}
		base.SetMainOnly(only)
		rates := [][]float64{online.DefaultRates, nil, online.FurtherRates, nil}
		a, b := online.NewFoldIn(base, rates), online.NewFoldIn(slow, rates)
		one, two := make([]float64, p.Outputs), make([]float64, p.Outputs)
		slots := make(map[int32]int32)
		for i := range p.X.NumRows() {
			index, value := p.X.Row(i)
			features := make([]online.Feature, len(index))
			for e, j := range index {
				column := j
				if j%7 == 3 { // a name that the refit did not have
					column = -1
				}
				at, ok := slots[j]
				features[e] = online.Feature{Field: p.Field[j], Row: at, Base: column}
				if !ok {
					at = int32(len(slots))
					slots[j], features[e].Row = at, at
					a.Place(at, features[e])
					b.Place(at, features[e])
				}
			}
			a.Predict(one, features, value)
			b.Predict(two, features, value)
			if !close6(one[0], two[0]) {
				t.Fatalf("%v: event %d: output %.10g, pinned %.10g", l, i, one[0], two[0])
			}
			a.Learn(features, value, p.Target(i), 1)
			b.Learn(features, value, p.Target(i), 1)
		}
	}
}

// TestSetMainOnly: a field that gets coordinates again begins at its prior.
func TestSetMainOnly(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	p := withTags(r, 100, false)
	s := randomState(r, p, posterior.Gaussian, 2)
	s.SetMainOnly([]bool{true, false, false, true})
	model := s.Model()
	for j, f := range p.Field {
		for v := range model.NumBasis {
			if h := model.Basis[j*model.NumBasis+v]; (f == 0 || f == 3) && h != 0 {
				t.Fatalf("feature %d of a field with linear weights alone has the coordinate %g", j, h)
			}
		}
	}
	s.SetMainOnly([]bool{true, false, false, false})
	mean, cov := s.Row(len(p.Field) - 1)
	if mean[1] != 0 || cov[s.Variance(1)] != 1/s.PrecisionOf(3)[1] {
		t.Errorf("a field that interacts again begins with %v, %v", mean, cov)
	}
	s.MainOnly = s.MainOnly[:2]
	if s.Validate() == nil {
		t.Error("a state with flags for two of four fields is taken")
	}
}

// TestPrecisionOfRareFeatures: of names most of which come once and say nothing, some come again and say much; those
// are not taken for noise with the others.
func TestPrecisionOfRareFeatures(t *testing.T) {
	const once, again, times = 6000, 100, 10
	r := rand.New(rand.NewPCG(3, 14))
	n, d := once+again*times, once+again
	p := &solver.Problem{
		X:         solver.NewRows(d, n, n),
		Outputs:   1,
		Loss:      solver.BinaryLogistic{},
		Field:     make([]int32, d),
		NumFields: 1,
	}
	for i := range n {
		j, logit := int32(i), -1.8
		if i >= once {
			if j = int32(once + (i-once)%again); j%2 == 0 {
				logit = 0.2
			}
		}
		p.X.Append([]int32{j}, []float64{1})
		label := 0.0
		if r.Float64() < 1/(1+math.Exp(-logit)) {
			label = 1
		}
		p.Targets = append(p.Targets, label)
	}
	s := posterior.New(posterior.Logistic, 1, 0, p.Field, 1, posterior.PriorFor(posterior.Logistic, 1))
	s.SetMainOnly([]bool{true})
	f, err := NewRefit(s, p, 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if _, err := f.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	likes, not := 0.0, 0.0
	for j := once; j < d; j++ {
		mean, _ := s.Row(j)
		if j%2 == 0 {
			likes += mean[0] / (again / 2)
		} else {
			not += mean[0] / (again / 2)
		}
	}
	if d := s.PrecisionOf(0)[0]; d > 20 || likes-not < 0.3 {
		t.Errorf("precision %.3g; the names that say much have weights %.2f above the others, 2 in truth", d, likes-not)
	}
}
