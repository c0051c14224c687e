package task

import (
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/solver"
	"gonum.org/v1/gonum/floats"
)

// Bounds of a factor, and when a calibration ends: after so many rounds or where one lowers the loss of a row by less.
// Chosen by hand.
const (
	leastFactor       = 1e-3
	mostFactor        = 1e3
	calibrationRounds = 50
	calibrationGain   = 1e-7
)

// temperatureSpread is the standard deviation of the prior of an inverse temperature's logarithm, whose mean is 0: a
// factor of 1.65 is one of it. Few select rows, all predicted rightly, ask for any factor. Chosen by hand.
const temperatureSpread = 0.25

// calibrationFit minimises the logarithmic loss of rows of k outputs, which is convex in factor and shift together.
type calibrationFit struct {
	outputs, targets []float64
	weights          []float64 // of the rows, nil for equal ones
	k                int
	shifts           bool
	spread           float64 // of the prior of the factor's logarithm; 0 without a prior
	chances          []float64
}

// calibrationPoint is the loss at a calibration, with what its steps need.
type calibrationPoint struct {
	at           calibration
	loss         float64
	slope, curve float64   // in the factor
	has, expects []float64 // rows of each class, and the sums of their probabilities, with those of which nothing is known
}

// run alternates a Newton step of the factor with one of iterative scaling for the shift, which never raises the loss
// (Darroch and Ratcliff 1972).
func (f *calibrationFit) run() calibration {
	start := calibration{Factor: 1}
	if f.shifts {
		start.shift = make([]float64, f.k)
	}
	p := f.eval(start)
	rows := float64(len(f.outputs) / f.k)
	for range calibrationRounds {
		before := p.loss
		if next, ok := f.newton(p); ok {
			p = next
		}
		if f.shifts {
			shifted := calibration{Factor: p.at.Factor, shift: make([]float64, f.k)}
			for c, b := range p.at.shift {
				shifted.shift[c] = b + math.Log(p.has[c]/p.expects[c])
			}
			if next := f.eval(shifted); next.loss < p.loss {
				p = next
			}
		}
		if !(before-p.loss > calibrationGain*rows) {
			break
		}
	}
	return p.at
}

// newton returns the point after a Newton step of the logarithm of the factor, cut short to a factor of e, and halved
// until the loss is lower.
func (f *calibrationFit) newton(p *calibrationPoint) (*calibrationPoint, bool) {
	slope, curve := p.slope*p.at.Factor, p.curve*p.at.Factor*p.at.Factor
	step := math.Copysign(1, -slope)
	if curve > math.Abs(slope) {
		step = -slope / curve
	}
	for ; math.Abs(step) > 1e-9; step /= 2 {
		at := calibration{Factor: min(max(p.at.Factor*math.Exp(step), leastFactor), mostFactor), shift: p.at.shift}
		if next := f.eval(at); next.loss < p.loss {
			return next, true
		}
	}
	return p, false
}

// eval returns the loss at a calibration. O(n·k).
func (f *calibrationFit) eval(at calibration) *calibrationPoint {
	k, p := f.k, &calibrationPoint{at: at}
	if f.shifts {
		p.has, p.expects = make([]float64, k), make([]float64, k)
		evaluate.SoftmaxTo(f.chances, at.shift)
		for c, q := range f.chances { // the row more of each class
			p.has[c], p.expects[c] = 1, float64(k)*q
			p.loss -= math.Log(q)
		}
	}
	if f.spread > 0 {
		away, precision := math.Log(at.Factor), 1/(f.spread*f.spread)
		p.loss += away * away * precision / 2
		p.slope += away * precision / at.Factor
		p.curve += precision / (at.Factor * at.Factor)
	}
	for from := 0; from < len(f.outputs); from += k {
		own, weight := f.outputs[from:from+k], encode.WeightAt(f.weights, from/k)
		if k == 1 { // a binary label, ±1
			margin := f.targets[from] * own[0]
			wrong := 1 / (1 + math.Exp(at.Factor*margin))
			p.loss += weight * (math.Max(-at.Factor*margin, 0) + math.Log1p(math.Exp(-math.Abs(at.Factor*margin))))
			p.slope -= weight * margin * wrong
			p.curve += weight * margin * margin * wrong * (1 - wrong)
			continue
		}
		right := encode.Argmax(f.targets[from : from+k])
		for c, o := range own {
			if f.chances[c] = at.Factor * o; f.shifts {
				f.chances[c] += at.shift[c]
			}
		}
		largest := f.chances[encode.Argmax(f.chances)]
		p.loss += weight * (largest - f.chances[right])
		sum, mean, square := 0.0, 0.0, 0.0
		for c, o := range own {
			f.chances[c] = math.Exp(f.chances[c] - largest)
			sum += f.chances[c]
			mean += o * f.chances[c]
			square += o * o * f.chances[c]
		}
		p.loss += weight * math.Log(sum)
		mean, square = mean/sum, square/sum
		if f.shifts {
			p.has[right] += weight
			floats.AddScaled(p.expects, weight/sum, f.chances)
		}
		p.slope += weight * (mean - own[right])
		p.curve += weight * max(square-mean*mean, 0)
	}
	return p
}

// Scaled returns a model whose outputs are those of another one times a factor.
func Scaled(m *solver.Model, by float64) *solver.Model {
	out := *m
	times := func(values []float64) []float64 {
		if values == nil {
			return nil
		}
		all := make([]float64, len(values))
		for i, v := range values {
			all[i] = v * by
		}
		return all
	}
	out.Weights, out.Linear, out.Bias, out.Map = times(m.Weights), times(m.Linear), times(m.Bias), times(m.Map)
	return &out
}

// InverseTemperature returns the factor that makes the outputs of a model without a margin the logarithms of
// probabilities (temperature scaling, Guo et al. 2017): penalties shrink outputs, so predictions are less sure than
// they are right. It is fitted to the select rows as they count where a refit chooses, under a prior around 1, and is
// finite and above 0. It is 1 without such rows, of numbers, of several labels and of lists. O(rows·outputs) a round.
func (j *Task) InverseTemperature(m *solver.Model) float64 {
	rows, single := j.Rows.Select_, j.Target.Task == event.Binary || j.Target.Task == event.Multiclass
	if !single || j.Target.Margin != "" || j.Criteria.Lists != nil || len(rows.Events) == 0 {
		return 1
	}
	f := &calibrationFit{k: m.NumOutputs, spread: temperatureSpread, chances: make([]float64, m.NumOutputs)}
	rows.Each(j.Target, m, func(_ int, outputs, targets []float64) {
		f.outputs, f.targets = append(f.outputs, outputs...), append(f.targets, targets...)
	})
	if f.weights = slices.Clone(j.SelectWeights()); f.weights != nil {
		if sum := floats.Sum(f.weights); sum > 0 {
			floats.Scale(fitted.EffectiveRows(f.weights)/sum, f.weights)
		}
	}
	return f.run().Factor
}

// Untempered returns the model of a version as it was before temperature scaling.
func Untempered(ch *fitted.Fitted) *solver.Model {
	if ch.Factor == 0 {
		return ch.Model
	}
	return Scaled(ch.Model, 1/ch.Factor)
}
