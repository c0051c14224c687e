package mixture

import (
	"math"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/solver/ridge"
	"gonum.org/v1/gonum/floats"
)

// stackFades are how stacks forget: on ratings whose items change the first is 0.006 RMSE better, on MovieLens 100k the
// second 0.001.
var stackFades = [...]float64{0.9995, 0.9999}

// The last stack has weights that depend on how many events of the entity came before, as those of a newcomer are
// predicted by other parts best: a multiple of newcomer/(newcomer + events) is added to each (Sill et al. 2009).
const newcomer = 20.0

// How strongly a stack holds to the first part, in events, and how many events pass between two solutions: four times
// as many where there are twice as many inputs.
const (
	stackRidge = 20.0
	stackEvery = 50
)

// Stacking predicts a number from the predictions of others by least squares on the events so far (Wolpert 1992;
// Breiman 1996), which fade: the first part's, plus a constant and a multiple of how far each other is from it. Where
// parts err in different ways it is better than any of them; it is a part of the mixture itself, so that nothing
// depends on it. O(parts²) an event, O(parts³) at each solution.
type Stacking struct {
	parts int
	n     int // inputs
	fade  float64
	next  float64 // weight of the next event, before all fade at the next solution
	every int     // events between two solutions
	// 1, then the differences, in units; then the same times the newness of the entity, unless weights do not depend on
	// it
	inputs  []float64
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

// newStacking returns a stack of so many parts, whose weights may depend on the newness of the entity.
func newStacking(parts int, fade float64, byNewness bool) *Stacking {
	n, every := parts, stackEvery
	if byNewness {
		n, every = 2*parts, 4*stackEvery
	}
	return &Stacking{
		parts:   parts,
		n:       n,
		fade:    fade,
		next:    1,
		every:   every,
		inputs:  make([]float64, n),
		normal:  make([]float64, n*n),
		right:   make([]float64, n),
		weights: make([]float64, n),
		factor:  make([]float64, n*n),
		unit:    1,
		scale:   evaluate.Fading{Rate: MixtureFade},
	}
}

// predict takes up the predictions of the parts for an event of an entity of a newness between 0 and 1; a part that has
// none counts as the first. It reports false if the first has none.
func (s *Stacking) predict(parts []part, newness float64) (float64, bool) {
	if s.ready = parts[0].Present; !s.ready {
		return 0, false
	}
	s.base = parts[0].Value[0]
	s.inputs[0] = 1
	for i := 1; i < s.parts; i++ {
		s.inputs[i] = 0
		if parts[i].Present {
			s.inputs[i] = (parts[i].Value[0] - s.base) / s.unit
		}
	}
	for i := s.parts; i < s.n; i++ {
		s.inputs[i] = newness * s.inputs[i-s.parts]
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
	s.next /= s.fade
	for i, x := range s.inputs {
		if x != 0 {
			floats.AddScaled(s.normal[i*s.n:i*s.n+i+1], s.next*x, s.inputs[:i+1])
		}
	}
	floats.AddScaled(s.right, s.next*miss, s.inputs)
	if s.events++; s.events%s.every == 0 {
		floats.Scale(1/s.next, s.normal)
		floats.Scale(1/s.next, s.right)
		s.next = 1
		s.rescale(math.Sqrt(Mean(&s.scale)))
		s.solve()
	}
}

// stackMiss bounds the error of the first part that the stack learns from, in units, once there is one.
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
			s.normal[i*s.n+j] *= power(ratio, min(i%s.parts, 1)+min(j%s.parts, 1))
		}
		s.right[i] *= power(ratio, min(i%s.parts, 1)+1)
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
