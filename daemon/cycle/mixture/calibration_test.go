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

// TestCalibrationBound: where first what is most likely comes, and then what is calibrated worst or what was said, the
// log loss is at most what the comment of calibration says above that of the mixture, in all and in the second half.
func TestCalibrationBound(t *testing.T) {
	const events = 3000
	for _, c := range []*calibration{newCalibration(1, false), newCalibration(3, false), newCalibration(4, true)} {
		m := len(c.each) / numCalibrations
		for _, adverse := range []bool{false, true} {
			*c = *newCalibration(m, c.exclusive)
			r := rand.New(rand.NewPCG(uint64(m), 50))
			outputs, said, p, targets := make([]float64, m), make([]float64, m), make([]float64, m), make([]float64, m)
			plain, own, since := 0.0, 0.0, [2]float64{}
			for n := range events {
				for k := range outputs {
					outputs[k] = 2 * r.NormFloat64()
					said[k] = 1 / (1 + math.Exp(-outputs[k]))
				}
				if c.exclusive {
					evaluate.SoftmaxTo(said, outputs)
				}
				copy(p, said)
				c.apply(p)
				worst, drawn := 0, 0 // classes
				for k, u := 0, r.Float64(); k < m; k++ {
					if said[k]/p[k] > said[worst]/p[worst] {
						worst = k
					}
					if u -= said[k]; u < 0 {
						drawn, u = k, math.Inf(1)
					}
				}
				for k := range targets {
					comes := said[k] > 0.5
					if c.exclusive {
						comes = k == slices.Index(said, slices.Max(said))
					}
					switch {
					case n < events/2:
					case c.exclusive && adverse:
						comes = k == worst
					case c.exclusive:
						comes = k == drawn
					case adverse:
						comes = said[k] > p[k]
					default:
						comes = r.Float64() < said[k]
					}
					if targets[k] = -1; comes {
						targets[k] = 1
					}
				}
				if n == events/2 {
					since = [2]float64{plain, own}
				}
				plain, own = plain+lossOf(said, targets, c.exclusive), own+lossOf(p, targets, c.exclusive)
				c.learn(targets)
			}
			labels := 1 / c.rate
			all, half := plain+labels*(math.Ln2+calibrationShare*events),
				plain-since[0]+labels*(math.Log(200_000)+calibrationShare*events/2)
			if own > all+1e-9 || own-since[1] > half+1e-9 {
				t.Errorf("%d outputs, adverse %t: loss %g, at most %g; of the second half %g, at most %g", m, adverse, own, all,
					own-since[1], half)
			}
		}
	}
}

// TestCalibration: outputs that should be 0.7 times what they are are found, and a share that comes out of the blue.
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
