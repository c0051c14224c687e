package mixture

import (
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/snapshot/format"
	"gonum.org/v1/gonum/floats"
)

// PooledUpdate is the weights with which forms of an update predict best together, as they are at the delay of
// consumers. Outputs are summed, so that versions can hold the sum: of classes as LogitPool does, of numbers as
// Stacking does. There are two sums, as a version has one feature map: with that of the fold-in, and with Newton's.
// O(forms²·m) an event.
type PooledUpdate struct {
	Used    *PooledWeights // of the newest update; nil without
	target  *encode.Target
	outputs []float64      // of the event in hand
	sums    [2]weightedSum // the second is Newton's
	events  int
}

// weightedSum is what is learned of one sum.
type weightedSum struct {
	out   [len(PooledForms)]bool // cannot be in the sum with the others
	parts []part                 // of the event in hand
	pool  *LogitPool             // of classes
	stack *Stacking              // of numbers
	value []float64
	loss  evaluate.Fading
}

// PooledWeights are the factor of each form and what all of them together lack in each output. They do not change.
type PooledWeights struct {
	Factors, Constant []float64
	Newton            bool // the feature map is Newton's
}

// PooledForms are those that are pooled. Of classes the others come in the place of one that goes, and it comes back
// without weight; of numbers a missing one counts as the first that is there.
var PooledForms = [...]Variant{FormFoldIn, FormNewton, FormAdaGrad, FormBayes, FormTrees}

// pooledEvents is how many events are learned before there are weights. Chosen by hand.
const pooledEvents = 100

// pooledFade is how the weights of classes forget, which follow refits, and trees that are made anew. Chosen by hand;
// rings, rules, clicks and letter were looked at.
const pooledFade = 0.997

// pooledMost bounds the outputs of a form, of which versions have no bound that is as low. Chosen by hand.
const pooledMost = 20

// sumFade is how the losses of the sums forget, of which the better one is taken. Chosen by hand; rings was looked at.
const sumFade = 0.99

// IsPooled reports whether sums of outputs predict the labels of a target: those of classes that are not ordered, and
// numbers.
func IsPooled(t *encode.Target) bool {
	return experts.HasProbabilities(t) && (!t.IsNumeric() || t.Outputs() == 1 && t.Link == format.Identity)
}

// NewPooledUpdate returns the pool of a target for which IsPooled.
func NewPooledUpdate(t *encode.Target) *PooledUpdate {
	u, m, n := &PooledUpdate{target: t}, 1, len(PooledForms)
	if !t.IsNumeric() {
		m = t.Outputs()
	}
	for k := range u.sums {
		s := &u.sums[k]
		if s.parts, s.value, s.loss.Rate = make([]part, n), make([]float64, m), sumFade; t.IsNumeric() {
			s.stack = newStacking(n)
			for i := range s.parts {
				s.parts[i].Value = make([]float64, m)
			}
		} else {
			s.pool = newLogitPool(n, m, t.Link)
			s.pool.fade = pooledFade
		}
	}
	u.outputs = make([]float64, m)
	return u
}

// LeaveOut has the sum with the fold-in's or with Newton's feature map do without the forms of which isOut says so.
func (u *PooledUpdate) LeaveOut(newton bool, isOut func(Variant) bool) {
	for i, f := range PooledForms {
		u.sum(newton).out[i] = isOut(f)
	}
}

func (u *PooledUpdate) sum(newton bool) *weightedSum {
	if newton {
		return &u.sums[1]
	}
	return &u.sums[0]
}

// PrefersNewton reports whether the sum with Newton's feature map has predicted better.
func (u *PooledUpdate) PrefersNewton() bool { return Mean(&u.sums[1].loss) < Mean(&u.sums[0].loss) }

// Learn takes up an event that nothing has learned, given the outputs of every form, m each, NaN of a missing
// one. It returns the outputs of the better sum by the weights before, nil of the first events.
func (u *PooledUpdate) Learn(outputs []float64, label float64, targets []float64) (sum []float64) {
	newton := u.PrefersNewton()
	for k := range u.sums {
		s := &u.sums[k]
		if !s.predict(outputs, u.target) {
			return nil
		}
		if s == u.sum(newton) {
			s.outputsTo(u.outputs, u.target)
		}
		s.learn(label, targets)
	}
	if u.events++; u.events <= pooledEvents {
		return nil
	}
	return u.outputs
}

// predict predicts from the forms that the sum has. It reports false without any.
func (s *weightedSum) predict(outputs []float64, t *encode.Target) bool {
	m, first := t.Outputs(), -1
	for i, f := range PooledForms {
		p, own := &s.parts[i], outputs[int(f)*m:int(f+1)*m]
		if p.Present = !s.out[i] && encode.IsFinite(own); !p.Present {
			continue
		}
		if first < 0 {
			first = i
		}
		if s.stack != nil {
			p.Value[0] = t.Clip(t.Value(own))
			continue
		}
		for c, o := range own {
			s.pool.inputs[i*m+c] = min(max(o, -pooledMost), pooledMost)
		}
	}
	if first < 0 {
		return false
	}
	for i := range s.parts {
		switch p := &s.parts[i]; {
		case p.Present:
		case s.stack != nil:
			p.Value[0], p.Present = s.parts[first].Value[0], true
		default:
			s.pool.drop(i)
			clear(s.pool.inputs[i*m : i*m+m])
		}
	}
	if s.stack != nil {
		s.value[0], _ = s.stack.predict(s.parts)
		return true
	}
	s.pool.ready = true
	s.pool.combine(s.value)
	return true
}

func (s *weightedSum) outputsTo(dst []float64, t *encode.Target) {
	if s.stack != nil {
		dst[0] = s.value[0]
		return
	}
	outputsOf(dst, s.value, t.Link)
}

func (s *weightedSum) learn(label float64, targets []float64) {
	if s.stack != nil {
		miss := s.value[0] - label
		s.loss.Add(min(miss*miss, evaluate.WorstError))
		s.stack.learn(label)
		return
	}
	loss := 0.0
	for c, v := range s.value {
		if targets[c] > 0 {
			loss -= math.Log(max(v, poolLeast))
		} else if s.pool.logistic {
			loss -= math.Log(max(1-v, poolLeast))
		}
	}
	s.loss.Add(loss)
	s.pool.learn(targets)
}

// Weights returns the weights of the forms that there are in the sum with the fold-in's or with Newton's feature map,
// nil while too few events were learned.
func (u *PooledUpdate) Weights(newton bool, there func(Variant) bool) *PooledWeights {
	if u.events < pooledEvents {
		return nil
	}
	s, w := u.sum(newton), &PooledWeights{Newton: newton}
	if w.Constant = make([]float64, len(s.value)); s.stack != nil {
		w.Factors, w.Constant[0] = slices.Clone(s.stack.weights), s.stack.unit*s.stack.weights[0]
		w.Factors[0] = 1 - floats.Sum(w.Factors[1:])
		return w.Among(there)
	}
	p := *s.pool
	p.weights, p.curvature = slices.Clone(p.weights), slices.Clone(p.curvature)
	for i, f := range PooledForms {
		if !there(f) {
			p.drop(i)
		}
	}
	w.Factors = p.weights
	s.pool.experts.Weigh()
	for e, b := range s.pool.bias {
		floats.AddScaled(w.Constant, s.pool.experts.Weights[e], b)
	}
	return w
}

// Among returns weights in which a missing form counts as the first that is there.
func (w *PooledWeights) Among(there func(Variant) bool) *PooledWeights {
	out := &PooledWeights{Factors: slices.Clone(w.Factors), Constant: w.Constant, Newton: w.Newton}
	first := slices.IndexFunc(PooledForms[:], there)
	for i, f := range PooledForms {
		if first >= 0 && !there(f) {
			out.Factors[first] += out.Factors[i]
			out.Factors[i] = 0
		}
	}
	return out
}

// Has reports whether the newest update has a form in its sum.
func (u *PooledUpdate) Has(f Variant) bool {
	i := slices.Index(PooledForms[:], f)
	return u != nil && u.Used != nil && i >= 0 && u.Used.Factors[i] != 0
}
