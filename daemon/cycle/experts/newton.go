package experts

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver/ridge"
	"gonum.org/v1/gonum/floats"
)

// What the Newton learner is made of: the number of random Fourier features, and that of numbers that are inputs
// themselves. Then the variance of weights before any event, and by how much it grows at every event: weights walk at
// random, so that change is followed. Chosen by hand.
const (
	newtonFourier  = 200
	newtonLinear   = 64
	NewtonPrior    = 1.0
	NewtonWalk     = 1e-4
	newtonSeed     = 1
	leastInfluence = 1e-3 // of an event on the variance of its prediction, below which the covariance is left
)

// Newton is linear in random Fourier features of the numbers of events, and in the numbers, and takes Newton's step at
// every event: an extended Kalman filter whose weights walk at random, with one covariance for all outputs, which is
// that of least squares for a number (Kalman 1960; Haykin 2001). For classes the curvature of the loss is a number
// between that of the most curved direction and the mean one. Outputs of classes are shrunk by the variance that they
// have (MacKay 1992). O(D² + m·D) an event.
type Newton struct {
	Numbers    *encode.NumberScale
	features   *format.FeatureMap // of standardised numbers
	Judge      residuals
	Scaled     bool // a number, in units of the label
	Inputs     []float64
	Covariance []float64 // n×n, the lower triangle
	Weights    []float64 // m × n
	Before     []float64 // the weights at the last mark; nil before there was one
	gain       []float64 // covariance·inputs
	Last       []float64 // the gain of the event before
	Pending    float64   // times last·last' is to be taken from the covariance
	variance   float64   // of an output
	OutputsOf  []float64
	residual   []float64
	target     []float64
}

func NewNewton(n *encode.NumberScale, t *encode.Target) *Newton {
	outputs, d := 1, len(n.Z)
	if !t.IsNumeric() {
		outputs = t.Outputs()
	}
	unit := make([]format.MapScaling, d)
	for f := range unit {
		unit[f].Scale = 1
	}
	l := &Newton{
		Numbers:  n,
		Judge:    newResiduals(t),
		Scaled:   t.IsNumeric(),
		features: format.NewFourier(newtonFourier, newtonSeed, unit),
	}
	inputs := newtonInputs(d)
	l.Inputs, l.gain, l.Last = make([]float64, inputs), make([]float64, inputs), make([]float64, inputs)
	l.Covariance, l.Weights = make([]float64, inputs*inputs), make([]float64, outputs*inputs)
	l.OutputsOf, l.residual, l.target = make([]float64, outputs), make([]float64, outputs), make([]float64, outputs)
	l.Reset()
	return l
}

// newtonInputs returns how many inputs there are for d numbers: 1, numbers, Fourier features.
func newtonInputs(d int) int {
	if d > newtonLinear {
		d = 0
	}
	return 1 + d + newtonFourier
}

// Reset starts from the prior.
func (l *Newton) Reset() {
	clear(l.Weights)
	clear(l.Covariance)
	l.Pending, l.Before = 0, nil
	for i := range l.Inputs {
		l.Covariance[i*len(l.Inputs)+i] = NewtonPrior
	}
}

func (l *Newton) Gather(*event.Event) {
	l.Inputs[0] = 1
	copy(l.Inputs[1:len(l.Inputs)-newtonFourier], l.Numbers.Z)
	l.features.Columns(l.Inputs[len(l.Inputs)-newtonFourier:], l.Numbers.Z)
	n := len(l.Inputs)
	// What is pending is taken from the covariance, and the gain set, in one pass over its rows.
	ridge.Downdate(l.gain, l.Covariance, l.Inputs, l.Pending, l.Last)
	l.Pending = 0
	l.variance = floats.Dot(l.gain, l.Inputs)
	for c := range l.OutputsOf {
		l.OutputsOf[c] = floats.Dot(l.Weights[c*n:c*n+n], l.Inputs)
	}
}

func (l *Newton) Outputs(dst []float64, ev *event.Event) {
	l.Gather(ev)
	copy(dst, l.OutputsOf)
	if !l.Scaled {
		floats.Scale(1/math.Sqrt(1+math.Pi/8*max(l.variance, 0)), dst)
	}
	l.Numbers.Unscale(dst, l.Scaled)
}

func (l *Newton) Learn(_ *event.Event, targets []float64, weight float64) {
	copy(l.target, targets)
	l.Numbers.Scale(l.target, l.Scaled)
	_, curvature := l.Judge.of(l.residual, l.OutputsOf, l.target)
	slope := weight // of the loss in an output, for each unit of residual
	if l.Scaled {
		slope *= curvature
	}
	l.Judge.add(l.residual[0])
	curvature *= weight
	n := len(l.Inputs)
	shrink := 1 / (1 + curvature*l.variance)
	if !(shrink > 0 && shrink <= 1) { // rounding has made the covariance no covariance
		l.Reset()
		return
	}
	for c, r := range l.residual {
		floats.AddScaled(l.Weights[c*n:c*n+n], shrink*slope*r, l.gain)
	}
	if curvature*l.variance > leastInfluence {
		l.Pending = curvature * shrink
		l.gain, l.Last = l.Last, l.gain
	}
	for i := range n {
		v := &l.Covariance[i*n+i]
		if *v-l.Pending*l.Last[i]*l.Last[i] < NewtonPrior {
			*v += NewtonWalk
		}
	}
}

// Correct moves the weights as the difference of the labels does in least squares, where labels enter with the
// covariance of all events so far. Between labels and weights that walk there is a difference of the walk since.
func (l *Newton) Correct(of *admission.Correction) {
	if !of.Counts.IsShared() {
		return
	}
	l.Gather(of.Is)
	l.Numbers.Scale(of.From, l.Scaled)
	l.Numbers.Scale(of.To, l.Scaled)
	slope, n := of.Is.Weight, len(l.Inputs)
	if curvature := l.Judge.correction(l.residual, of.From, of.To); l.Scaled {
		slope *= curvature
	}
	for c, r := range l.residual {
		floats.AddScaled(l.Weights[c*n:c*n+n], slope*r, l.gain)
	}
}
