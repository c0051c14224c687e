package posterior

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestLearnMixesAsPredict: an event is learned to the same bits whether the rows of its entries are mixed once and followed, or gathered anew before each
// of its entries learns.
func TestLearnMixesAsPredict(t *testing.T) {
	p := ratings(rand.New(rand.NewPCG(6, 1)), 300, 8, 8, 2, true)
	grouped := func(s *State) *State {
		s.Group = []int32{0, 0, 1}
		return s
	}
	for name, of := range map[string]func() *State{
		"shared":       func() *State { return inTurns(New(Logistic, 4, 5, p.Field, 3, PriorFor(Logistic, 1))) },
		"numbers":      func() *State { return inTurns(New(Gaussian, 1, 5, p.Field, 3, PriorFor(Gaussian, 1))) },
		"groups":       func() *State { return grouped(inTurns(New(Gaussian, 1, 5, p.Field, 3, PriorFor(Gaussian, 1)))) },
		"separate":     func() *State { return inTurns(NewSeparate(Multinomial, 3, p.Field, 3, PriorFor(Multinomial, 1))) },
		"main effects": func() *State { return mainEffects(inTurns(New(Logistic, 2, 5, p.Field, 3, PriorFor(Logistic, 1)))) },
	} {
		t.Run(name, func(t *testing.T) {
			rates := [][]float64{DefaultRates, nil, FurtherRates}
			fast, slow := NewFoldIn(of(), rates), NewFoldIn(of(), rates)
			for j, field := range fast.base.Field {
				for _, f := range []*FoldIn{fast, slow} {
					f.Place(int32(j), Feature{Field: field, Row: -1, Base: int32(j)})
				}
			}
			r, values := rand.New(rand.NewPCG(2, 2)), []float64{1, 1, 0.5, 0.5}
			for i := range 400 {
				var features []Feature
				for _, field := range []int32{0, 1, 2, 2} { // of the last field sometimes the same name twice
					row := 3*r.Int32N(5) + field
					features = append(features, Feature{Field: field, Row: row, Base: row})
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
				if fast.base.Likelihood == Multinomial {
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
func inTurns(s *State) *State {
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

func mainEffects(s *State) *State {
	s.SetMainOnly([]bool{false, false, true})
	return s
}

// learnAnew is the slow twin of FoldIn.Learn.
func learnAnew(f *FoldIn, features []Feature, values, target []float64, weight float64) {
	anew := func() {
		f.changes++
		f.gather(features, values, nil)
		f.rowMath.predict(&f.event)
	}
	if f.young != nil && !f.young.learn(target) {
		return
	}
	anew()
	f.events, f.agreement = f.events+1, f.agreement[:0]
	f.rowMath.observe(target, weight)
	f.score(features, target, nil, true)
	for e := range features {
		anew()
		f.accumulate(e)
		f.update(&f.rows[features[e].Row])
	}
	f.changes++
}
