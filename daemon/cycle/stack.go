package cycle

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/lapack/gonum"
)

// stackFades are how stacks forget: on ratings whose items change the first is .006 RMSE better, on MovieLens 100k the second .001.
var stackFades = [...]float64{0.9995, 0.9999}

// How strongly a stack holds to the first part, in events, and how many events pass between two solutions.
const (
	stackRidge = 20.0
	stackEvery = 50
)

// stack predicts a number from the predictions of others by least squares on the events so far (Wolpert 1992; Breiman 1996), which fade: the first
// part's, plus a constant and a multiple of how far each other is from it. Where parts err in different ways it is better than any of them; it is a
// part of the mixture itself, so that nothing depends on it. O(parts²) an event, O(parts³) every stackEvery events.
type stack struct {
	n       int // parts
	fade    float64
	inputs  []float64 // n: 1, then the differences, in units
	base    float64   // the first part's prediction
	ready   bool      // inputs are those of the event
	normal  []float64 // n×n, Σ inputs inputsᵀ, fading
	right   []float64 // n
	weights []float64 // n
	scale   fading    // of the first part's squared errors
	unit    float64   // its root
	events  int
	factor  []float64
}

func newStack(parts int, fade float64) *stack {
	return &stack{n: parts, fade: fade, inputs: make([]float64, parts), normal: make([]float64, parts*parts), right: make([]float64, parts),
		weights: make([]float64, parts), factor: make([]float64, parts*parts), unit: 1, scale: fading{rate: mixtureFade}}
}

// predict takes up the predictions of the parts; one that has none counts as the first. It reports false if the first has none.
func (s *stack) predict(parts []part) (float64, bool) {
	if s.ready = parts[0].present; !s.ready {
		return 0, false
	}
	s.base = parts[0].value[0]
	s.inputs[0] = 1
	for i := 1; i < s.n; i++ {
		s.inputs[i] = 0
		if parts[i].present {
			s.inputs[i] = (parts[i].value[0] - s.base) / s.unit
		}
	}
	v := 0.0
	for i, x := range s.inputs {
		v += s.weights[i] * x
	}
	return s.base + v*s.unit, true
}

// learn takes up the label of the event. One that is far off counts as one at the edge, so that a single one does not decide.
func (s *stack) learn(label float64) {
	if !s.ready {
		return
	}
	miss := (label - s.base) / s.unit
	if s.events >= stackEvery {
		miss = min(max(miss, -stackMiss), stackMiss)
	}
	s.scale.add(miss * s.unit * miss * s.unit)
	for i, x := range s.inputs {
		row := s.normal[i*s.n : i*s.n+s.n]
		for j, y := range s.inputs[:i+1] {
			row[j] = s.fade*row[j] + x*y
		}
		s.right[i] = s.fade*s.right[i] + x*miss
	}
	if s.events++; s.events%stackEvery == 0 {
		s.rescale(math.Sqrt(s.scale.mean()))
		s.solve()
	}
}

// stackMiss bounds the error of the first part that the stack learns from, in units, once there is one.
const stackMiss = 8

// solve sets the weights, to those of the first part alone if rounding defeats it.
func (s *stack) solve() {
	copy(s.factor, s.normal)
	for i := range s.n {
		s.factor[i*s.n+i] += stackRidge
	}
	var lapack gonum.Implementation
	ok := lapack.Dpotrf(blas.Lower, s.n, s.factor, s.n)
	copy(s.weights, s.right)
	if ok {
		lapack.Dpotrs(blas.Lower, s.n, 1, s.factor, s.n, s.weights, 1)
	}
	for _, w := range s.weights {
		ok = ok && !math.IsNaN(w) && !math.IsInf(w, 0)
	}
	if !ok {
		clear(s.weights)
		clear(s.normal)
		clear(s.right)
	}
}

// rescale measures what is kept in another unit: differences and errors, not the constant.
func (s *stack) rescale(unit float64) {
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
