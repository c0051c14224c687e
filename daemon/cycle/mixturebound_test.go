package cycle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
)

// adversaries say how far off each part is at event n, given the weights that the event before was predicted with.
var adversaries = map[string]func(r *rand.Rand, n int, weights, off []float64){
	"the heaviest part errs": func(r *rand.Rand, _ int, weights, off []float64) {
		heaviest := 0
		for p := range off {
			off[p] = 0.1 * r.NormFloat64()
			if weights[p] > weights[heaviest] {
				heaviest = p
			}
		}
		off[heaviest] = 3
	},
	"the best part errs by 100 in one of 2,000 events": func(r *rand.Rand, n int, _, off []float64) {
		for p := range off {
			off[p] = float64(p+1) * 0.3 * r.NormFloat64()
		}
		if n%2000 == 1999 {
			off[0] = 100
		}
	},
	"the parts take turns": func(r *rand.Rand, n int, _, off []float64) {
		for p := range off {
			off[p] = 4
			if n/6000%len(off) == p {
				off[p] = 0.1 * r.NormFloat64()
			}
		}
	},
	"all are right, then one is wrong": func(r *rand.Rand, n int, _, off []float64) {
		for p := range off {
			off[p] = 0.01 * r.NormFloat64()
		}
		if n > 30_000 {
			off[1] = 5
		}
	},
}

// TestMixtureKeepsItsBound: what learning.md says of the weights by the losses of all events holds over any stretch, whatever
// the parts say: their mean capped loss is at most c times that of any part and of what finding it costs.
func TestMixtureKeepsItsBound(t *testing.T) {
	const (
		count = 4
		n     = 60_000
		c     = 2.64 // ηL/(1 − exp(−ηL)), rounded up, of the rate η and the largest loss L
	)
	if most := mixtureRate * mixtureLossMax; most/-math.Expm1(-most) > c {
		t.Fatalf("learning.md says %v, and it is %v", c, most/-math.Expm1(-most))
	}
	for name, adversary := range adversaries {
		t.Run(name, func(t *testing.T) {
			target := targetOf(t, "ordinal")
			parts := make([]*scripted, count)
			var baselines []baseline
			for i := range parts {
				parts[i] = &scripted{title: fmt.Sprint("part", i), says: []float64{0}}
				baselines = append(baselines, parts[i])
			}
			m := mixtureOf(target, nil, baselines, -1, 100)
			m.stacks = nil
			m.parts = m.parts[:numLearned+count]
			for i := range m.parts {
				m.parts[i].weight = 1.0 / count
			}
			r := rand.New(rand.NewPCG(26, 1))
			sum, each := make([]float64, n+1), make([][count]float64, n+1) // of all events before
			off, targets := make([]float64, count), make([]float64, target.Outputs())
			for i := range n {
				ev := &event.Event{Label: float64(1 + r.IntN(5)), Weight: 1}
				target.Encode(targets, ev)
				adversary(r, i, m.weights[numLearned:], off)
				for p, s := range parts {
					s.says[0] = ev.Label + off[p]
				}
				m.predict(ev, nil, nil, nil)
				m.learn(ev, targets, nil)
				sum[i+1], each[i+1] = sum[i], each[i]
				for p := range parts {
					loss := m.parts[numLearned+p].loss
					sum[i+1] += m.weights[numLearned+p] * loss
					each[i+1][p] += loss
				}
			}
			for _, stretch := range []int{100, 1000, 20_000, n} {
				cost := (math.Log(1000*count) + 0.001001*float64(stretch)) / 0.3 // as learning.md has it
				for from := 0; from+stretch <= n; from += 100 {
					mixed := sum[from+stretch] - sum[from]
					for p := range parts {
						if most := c * (each[from+stretch][p] - each[from][p] + cost); mixed > most+1e-6 {
							t.Fatalf("events %d to %d: loss %.1f, by part %d at most %.1f", from, from+stretch, mixed, p, most)
						}
					}
				}
			}
		})
	}
}
