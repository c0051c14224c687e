package mixture

import (
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/baselines"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/ridge"
	"gonum.org/v1/gonum/floats"
)

// StackedUpdate is the weights with which fold-ins in closed form and linear baselines predict best together: the stack
// of live predictions in a form that versions can hold, as sums of such are of their kind. A number is predicted by
// least squares, levels by proportional odds (stacked regressions, Breiman 1996; McCullagh 1980), in two fits that
// forget at different rates by steps of Newton's method on what each event adds to the curvature; the one counts that
// has predicted better of late. What it predicts from is as it was for each event before it was learned. O(parts²) an
// event, 1.5 µs with five levels.
type StackedUpdate struct {
	Outputs  int
	Levels   bool // outputs fall as the numbers rise, each with a threshold
	Linear   []linearBaseline
	Inputs   []float64 // of the event: of BlendFoldIns, then of the baselines
	Steps    []float64 // of levels: by how much the outputs of the fold-in are above the first
	Ready    bool      // inputs are those of the event
	Fits     [len(StackedFades)]stackedFit
	Events   int
	Squares  evaluate.Fading                    // of its errors
	Alone    [len(BlendFoldIns)]evaluate.Fading // of those of the fold-ins
	Used     *StackedWeights                    // of the newest update; nil without
	Advances []float64                          // the last losses of that above those of the fit that counts, a ring
	At       int
}

// StackedFades are how the fits forget. Chosen by hand.
var StackedFades = [...]float64{0.998, 0.9997}

// How a blend is fitted and when updates take it. All are chosen by hand.
const (
	BlendEvery = 50 // events between two solutions
	// of the mean square of the best fold-in that a blend has at most for a whole update to be worth it
	BlendGain   = 0.998
	BlendEvents = 1000 // before there is a blend
	BlendHold   = 6    // curvature that holds to the best fold-in alone, in logits of each other part
	blendShare  = 0.1  // of the slope of a fold-in alone that one has at the least, else it is left out
	blendOut    = 1e9  // curvature that does so
	BlendWindow = 300  // events on which the weights of an update are compared with the current ones
	BlendLeast  = 100  // and how many of these at the least
	BlendErrors = 2    // standard errors by which the latter are better where updates come early
)

// StackedWeights are one solution: output c is constant[c] plus the inputs times factors. It does not change.
type StackedWeights struct {
	Constant  []float64
	Factors   []float64
	Reduction *posterior.Reduction // of an update
}

// stackedFit is the curvature and the right side of the events so far, fading.
type stackedFit struct {
	normal  []float64 // n×n, lower triangle, in constants and then factors
	right   []float64 // n
	Weights *StackedWeights
	Loss    float64 // fading
}

// BlendName is the name of the variant that is a sum.
const BlendName = "update_blend"

// HasStackedUpdate reports whether versions of a model can hold sums: its labels are numbers, by names, and its
// fold-ins in closed form.
func HasStackedUpdate(m *config.Model) bool {
	return m.Train.Refit == "variational" && m.Train.FoldIn.Enabled && len(m.Schema.Categorical) > 0 &&
		m.Schema.Learned().IsNumeric() && !m.LeavesOut(BlendName)
}

// NewStackedUpdate returns the blend of the fold-ins and of the baselines of a mixture.
func NewStackedUpdate(t *encode.Target, m *Mixture) *StackedUpdate {
	b := &StackedUpdate{
		Outputs: t.Outputs(),
		Levels:  t.Likelihood == posterior.Logistic,
		Squares: evaluate.Fading{Rate: MixtureFade},
	}
	for _, base := range m.Baselines {
		if of, ok := base.(*baselines.Conditional); ok && (of.Field < 0 || of.Last) {
			continue // versions know nothing of labels before, and constants there are
		}
		if l, ok := base.(linearBaseline); ok {
			b.Linear = append(b.Linear, l)
		}
	}
	b.Inputs, b.Steps = make([]float64, len(BlendFoldIns)+len(b.Linear)), make([]float64, b.Outputs)
	b.Advances = make([]float64, 0, BlendWindow)
	n := b.Outputs + len(b.Inputs)
	for i := range b.Alone {
		b.Alone[i].Rate = MixtureFade
	}
	for i := range b.Fits {
		b.Fits[i] = stackedFit{normal: make([]float64, n*n), right: make([]float64, n)}
	}
	return b
}

// sign is that of the inputs in the outputs.
func (b *StackedUpdate) sign() float64 {
	if b.Levels {
		return -1
	}
	return 1
}

// Output returns output c for the event.
func (b *StackedUpdate) Output(w *StackedWeights, c int) float64 {
	return w.Constant[c] + floats.Dot(w.Factors, b.Inputs)
}

// Loss returns the loss of the event: in units of the given mean square for numbers.
func (b *StackedUpdate) Loss(w *StackedWeights, label float64, targets []float64, unit float64) (loss float64) {
	shared := floats.Dot(w.Factors, b.Inputs)
	for c, t := range targets {
		o := w.Constant[c] + shared
		if !b.Levels {
			return min((label-o)*(label-o)/(2*unit), MixtureLossMax)
		}
		loss += max(-t*o, 0) + math.Log1p(math.Exp(-math.Abs(o)))
	}
	return loss
}

// Number returns what the event is predicted as.
func (b *StackedUpdate) Number(w *StackedWeights) float64 {
	if !b.Levels {
		return b.Output(w, 0)
	}
	shared, level := floats.Dot(w.Factors, b.Inputs), 1.0
	for _, t := range w.Constant {
		level += 1 - chance(t+shared)
	}
	return level
}

// Best returns the fit that has predicted better of late.
func (b *StackedUpdate) Best() *stackedFit {
	best := &b.Fits[0]
	for i := range b.Fits {
		if b.Fits[i].Loss < best.Loss {
			best = &b.Fits[i]
		}
	}
	return best
}

// Add takes up an event in a fit: of each output its curvature, and what that times the output would have been in a
// step from where it is.
func (b *StackedUpdate) Add(f *stackedFit, fade, label float64, targets []float64, unit float64) {
	m, n := b.Outputs, b.Outputs+len(b.Inputs)
	floats.Scale(fade, f.normal)
	floats.Scale(fade, f.right)
	sign, shared := b.sign(), floats.Dot(f.Weights.Factors, b.Inputs)
	curves, rights := 0.0, 0.0
	for c, t := range targets {
		o := f.Weights.Constant[c] + shared
		h, right := 1/unit, 0.0
		if b.Levels {
			p := 1 / (1 + math.Exp(-o))
			h = p * (1 - p)
			right = h*o + (t+1)/2 - p
		} else {
			miss := min(max(label-o, -stackMiss*math.Sqrt(unit)), stackMiss*math.Sqrt(unit))
			right = h * (o + miss)
		}
		f.normal[c*n+c] += h
		f.right[c] += right
		for j, x := range b.Inputs {
			f.normal[(m+j)*n+c] += h * sign * x
		}
		curves, rights = curves+h, rights+right
	}
	for i, x := range b.Inputs {
		f.right[m+i] += rights * sign * x
		floats.AddScaled(f.normal[(m+i)*n+m:(m+i)*n+m+i+1], curves*x, b.Inputs[:i+1])
	}
}

// Solve sets the weights of a fit that is held to one fold-in: to its slope, and to the given constants, with a
// curvature of 1. Fold-ins that add next to nothing are left out. Where rounding defeats it, it begins anew with the
// one fold-in.
func (b *StackedUpdate) Solve(f *stackedFit, constant, slopes []float64, base int) {
	m := b.Outputs
	hold := make([]float64, len(slopes))
	for i := range hold {
		if i != base {
			hold[i] = BlendHold
		}
	}
	w, ok := b.Solution(f, constant, slopes, hold)
	var out []int
	for i := range BlendFoldIns {
		if ok && i != base && math.Abs(w[m+i]) < blendShare*slopes[i] {
			hold[i], out = blendOut, append(out, i)
		}
	}
	if len(out) > 0 {
		w, ok = b.Solution(f, constant, slopes, hold)
	}
	if !ok {
		clear(f.normal)
		clear(f.right)
		copy(w, constant)
		clear(w[m:])
		w[m+base] = slopes[base]
	}
	for _, i := range out {
		w[m+i] = 0
	}
	floats.Scale(b.sign(), w[m:])
	f.Weights = &StackedWeights{Constant: w[:m:m], Factors: w[m:]}
}

// Solution returns constants and slopes where all slopes, in the given ones, are held to a sum of 1, and each to 0 as
// hold says.
func (b *StackedUpdate) Solution(f *stackedFit, constant, slopes, hold []float64) (w []float64, ok bool) {
	m, n := b.Outputs, b.Outputs+len(b.Inputs)
	normal, w := slices.Clone(f.normal), slices.Clone(f.right)
	for c, t := range constant {
		normal[c*n+c]++
		w[c] += t
	}
	for i, s := range slopes {
		for j, other := range slopes[:i+1] {
			normal[(m+i)*n+m+j] += 1 / (s * other)
		}
		w[m+i] += 1 / s
		normal[(m+i)*n+m+i] += hold[i] / (s * s)
	}
	ok = ridge.Solve(normal, w)
	return w, ok && encode.IsFinite(w)
}

// Moved reports whether the weights of the newest update predict worse by now than those that the next one would have.
func (b *StackedUpdate) Moved(errors float64) bool {
	n := float64(len(b.Advances))
	if n < BlendLeast {
		return false
	}
	mean, squares := floats.Sum(b.Advances)/n, floats.Dot(b.Advances, b.Advances)/n
	return mean > errors*math.Sqrt(max(squares-mean*mean, 0)/n) && mean > 0
}

// Use makes weights those of the newest update.
func (b *StackedUpdate) Use(w *StackedWeights) { b.Used, b.Advances, b.At = w, b.Advances[:0], 0 }

// Has reports whether a part of the mixture is one of the newest update's sum.
func (b *StackedUpdate) Has(name string) bool {
	if b.Used == nil {
		return false
	}
	if i := slices.Index(BlendFoldIns[:], name); i >= 0 {
		return b.Used.Factors[i] != 0
	}
	return slices.ContainsFunc(b.Linear, func(l linearBaseline) bool { return l.Name() == name })
}

// CarryOver moves the weight of a fold-in of BlendFoldIns, and of those after it, to the last fold-in. Another learner
// then takes its place.
func (b *StackedUpdate) CarryOver(was string) {
	if b == nil {
		return
	}
	from, last := slices.Index(BlendFoldIns[:], was), len(BlendFoldIns)-1
	for i := range b.Fits {
		if w := b.Fits[i].Weights; w != nil {
			factors := slices.Clone(w.Factors)
			all := floats.Sum(factors[from : last+1])
			clear(factors[from:last])
			factors[last] = all
			b.Fits[i].Weights = &StackedWeights{Constant: w.Constant, Factors: factors}
		}
	}
	b.Alone[last], b.Used = b.Alone[from], nil
}
