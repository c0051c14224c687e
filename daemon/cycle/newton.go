package cycle

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/snapshot"
)

// What the Newton learner is made of: how many random Fourier features there are, how many numbers are inputs themselves beside them, the variance of
// weights before any event, and by how much it grows at every event, so that change is followed: weights walk at random.
const (
	newtonFourier  = 200
	newtonLinear   = 64
	newtonPrior    = 1.0
	newtonWalk     = 1e-4
	newtonSeed     = 1
	leastInfluence = 1e-3 // of an event on the variance of its own prediction, below which the covariance is left
)

// newtonLearner is linear in random Fourier features of the numbers of events, and in the numbers, and takes Newton's step at every event: an extended
// Kalman filter whose weights walk at random, with one covariance for all outputs, which is that of least squares for a number (Kalman 1960; Haykin
// 2001). For classes the curvature of the loss is a number between that of the most curved direction and the mean one. Outputs of classes are shrunk
// by the variance that they have (MacKay 1992). O(D² + m·D) an event.
type newtonLearner struct {
	numbers    *numberScale
	features   *snapshot.FeatureMap // of standardised numbers
	judge      residuals
	scaled     bool // a number, in units of the label
	inputs     []float64
	covariance []float64 // n×n, the lower triangle
	weights    []float64 // m × n
	before     []float64 // the weights at the last mark; nil before there was one
	gain       []float64 // covariance·inputs
	last       []float64 // the gain of the event before
	pending    float64   // times last·last' is to be taken from the covariance
	variance   float64   // of an output
	outputsOf  []float64
	residual   []float64
	target     []float64
}

func newNewtonLearner(n *numberScale, t *Target) *newtonLearner {
	outputs, d := 1, len(n.z)
	if !t.IsNumeric() {
		outputs = t.Outputs()
	}
	unit := make([]snapshot.MapScaling, d)
	for f := range unit {
		unit[f].Scale = 1
	}
	l := &newtonLearner{numbers: n, judge: newResiduals(t), scaled: t.IsNumeric(), features: snapshot.NewFourier(newtonFourier, newtonSeed, unit)}
	inputs := newtonInputs(d)
	l.inputs, l.gain, l.last = make([]float64, inputs), make([]float64, inputs), make([]float64, inputs)
	l.covariance, l.weights = make([]float64, inputs*inputs), make([]float64, outputs*inputs)
	l.outputsOf, l.residual, l.target = make([]float64, outputs), make([]float64, outputs), make([]float64, outputs)
	l.reset()
	return l
}

// newtonInputs returns how many inputs there are for d numbers: 1, numbers, Fourier features.
func newtonInputs(d int) int {
	if d > newtonLinear {
		d = 0
	}
	return 1 + d + newtonFourier
}

// reset starts from the prior.
func (l *newtonLearner) reset() {
	clear(l.weights)
	clear(l.covariance)
	l.pending, l.before = 0, nil
	for i := range l.inputs {
		l.covariance[i*len(l.inputs)+i] = newtonPrior
	}
}

func (l *newtonLearner) gather(*event.Event) {
	l.inputs[0] = 1
	copy(l.inputs[1:len(l.inputs)-newtonFourier], l.numbers.z)
	l.features.Columns(l.inputs[len(l.inputs)-newtonFourier:], l.numbers.z)
	n := len(l.inputs)
	l.advance()
	l.variance = floats.Dot(l.gain, l.inputs)
	for c := range l.outputsOf {
		l.outputsOf[c] = floats.Dot(l.weights[c*n:c*n+n], l.inputs)
	}
}

// advance takes what is pending from the covariance, and sets the gain, in one pass over the rows.
func (l *newtonLearner) advance() {
	n := len(l.inputs)
	clear(l.gain)
	for i, x := range l.inputs {
		row := l.covariance[i*n : i*n+i+1]
		if l.pending != 0 {
			floats.AddScaled(row, -l.pending*l.last[i], l.last[:i+1])
		}
		l.gain[i] += floats.Dot(row, l.inputs[:i+1])
		floats.AddScaled(l.gain[:i], x, row[:i])
	}
	l.pending = 0
}

func (l *newtonLearner) outputs(dst []float64, ev *event.Event) {
	l.gather(ev)
	copy(dst, l.outputsOf)
	if !l.scaled {
		floats.Scale(1/math.Sqrt(1+math.Pi/8*max(l.variance, 0)), dst)
	}
	l.numbers.unscale(dst, l.scaled)
}

func (l *newtonLearner) learn(_ *event.Event, targets []float64, weight float64) {
	copy(l.target, targets)
	l.numbers.scale(l.target, l.scaled)
	_, curvature := l.judge.of(l.residual, l.outputsOf, l.target)
	slope := weight // of the loss in an output, for each unit of residual
	if l.scaled {
		slope *= curvature
	}
	l.judge.add(l.residual[0])
	curvature *= weight
	n := len(l.inputs)
	shrink := 1 / (1 + curvature*l.variance)
	if !(shrink > 0 && shrink <= 1) { // rounding has made the covariance no covariance
		l.reset()
		return
	}
	for c, r := range l.residual {
		floats.AddScaled(l.weights[c*n:c*n+n], shrink*slope*r, l.gain)
	}
	if curvature*l.variance > leastInfluence {
		l.pending = curvature * shrink
		l.gain, l.last = l.last, l.gain
	}
	for i := range n {
		v := &l.covariance[i*n+i]
		if *v-l.pending*l.last[i]*l.last[i] < newtonPrior {
			*v += newtonWalk
		}
	}
}
