package sweep

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/online"
	"github.com/refitd/refitd/solver/posterior/posteriortest"
)

// TestLearnMixesAsPredict: an event is learned to the same bits whether the rows of its entries are mixed once and
// followed, or gathered anew before each of its entries learns.
func TestLearnMixesAsPredict(t *testing.T) {
	p := posteriortest.Ratings(rand.New(rand.NewPCG(6, 1)), 300, 8, 8, 2, true)
	grouped := func(s *posterior.State) *posterior.State {
		s.Group = []int32{0, 0, 1}
		return s
	}
	for name, of := range map[string]func() *posterior.State{
		"shared": func() *posterior.State {
			return inTurns(posterior.New(posterior.Logistic, 4, 5, p.Field, 3, posterior.PriorFor(posterior.Logistic, 1)))
		},
		"numbers": func() *posterior.State {
			return inTurns(posterior.New(posterior.Gaussian, 1, 5, p.Field, 3, posterior.PriorFor(posterior.Gaussian, 1)))
		},
		"groups": func() *posterior.State {
			return grouped(inTurns(posterior.New(posterior.Gaussian, 1, 5, p.Field, 3, posterior.PriorFor(posterior.Gaussian,
				1))))
		},
		"separate": func() *posterior.State {
			return inTurns(posterior.NewSeparate(posterior.Multinomial, 3, p.Field, 3, posterior.PriorFor(posterior.Multinomial,
				1)))
		},
		"main effects": func() *posterior.State {
			return mainEffects(inTurns(posterior.New(posterior.Logistic, 2, 5, p.Field, 3, posterior.PriorFor(posterior.Logistic,
				1))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			rates := [][]float64{online.DefaultRates, nil, online.FurtherRates}
			fast, slow := online.NewFoldIn(of(), rates), online.NewFoldIn(of(), rates)
			for j, field := range fast.Frozen.Field {
				for _, f := range []*online.FoldIn{fast, slow} {
					f.Place(int32(j), online.Feature{Field: field, Row: -1, Base: int32(j)})
				}
			}
			r, values := rand.New(rand.NewPCG(2, 2)), []float64{1, 1, 0.5, 0.5}
			for i := range 400 {
				var features []online.Feature
				for _, field := range []int32{0, 1, 2, 2} { // of the last field sometimes the same name twice
					row := 3*r.Int32N(5) + field
					features = append(features, online.Feature{Field: field, Row: row, Base: row})
				}
				a, b := predicted(fast, features, values), predicted(slow, features, values)
				for c := range a {
					if a[c] != b[c] || math.IsNaN(a[c]) {
						t.Fatalf("event %d: output %d is %.17g, gathered anew %.17g", i, c, a[c], b[c])
					}
				}
				target := make([]float64, len(a))
				for c := range target {
					target[c] = float64(2*r.IntN(2) - 1)
				}
				if fast.Frozen.Likelihood == posterior.Multinomial {
					clear(target)
					target[r.IntN(len(target))] = 1
				}
				fast.Learn(features, values, target, 1)
				learnAnew(slow, features, values, target, 1)
			}
		})
	}
}

// inTurns gives a state random rows whose fields take turns, and one more vector where outputs are separate.
func inTurns(s *posterior.State) *posterior.State {
	r := rand.New(rand.NewPCG(3, 3))
	for j := range s.Field {
		s.Field[j] = int32(j % 3)
	}
	if s.Separate {
		addRandomVectors(r, s, 3)
	}
	for i := range s.Mean {
		s.Mean[i] = 0.3 * r.NormFloat64()
	}
	return s
}

func mainEffects(s *posterior.State) *posterior.State {
	s.SetMainOnly([]bool{false, false, true})
	return s
}

// learnAnew is the slow twin of FoldIn.Learn.
func learnAnew(f *online.FoldIn, features []online.Feature, values, target []float64, weight float64) {
	anew := func() {
		f.Changes++
		f.Gather(features, values, nil)
		f.Layout.Predict(&f.Event)
	}
	if f.ColdStart != nil && !f.ColdStart.Learn(target) {
		return
	}
	anew()
	f.Events, f.Agreement = f.Events+1, f.Agreement[:0]
	f.Layout.Observe(target, weight)
	f.Score(features, target, nil, true)
	for e := range features {
		anew()
		f.Accumulate(e)
		f.Update(&f.Rows[features[e].Row])
	}
	f.Changes++
}
