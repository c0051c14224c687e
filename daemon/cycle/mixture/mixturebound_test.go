package mixture_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/baselines"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/mixture"
)

// adversary says how far off each part of a mixture is at event n, which is of an entity and has its weights already.
type adversary func(r *rand.Rand, n, entity int, m *mixture.Mixture, off []float64)

// adversaries are ten ways of setting parts against the weights.
var adversaries = map[string]adversary{
	"the heaviest part errs": func(r *rand.Rand, _, _ int, m *mixture.Mixture, off []float64) {
		heaviestErrs(r, m.Weights,
			off)
	},
	"the part that all events favour errs": func(r *rand.Rand, _, _ int, m *mixture.Mixture, off []float64) {
		heaviestErrs(r, m.Plain, off)
	},
	"the part that the entity's events favour errs": func(r *rand.Rand, _, _ int, m *mixture.Mixture, off []float64) {
		heaviestErrs(r, m.Own, off)
	},
	"the best part errs by 100 in one of 2,000 events": func(r *rand.Rand, n, _ int, _ *mixture.Mixture, off []float64) {
		for p := range off {
			off[p] = float64(p+1) * 0.3 * r.NormFloat64()
		}
		if n%2000 == 1999 {
			off[0] = 100
		}
	},
	"the parts take turns": func(r *rand.Rand, n, _ int, _ *mixture.Mixture, off []float64) {
		rightOne(r, n/2000%len(off), off)
	},
	"all are right, then one is wrong": func(r *rand.Rand, n, _ int, _ *mixture.Mixture, off []float64) {
		for p := range off {
			off[p] = 0.01 * r.NormFloat64()
		}
		if n > 10_000 {
			off[1] = 5
		}
	},
	"no part is right": func(_ *rand.Rand, _, _ int, _ *mixture.Mixture, off []float64) {
		for p := range off {
			off[p] = 100
		}
	},
	"each entity has its best part": func(r *rand.Rand, _, entity int, _ *mixture.Mixture, off []float64) {
		rightOne(r, entity%len(off), off)
	},
	"an entity's best part changes every third of its events": func(r *rand.Rand, n, entity int, _ *mixture.Mixture,
		off []float64) {
		rightOne(r, (entity+n/21)%len(off), off)
	},
	"the two sets of weights take turns": func(r *rand.Rand, n, _ int, m *mixture.Mixture, off []float64) {
		if n/1500%2 == 0 {
			heaviestErrs(r, m.Own, off)
		} else {
			heaviestErrs(r, m.Plain, off)
		}
	},
}

// heaviestErrs has the part of the largest weight err.
func heaviestErrs(r *rand.Rand, weights, off []float64) {
	heaviest := 0
	for p := range off {
		off[p] = 0.1 * r.NormFloat64()
		if weights[mixture.NumLearned+p] > weights[mixture.NumLearned+heaviest] {
			heaviest = p
		}
	}
	off[heaviest] = 4
}

// rightOne has one part be right.
func rightOne(r *rand.Rand, right int, off []float64) {
	for p := range off {
		off[p] = 4
	}
	off[right] = 0.1 * r.NormFloat64()
}

// game is a mixture against an adversary, and sums of losses, of all events before.
type game struct {
	parts   int
	weighed []float64   // by the weights
	likely  []float64   // −ln Σ weight·exp(−rate·loss)/rate
	live    []float64   // of what is mixed
	each    [][]float64 // by part
}

// play has so many parts predict events of so many entities. The predictions are off as the adversary says.
func play(t *testing.T, task string, r *rand.Rand, parts, entities, events int, how adversary) *game {
	t.Helper()
	target := targetOf(t, task)
	scripts := make([]*scripted, parts)
	var baselines []baselines.Baseline
	for i := range scripts {
		scripts[i] = &scripted{title: fmt.Sprint("part", i), says: []float64{0}}
		baselines = append(baselines, scripts[i])
	}
	m := mixture.MixtureOf(target, nil, baselines, 0, 100)
	m.Stack, m.Pool = nil, nil
	m.Parts = m.Parts[:mixture.NumLearned+parts]
	m.Weights, m.Plain, m.Own = m.Weights[:len(m.Parts)], m.Plain[:len(m.Parts)], m.Own[:len(m.Parts)]
	for i := range m.Parts {
		m.Parts[i].Weight = 1 / float64(parts)
	}
	g := &game{
		parts:   parts,
		weighed: make([]float64, events+1),
		likely:  make([]float64, events+1),
		live:    make([]float64, events+1),
	}
	g.each = make([][]float64, parts)
	for p := range g.each {
		g.each[p] = make([]float64, events+1)
	}
	off, targets, outputs := make([]float64, parts), make([]float64,
		target.Outputs()), make([]float64, target.Outputs())
	for i := range events {
		ev := label(r, target)
		entity := r.IntN(entities)
		ev.Categorical = []string{fmt.Sprint(entity), "item"}
		target.Encode(targets, ev)
		m.Combine(ev, nil, nil, nil, nil) // no part's loss is in its weights
		how(r, i, entity, m, off)
		for p, s := range scripts {
			s.says[0] = ev.Label + off[p]
			if !target.IsNumeric() {
				s.says[0] = math.Exp(-min(off[p]*off[p]/2, 7)) // below the cap
				if ev.Label == 0 {
					s.says[0] = 1 - s.says[0]
				}
			}
		}
		m.Combine(ev, nil, nil, nil, nil)
		m.Learn(ev, targets, nil)
		weighed, likely := 0.0, 0.0
		for p := range scripts {
			w, loss := m.Weights[mixture.NumLearned+p], m.Parts[mixture.NumLearned+p].Loss
			weighed, likely = weighed+w*loss, likely+w*math.Exp(-mixture.MixtureRate*loss)
			g.each[p][i+1] = g.each[p][i] + loss
		}
		g.weighed[i+1], g.likely[i+1] = g.weighed[i]+weighed, g.likely[i]-math.Log(likely)/mixture.MixtureRate
		if !target.IsNumeric() {
			m.Outputs(outputs)
			g.live[i+1] = g.live[i] + target.Loss.Eval(nil, outputs, targets)
		}
	}
	return g
}

// check fails where a bound does not hold over an interval of events.
func (g *game) check(t *testing.T, interval int) {
	t.Helper()
	cost := cycletest.BoundCost(g.parts, interval)
	for from := 0; from+interval < len(g.weighed); from += max(1, interval/10) {
		over := func(sums []float64) float64 { return sums[from+interval] - sums[from] }
		for p := range g.each {
			loss := over(g.each[p]) + 1e-6
			if over(g.weighed) > cycletest.BoundFactor*(loss+cost) {
				t.Fatalf("events %d to %d: loss %.1f by the weights, of part %d %.1f", from, from+interval,
					over(g.weighed), p, loss)
			}
			if over(g.likely) > loss+cost {
				t.Fatalf("events %d to %d: %.1f by likelihood, of part %d %.1f", from, from+interval, over(g.likely), p,
					loss)
			}
			if over(g.live) > loss+cost {
				t.Fatalf("events %d to %d: live log loss %.1f, of part %d %.1f", from, from+interval, over(g.live), p,
					loss)
			}
		}
	}
}

// TestMixtureKeepsItsBound: the theorem of learning.md holds against ten adversaries, of numbers and of probabilities,
// over any interval of events, whatever the losses of entities say.
func TestMixtureKeepsItsBound(t *testing.T) {
	for name, how := range adversaries {
		for _, task := range []string{"ordinal", "binary"} {
			for _, entities := range []int{1, 7, 5000} {
				t.Run(fmt.Sprintf("%s, %s, %d entities", name, task, entities), func(t *testing.T) {
					t.Parallel()
					const n = 20_000
					g := play(t, task, rand.New(rand.NewPCG(26, 1)), 4, entities, n, how)
					for _, interval := range []int{100, 1000, 10_000, n} {
						g.check(t, interval)
					}
				})
			}
		}
	}
}

// TestMixtureKeepsItsBoundInAnyGame: so it does in games drawn at random, over every interval of some lengths.
func TestMixtureKeepsItsBoundInAnyGame(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(26, seed))
		task, n, large := []string{"ordinal", "binary"}[r.IntN(2)], 1+r.IntN(400), r.Float64()
		held := make([]float64, 2+r.IntN(10))
		g := play(
			t,
			task,
			r,
			len(held),
			1+r.IntN(20),
			n,
			func(r *rand.Rand, _, _ int, _ *mixture.Mixture, off []float64) {
				for p := range off {
					if r.IntN(10) == 0 {
						held[p] = 5 * r.NormFloat64() * math.Pow(large, 4*r.Float64())
					}
					off[p] = held[p] + 0.1*r.NormFloat64()
				}
			},
		)
		for _, interval := range []int{1, 10, n} {
			g.check(t, min(interval, n))
		}
	}
}

// TestMisledEntitiesCostNothing: where the losses of entities mislead, the mixture comes to be that without them, and
// where they say which part is right it comes to be that with them.
func TestMisledEntitiesCostNothing(t *testing.T) {
	// Event by event part 0 errs a little; the others err not at all in most events, and by much when an entity trusts
	// them.
	misleading := func(r *rand.Rand, _, _ int, m *mixture.Mixture, off []float64) {
		off[0] = 0.5 * r.NormFloat64()
		for p := 1; p < len(off); p++ {
			if off[p] = 0.4 * r.NormFloat64(); m.Own[mixture.NumLearned+p] > m.Plain[mixture.NumLearned+p] {
				off[p] = 1.5
			}
		}
	}
	for name, how := range map[string]adversary{"misleading": misleading,
		"right": adversaries["each entity has its best part"]} {
		t.Run(name, func(t *testing.T) {
			const n = 20_000
			trust := 0.0
			play(
				t,
				"ordinal",
				rand.New(rand.NewPCG(26, 2)),
				4,
				200,
				n,
				func(r *rand.Rand, i, entity int, m *mixture.Mixture, off []float64) {
					how(r, i, entity, m, off)
					trust = m.Trust
				},
			)
			if (trust > 0.9) != (name == "right") || (trust < 0.1) != (name == "misleading") {
				t.Errorf("the entities' losses have %g of the weight after %d events", trust, n)
			}
		})
	}
}
