package online

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/solver/posterior"
)

// TestWidenedWhenAsked: rows that take up widenings when they are asked for are those that were widened at once, to the
// bit, as is what is learned after.
func TestWidenedWhenAsked(t *testing.T) {
	const names = 12
	play := func(atOnce bool) (all []float64) {
		r := rand.New(rand.NewPCG(4, 4))
		f := NewFoldIn(posterior.New(posterior.Gaussian, 1, 3, nil, 2, posterior.PriorFor(posterior.Gaussian, 1)),
			[][]float64{DefaultRates, FurtherRates})
		feature := func(i int) Feature { return Feature{Field: int32(i % 2), Row: int32(i), Base: -1} }
		for i := range names {
			f.Place(int32(i), feature(i))
		}
		for event := range 400 {
			a, b := feature(2*r.IntN(names/2)), feature(2*r.IntN(names/2)+1)
			f.Learn([]Feature{a, b}, []float64{1, 1}, []float64{r.NormFloat64()}, 1)
			if event%90 == 50 || event == 141 {
				f.Widen(int32(event%2), 0.01)
				for i := range names {
					if atOnce {
						f.widen(&f.Rows[i])
					}
				}
			}
		}
		f.Widen(0, 0.5)
		for i := range names {
			all = append(f.Row(all, feature(i), nil), f.Event.cov[0]...)
		}
		return all
	}
	if now, later := play(true), play(false); !slices.Equal(now, later) {
		t.Errorf("widened at once %v, when asked for %v", now, later)
	}
}

// TestSteadyFieldsForgetNothing: rows of steady fields are those of a fold-in that forgets in none, others those that
// it mixes.
func TestSteadyFieldsForgetNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	s := posterior.New(posterior.Gaussian, 1, 0, nil, 2, posterior.PriorFor(posterior.Gaussian, 1))
	mixed, all := NewFoldIn(s.Clone(), [][]float64{{1, 0.9}, {1, 0.8}}), NewFoldIn(s.Clone(), make([][]float64, 2))
	learn := func(f *FoldIn, field int32, target float64) {
		f.Learn([]Feature{{Field: field, Row: field, Base: -1}}, []float64{1}, []float64{target}, 1)
	}
	for _, f := range []*FoldIn{mixed, all} {
		f.Place(0, Feature{Field: 0, Base: -1})
		f.Place(1, Feature{Field: 1, Base: -1})
	}
	for i := range 200 {
		field, target := int32(i%2), math.Sin(float64(i)/20)+0.1*r.NormFloat64()
		learn(mixed, field, target)
		learn(all, field, target)
	}
	features := []Feature{{Field: 0, Row: 0, Base: -1}, {Field: 1, Row: 1, Base: -1}}
	got, want, before := mixed.State(features, []bool{false, true}), all.State(features,
		nil), mixed.State(features, nil)
	if math.Abs(got.Mean[1]-want.Mean[1]) > 1e-12 || math.Abs(before.Mean[1]-want.Mean[1]) < 1e-3 {
		t.Errorf("steady weight %g, without forgetting %g, mixed %g", got.Mean[1], want.Mean[1], before.Mean[1])
	}
	if got.Mean[0] != before.Mean[0] || math.Abs(got.Mean[0]-want.Mean[0]) < 1e-3 {
		t.Errorf("mixed weight %g with a steady field, %g without", got.Mean[0], before.Mean[0])
	}
	for j, f := range features {
		if row := mixed.Row(nil, f, []bool{false, true}); row[0] != got.Mean[j] {
			t.Errorf("row %d is %g, in the state %g", j, row[0], got.Mean[j])
		}
	}
}
