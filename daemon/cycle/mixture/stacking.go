package mixture

import (
	"math"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/solver/ridge"
	"gonum.org/v1/gonum/floats"
)

// stackFade is how a stack forgets: on ratings whose items change this is 0.006 RMSE better than 0.9999, which on
// MovieLens 100k is 0.001 better. Tuned on these.
const stackFade = 0.9995

// How strongly a stack holds to the first part, in events, and how many events pass between two solutions. Chosen by
// hand; drift and MovieLens 100k were looked at.
const (
	stackRidge = 20.0
	stackEvery = 50
)

// Stacking predicts a number from the predictions of others by least squares on the events so far (Wolpert 1992;
// Breiman 1996), which fade: the first part's, plus a constant and a multiple of how far each other is from it. Where
// parts err in different ways it is better than any of them; it is a part of the mixture itself, so that nothing
// depends on it. O(parts²) an event, O(parts³) at each solution.
type Stacking struct {
	n       int             // parts
	next    float64         // weight of the next event, before all fade at the next solution
	inputs  []float64       // 1, then the differences, in units
	base    float64         // the first part's prediction
	ready   bool            // inputs are those of the event
	normal  []float64       // n×n, Σ inputs inputsᵀ, fading
	right   []float64       // n
	weights []float64       // n
	scale   evaluate.Fading // of the first part's squared errors
	unit    float64         // its root
	events  int
	factor  []float64
}

// newStacking returns a stack of n parts.
func newStacking(n int) *Stacking {
	return &Stacking{
		n:       n,
		next:    1,
		inputs:  make([]float64, n),
		normal:  make([]float64, n*n),
		right:   make([]float64, n),
		weights: make([]float64, n),
		factor:  make([]float64, n*n),
		unit:    1,
		scale:   evaluate.Fading{Rate: MixtureFade},
	}
}

// predict takes up the predictions of the parts for an event; a part that has none counts as the first. It reports
// false if the first has none.
func (s *Stacking) predict(parts []part) (float64, bool) {
	if s.ready = parts[0].Present; !s.ready {
		return 0, false
	}
	s.base = parts[0].Value[0]
	s.inputs[0] = 1
	for i := 1; i < s.n; i++ {
		s.inputs[i] = 0
		if parts[i].Present {
			s.inputs[i] = (parts[i].Value[0] - s.base) / s.unit
		}
	}
	v := 0.0
	for i, x := range s.inputs {
		v += s.weights[i] * x
	}
	return s.base + v*s.unit, true
}

// learn takes up the label of the event. One that is far off counts as one at the edge, so that a single one does not
// decide.
func (s *Stacking) learn(label float64) {
	if !s.ready {
		return
	}
	miss := (label - s.base) / s.unit
	if s.events >= stackEvery {
		miss = min(max(miss, -stackMiss), stackMiss)
	}
	s.scale.Add(miss * s.unit * miss * s.unit)
	s.next /= stackFade
	for i, x := range s.inputs {
		if x != 0 {
			floats.AddScaled(s.normal[i*s.n:i*s.n+i+1], s.next*x, s.inputs[:i+1])
		}
	}
	floats.AddScaled(s.right, s.next*miss, s.inputs)
	if s.events++; s.events%stackEvery == 0 {
		s.renew()
	}
}

// renew solves for the weights from the events so far.
func (s *Stacking) renew() {
	floats.Scale(1/s.next, s.normal)
	floats.Scale(1/s.next, s.right)
	s.next = 1
	s.rescale(math.Sqrt(Mean(&s.scale)))
	s.solve()
}

// stackMiss bounds the error of the first part that the stack learns from, in units, once there is one. Chosen by
// hand.
const stackMiss = 8

// solve sets the weights, to those of the first part alone if rounding defeats it.
func (s *Stacking) solve() {
	copy(s.factor, s.normal)
	for i := range s.n {
		s.factor[i*s.n+i] += stackRidge
	}
	copy(s.weights, s.right)
	if !ridge.Solve(s.factor, s.weights) || !encode.IsFinite(s.weights) {
		clear(s.weights)
		clear(s.normal)
		clear(s.right)
	}
}

// rescale measures what is kept in another unit: differences and errors, not the constant.
func (s *Stacking) rescale(unit float64) {
	if !(unit > 1e-12) || math.IsInf(unit, 1) {
		return
	}
	ratio := s.unit / unit
	for i := range s.n {
		for j := range s.n {
			s.normal[i*s.n+j] *= power(ratio, min(i, 1)+min(j, 1))
		}
		s.right[i] *= power(ratio, min(i, 1)+1)
	}
	s.unit = unit
}

func power(x float64, n int) float64 {
	p := 1.0
	for range n {
		p *= x
	}
	return p
}
