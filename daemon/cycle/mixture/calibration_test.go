package mixture

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/evaluate"
)

// lossOf is the log loss of probabilities of labels, or of exclusive classes.
func lossOf(p, targets []float64, exclusive bool) (loss float64) {
	for k, q := range p {
		if targets[k] > 0 {
			loss -= math.Log(q)
		} else if !exclusive {
			loss -= math.Log(1 - q)
		}
	}
	return loss
}

// TestCalibrationBound: whatever is predicted and comes, in whatever half, what is calibrated loses at most what its
// comment says more.
func TestCalibrationBound(t *testing.T) {
	const events = 5000
	for _, m := range []int{1, 3, 4} {
		for _, exclusive := range []bool{false, true} {
			if m == 1 && exclusive {
				continue
			}
			for _, moves := range []bool{false, true} {
				r := rand.New(rand.NewPCG(uint64(m), 50))
				c := newCalibration(m, exclusive)
				plain, own, labels := 0.0, 0.0, 1.0
				var since [2]float64 // both losses halfway
				if !exclusive {
					labels = float64(m)
				}
				outputs, p, targets := make([]float64, m), make([]float64, m), make([]float64, m)
				for n := range events {
					for k := range outputs {
						outputs[k] = 3 * r.NormFloat64()
						p[k] = 1 / (1 + math.Exp(-outputs[k]))
						targets[k] = -1
						if r.Float64() < p[k] {
							targets[k] = 1
						}
					}
					if exclusive {
						evaluate.SoftmaxTo(p, outputs)
						for k := range targets {
							targets[k] = -1
						}
						at := slices.Index(p, slices.Max(p))
						if moves && n/500%2 > 0 {
							at = r.IntN(m)
						}
						targets[at] = 1
					}
					if n == events/2 {
						since = [2]float64{plain, own}
					}
					plain += lossOf(p, targets, exclusive)
					c.apply(p)
					own += lossOf(p, targets, exclusive)
					c.learn(targets)
				}
				most := plain - since[0] + labels*(math.Log(20_000)+calibrationShare*events/2)
				if own-since[1] > most+1e-9 || own > plain+labels*(math.Ln2+calibrationShare*events)+1e-9 {
					t.Errorf("%d outputs, exclusive %t: loss %g, of the second half at most %g", m, exclusive, own, most)
				}
			}
		}
	}
}

// TestCalibration: outputs that should be 0.7 times what they are, and a twentieth of events that comes out of the blue,
// are found from what came.
func TestCalibration(t *testing.T) {
	for name, truth := range map[string]func(p float64) float64{
		"too sure": func(p float64) float64 { return 1 / (1 + math.Pow(1/p-1, 0.7)) },
		"seldom":   func(p float64) float64 { return 0.95*p + 0.025 },
		"right":    func(p float64) float64 { return p },
	} {
		r := rand.New(rand.NewPCG(7, 50))
		c, p := newCalibration(1, false), make([]float64, 1)
		off, n := 0.0, 0.0
		for i := range 8000 {
			said := 1 / (1 + math.Exp(-4*r.NormFloat64()))
			p[0] = said
			c.apply(p)
			if is := truth(said); i >= 4000 {
				off, n = off+math.Abs(p[0]-is), n+1
			}
			label := -1.0
			if r.Float64() < truth(said) {
				label = 1
			}
			c.learn([]float64{label})
		}
		if off/n > 0.015 {
			t.Errorf("%s: off by %.3f", name, off/n)
		}
	}
}
