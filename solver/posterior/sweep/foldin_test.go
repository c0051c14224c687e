package sweep

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/online"
	"github.com/refitd/refitd/solver/posterior/posteriortest"
)

// TestFoldInIsTheExactPosterior: with one forgetting rate of 1 and a frozen partner, learning events one by one gives
// the same row as solving for all of them at once.
func TestFoldInIsTheExactPosterior(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	p := posteriortest.Ratings(r, 60, 1, 20, 2, false)
	s := randomState(r, p, posterior.Gaussian, 2)
	s.Noise = 1.7
	for j := range s.Field { // items are known for certain, so that they do not move
		if s.Field[j] == 1 {
			_, cov := s.Row(j)
			for i := range cov {
				cov[i] *= 1e-12
			}
		}
	}
	s.Reset(0)
	omega, right := make([]float64, 60), make([]float64, 60)
	f := online.NewFoldIn(s.Clone(), make([][]float64, 2))
	slots := map[int32]int32{}
	for i := range 60 {
		omega[i], right[i] = s.Pseudo(p.Target(i), 0, 0)
		index, value := p.X.Row(i)
		features := make([]online.Feature, 2)
		for e, j := range index {
			features[e] = online.Feature{Field: s.Field[j], Row: -1, Base: j}
			if _, ok := slots[j]; !ok {
				slots[j] = int32(len(slots))
				f.Place(slots[j], features[e])
			}
			features[e].Row = slots[j]
		}
		f.Learn(features, value, p.Target(i), 1)
	}
	want, _ := slowUpdate(s, p, omega, right, 0)
	got := f.State([]online.Feature{{Field: 0, Row: slots[0], Base: 0}}, nil)
	for i, w := range want {
		if math.Abs(got.Mean[i]-w) > 1e-5*(1+math.Abs(w)) {
			t.Errorf("mean[%d] = %.9g, solved at once %.9g", i, got.Mean[i], w)
		}
	}
}

// TestForgettingFollowsAChange: a user whose taste flips is followed by the mix, and not by a posterior that keeps
// everything.
func TestForgettingFollowsAChange(t *testing.T) {
	errorAfter := func(rates []float64) float64 {
		prior := posterior.PriorFor(posterior.Gaussian, 1)
		s := posterior.New(posterior.Gaussian, 1, 0, nil, 2, prior)
		f := online.NewFoldIn(s, [][]float64{rates, nil})
		r := rand.New(rand.NewPCG(4, 4))
		f.Place(0, online.Feature{Field: 0, Row: -1, Base: -1})
		total := 0.0
		for n := range 400 {
			item := int32(1 + n%40)
			if n < 40 {
				f.Place(item, online.Feature{Field: 1, Row: -1, Base: -1})
			}
			features := []online.Feature{{Field: 0, Row: 0, Base: -1}, {Field: 1, Row: item, Base: -1}}
			label := 2.0
			if n >= 200 {
				label = -2
			}
			label += 0.3 * r.NormFloat64()
			if e := label - predicted(f, features, []float64{1, 1})[0]; n >= 240 {
				total += e * e
			}
			f.Learn(features, []float64{1, 1}, []float64{label}, 1)
		}
		return total
	}
	if mixed, frozen := errorAfter(online.DefaultRates), errorAfter([]float64{1}); mixed > 0.7*frozen {
		t.Errorf("squared error after the change: %.1f with forgetting, %.1f without", mixed, frozen)
	}
}

// TestFirstLabelsSetTheScale: without a known scale the fold-in takes it from the labels, so that units do not matter.
func TestFirstLabelsSetTheScale(t *testing.T) {
	predictions := func(unit float64) []float64 {
		s := posterior.New(posterior.Gaussian, 1, 0, nil, 1, posterior.Prior{Linear: 1, Basis: 1, Cap: 1})
		f := online.NewFoldIn(s, make([][]float64, 1))
		r := rand.New(rand.NewPCG(8, 8))
		var out []float64
		for n := range 300 {
			at := int32(n % 10)
			feature := online.Feature{Field: 0, Row: at, Base: -1}
			if n < 10 {
				f.Place(at, feature)
			}
			features, one := []online.Feature{feature}, []float64{1}
			out = append(out, predicted(f, features, one)[0]/unit)
			f.Learn(features, one, []float64{unit * (5 + float64(at) + 0.5*r.NormFloat64())}, 1)
		}
		return out
	}
	small, large := predictions(1), predictions(1e5)
	for i := range small {
		if math.Abs(small[i]-large[i]) > 1e-9*(1+math.Abs(small[i])) {
			t.Fatalf("event %d: %g in units of 1, %g in units of 100,000", i, small[i], large[i])
		}
	}
	if last := small[len(small)-1]; math.Abs(last-14) > 1 {
		t.Errorf("the last prediction is %.2f, the feature's labels are about 14", last)
	}
}

// BenchmarkLearn folds ratings of five levels by 1,000 users of 300 items into a model of 11 basis vectors.
func BenchmarkLearn(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	p := posteriortest.Ratings(r, 20_000, 1000, 300, 4, true)
	s := randomState(r, p, posterior.Logistic, 11)
	f := online.NewFoldIn(s, [][]float64{online.DefaultRates, online.FurtherRates})
	for j, field := range s.Field {
		f.Place(int32(j), online.Feature{Field: field, Row: -1, Base: int32(j)})
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		index, value := p.X.Row(i)
		f.Learn([]online.Feature{{Field: 0, Row: index[0], Base: index[0]}, {Field: 1, Row: index[1], Base: index[1]}},
			value, p.Target(i), 1)
		if i++; i == p.X.NumRows() {
			i = 0
		}
	}
}

// TestVersionsScoreAlike: rates are charged what predicting with every version of a row, the other row as it is mixed,
// charges.
func TestVersionsScoreAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	p := posteriortest.Ratings(r, 300, 8, 8, 2, true)
	shared := randomState(rand.New(rand.NewPCG(6, 2)), p, posterior.Logistic, 3)
	separate, _ := randomOutputs(rand.New(rand.NewPCG(6, 2)), p, posterior.Logistic, 3)
	run := func(s *posterior.State, score func(*online.FoldIn, []online.Feature, []float64, []float64)) []float64 {
		f := online.NewFoldIn(s, [][]float64{online.DefaultRates, online.FurtherRates})
		for j, field := range s.Field {
			f.Place(int32(j), online.Feature{Field: field, Row: -1, Base: int32(j)})
		}
		for i := range p.X.NumRows() {
			index, value := p.X.Row(i)
			features := []online.Feature{
				{Field: 0, Row: index[0], Base: index[0]},
				{Field: 1, Row: index[1], Base: index[1]},
			}
			predicted(f, features, value)
			f.Layout.Observe(p.Target(i), 1)
			score(f, features, value, p.Target(i))
			for e := range features {
				predicted(f, features, value)
				f.Accumulate(e)
				f.Update(&f.Rows[index[e]])
				f.Changes++
			}
		}
		return slices.Concat(f.Loss...)
	}
	for _, s := range []*posterior.State{shared, separate} {
		fast := run(s, func(f *online.FoldIn, features []online.Feature, _, target []float64) {
			f.Score(features, target, nil, true)
			f.Changes++
		})
		slow := run(s, scoreByPrediction)
		for g := range fast {
			if math.Abs(fast[g]-slow[g]) > 1e-9*(1+slow[g]) {
				t.Errorf("separate=%v rate %d of field %d: loss %g, by prediction %g", s.Separate,
					g%len(online.DefaultRates), g/len(online.DefaultRates), fast[g], slow[g])
			}
		}
	}
}

// scoreByPrediction is the slow twin of FoldIn.score.
func scoreByPrediction(f *online.FoldIn, features []online.Feature, values, target []float64) {
	q := len(f.Zero)
	type loss struct {
		row   *online.LiveRow
		g     int
		value float64
	}
	var all []loss
	for e, feature := range features {
		row := &f.Rows[feature.Row]
		for g := range row.Loss {
			f.Gather(features, values, nil)
			f.Event.Mean[e] = row.Mean[g*q : g*q+q]
			f.Layout.Predict(&f.Event)
			all = append(all, loss{row, g, f.Layout.LossWith(target, nil)})
		}
	}
	for _, l := range all {
		f.Charge(l.row, l.g, l.value, true)
	}
	f.Changes++
	f.Gather(features, values, nil)
	f.Layout.Predict(&f.Event)
}

// TestMixForgetsOutliers: one loss of 1e12, or one that is no number, decides the mix no longer than any large one.
func TestMixForgetsOutliers(t *testing.T) {
	p := posteriortest.Ratings(rand.New(rand.NewPCG(6, 1)), 30, 4, 4, 2, true)
	for _, outlier := range []float64{1e12, math.Inf(1), math.NaN()} {
		f := online.NewFoldIn(randomState(rand.New(rand.NewPCG(6, 2)), p, posterior.Gaussian, 3),
			[][]float64{online.DefaultRates, nil})
		f.Place(0, online.Feature{Field: 0, Row: 0, Base: 0})
		row := &f.Rows[0]
		f.Charge(row, 0, outlier, true)
		for range 500 {
			f.Charge(row, 0, 0.5, true)
			f.Charge(row, 1, 1.5, true)
		}
		if !(f.Loss[0][0] < f.Loss[0][1]) || !(row.Loss[0] < row.Loss[1]) {
			t.Errorf("after one loss of %g the better rate has %g, the other %g; of the entity %g and %g", outlier,
				f.Loss[0][0], f.Loss[0][1], row.Loss[0], row.Loss[1])
		}
	}
}

// TestWidenedNamesAreLearnedAnew: after names that were well known take other values, rows that were widened follow
// within a few events of each, others do not; and where nothing changed, widening costs little.
func TestWidenedNamesAreLearnedAnew(t *testing.T) {
	const names, rounds = 30, 12
	worth := func(share float64, change bool) float64 {
		r := rand.New(rand.NewPCG(4, 4))
		f := online.NewFoldIn(
			posterior.New(posterior.Gaussian, 1, 0, nil, 1, posterior.PriorFor(posterior.Gaussian, 1)),
			[][]float64{online.FurtherRates})
		value := make([]float64, names)
		total := 0.0
		for round := range 80 + rounds {
			if round == 80 {
				f.Widen(0, share)
			}
			for i := range int32(names) {
				if round == 0 {
					f.Place(i, online.Feature{Field: 0, Row: -1, Base: -1})
				}
				if round == 0 || round == 80 && change {
					value[i] = r.NormFloat64()
				}
				features, values := []online.Feature{{Field: 0, Row: i, Base: -1}}, []float64{1}
				got := predicted(f, features, values)[0]
				if round > 80 {
					total += (got - value[i]) * (got - value[i])
				}
				f.Learn(features, values, []float64{value[i] + 0.3*r.NormFloat64()}, 1)
			}
		}
		return total / (names * (rounds - 1))
	}
	if kept, widened := worth(1, true), worth(0.01, true); !(widened < kept/2) {
		t.Errorf("after a change: mean square error %.3f with rows widened, %.3f without", widened, kept)
	}
	if kept, widened := worth(1, false), worth(0.01, false); widened > kept+0.03 {
		t.Errorf("without a change: mean square error %.3f with rows widened, %.3f without", widened, kept)
	}
}

// TestRatesOfFieldsApart: where the names of one field change and those of the other stay, the one forgets and the
// other does not.
func TestRatesOfFieldsApart(t *testing.T) {
	const names = 20
	r := rand.New(rand.NewPCG(4, 4))
	f := online.NewFoldIn(posterior.New(posterior.Gaussian, 1, 0, nil, 2, posterior.PriorFor(posterior.Gaussian, 1)),
		[][]float64{online.DefaultRates, online.FurtherRates})
	stays, changes := make([]float64, names), make([]float64, names)
	for i := range names {
		stays[i] = r.NormFloat64()
	}
	placed := make(map[int]int32)
	feature := func(field, name int) online.Feature {
		key := field*names + name
		if _, ok := placed[key]; !ok {
			placed[key] = int32(len(placed))
			f.Place(placed[key], online.Feature{Field: int32(field), Row: -1, Base: -1})
		}
		return online.Feature{Field: int32(field), Row: placed[key], Base: -1}
	}
	for range 6000 {
		a, b := r.IntN(names), r.IntN(names)
		changes[b] += 0.3 * r.NormFloat64()
		features, values := []online.Feature{feature(0, a), feature(1, b)}, []float64{1, 1}
		predicted(f, features, values)
		f.Learn(features, values, []float64{stays[a] + changes[b] + 0.3*r.NormFloat64()}, 1)
	}
	if l := f.Loss[0]; !(l[0] < l[len(l)-1]) {
		t.Errorf("field that stays: losses %v, the rate that forgets nothing is not the best", l)
	}
	if l := f.Loss[1]; !(l[len(l)-1] < l[0]) {
		t.Errorf("field that changes: losses %v, the fastest rate is not the best", l)
	}
}

// predicted returns the outputs of an event.
func predicted(f *online.FoldIn, features []online.Feature, values []float64) []float64 {
	out := make([]float64, len(f.Frozen.Bias))
	f.Predict(out, features, values)
	return out
}
