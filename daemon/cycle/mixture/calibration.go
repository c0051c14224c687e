package mixture

import (
	"math"

	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"gonum.org/v1/gonum/floats"
)

// PartCalibration is what a backtest leaves out for the mixture without its calibration. It is no part.
const PartCalibration = "calibration"

// The ways in which a mixture is calibrated: its outputs times each factor, and of the probabilities each share spread
// evenly. calibrationShare of all weight is spread over the ways at each event. Chosen by hand.
var (
	calibrationFactors = [...]float64{0.64, 0.8, 1, 1.25, 1.56, 2, 2.5}
	calibrationSpreads = [...]float64{0, 0.003, 0.01, 0.03, 0.1}
)

// Derived: numCalibrations and notCalibrated. The share is chosen by hand.
const (
	calibrationShare = 1e-5
	numCalibrations  = len(calibrationFactors) * len(calibrationSpreads)
	notCalibrated    = 2 * len(calibrationSpreads) // factor 1, nothing spread
)

// calibration corrects probabilities that are too sure or not sure enough. A mean of probabilities is less sure than
// its parts (Gneiting and Ranjan 2013), and one that errs seldom and badly asks for a share that is spread. The ways
// are mixed by Bayes' rule on what came, with a fixed share; half of what is shared goes to the mixture as it is. So in
// any stretch of events the log loss is at most ln 200,000 and 0.00001 an event above that of the mixture, times the
// number of labels. O(m) an event.
type calibration struct {
	exclusive bool    // classes, not labels
	rate      float64 // of the losses of all labels together: their geometric mean is concave
	weights   [numCalibrations]float64
	outputs   []float64 // of the mixture, as what follows
	each      []float64 // numCalibrations × m, of the event
}

func newCalibration(outputs int, exclusive bool) *calibration {
	c := &calibration{
		exclusive: exclusive,
		rate:      1,
		outputs:   make([]float64, outputs),
		each:      make([]float64, numCalibrations*outputs),
	}
	if !exclusive {
		c.rate = 1 / float64(outputs)
	}
	for w := range c.weights {
		c.weights[w] = calibrationPrior(w)
	}
	return c
}

// smallRun is far above underflow, also times a least probability. Chosen by hand: any value gives the same.
const smallRun = 1e-200

// calibrationPrior is the weight of a way before anything came.
func calibrationPrior(way int) float64 {
	if way == notCalibrated {
		return 0.5
	}
	return 0.5 / float64(numCalibrations-1)
}

// apply replaces the probabilities of the mixture by those calibrated.
func (c *calibration) apply(mixed []float64) {
	m := len(mixed)
	even := 0.5
	if c.exclusive {
		even = 1 / float64(m)
	}
	for k, p := range mixed {
		p = min(max(p, evaluate.LeastProbability), 1-evaluate.LeastProbability)
		if c.outputs[k] = math.Log(p); !c.exclusive {
			c.outputs[k] -= math.Log1p(-p)
		}
	}
	for f, factor := range calibrationFactors {
		first := c.each[f*len(calibrationSpreads)*m:][:m]
		floats.ScaleTo(first, factor, c.outputs)
		if c.exclusive {
			evaluate.SoftmaxTo(first, first)
		} else {
			for k, o := range first {
				first[k] = 1 / (1 + math.Exp(-o))
			}
		}
		for s, spread := range calibrationSpreads[1:] {
			own := c.each[(f*len(calibrationSpreads)+s+1)*m:][:m]
			for k, p := range first {
				own[k] = (1-spread)*p + spread*even
			}
		}
	}
	clear(mixed)
	for w, weight := range c.weights {
		floats.AddScaled(mixed, weight, c.each[w*m:(w+1)*m])
	}
}

// learn takes up what came of the event that apply was called with last.
func (c *calibration) learn(targets []float64) {
	m, sum := len(c.outputs), 0.0
	for w := range c.weights {
		likely, run := 1.0, 1.0 // run is what of the product has no power yet
		for k, p := range c.each[w*m : (w+1)*m] {
			if targets[k] <= 0 {
				if c.exclusive {
					continue
				}
				p = 1 - p
			}
			if run *= max(p, evaluate.LeastProbability); run < smallRun {
				likely, run = likely*math.Pow(run, c.rate), 1
			}
		}
		c.weights[w] *= likely * math.Pow(run, c.rate)
		sum += c.weights[w]
	}
	for w := range c.weights {
		prior := calibrationPrior(w)
		if c.weights[w] = (1-calibrationShare)*c.weights[w]/sum + calibrationShare*prior; !(sum > 0) {
			c.weights[w] = prior
		}
	}
}
