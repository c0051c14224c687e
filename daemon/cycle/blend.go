package cycle

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/gonum"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/solver/posterior"
)

// blend is the weights with which fold-ins in closed form and linear baselines predict best together: the stack of live predictions in a form that
// versions can hold, as sums of such are of their kind. A number is predicted by least squares, levels by proportional odds (stacked regressions, Breiman
// 1996; McCullagh 1980), in two fits that forget at different rates by steps of Newton's method on what each event adds to the curvature; the one counts
// that has predicted better of late. What it predicts from is as it was for each event before it was learned. O(parts²) an event, 1.5 µs with five levels.
type blend struct {
	outputs  int
	levels   bool // outputs fall as the numbers rise, with thresholds of their own
	linear   []linearBaseline
	inputs   []float64 // of the event: of blendFoldIns, then of the baselines
	steps    []float64 // of levels: by how much the outputs of the fold-in are above the first
	ready    bool      // inputs are those of the event
	fits     [len(blendFades)]blendFit
	events   int
	squares  fading                    // of its errors
	alone    [len(blendFoldIns)]fading // of those of the fold-ins
	used     *blendWeights             // of the newest update; nil without
	advances []float64                 // the last losses of that above those of the fit that counts, a ring
	at       int
}

// blendFades are how the fits forget.
var blendFades = [...]float64{0.998, 0.9997}

// The fold-ins of a blend. One that there is not, or that versions cannot hold beside the first, counts as the one before it.
var (
	blendForms   = [...]updateForm{formFoldIn, formNumbers, formBefore}
	blendFoldIns = [...]string{formParts[formFoldIn], partGaussian, partBefore}
)

const (
	blendEvery  = 50    // events between two solutions
	blendGain   = 0.998 // of the mean square of the best fold-in that a blend has at most for a whole update to be worth it
	blendEvents = 1000  // before there is a blend
	blendHold   = 6     // curvature that holds to the best fold-in alone, in logits of each other part
	blendShare  = 0.1   // of the slope of a fold-in alone that one has at the least, else it is left out
	blendOut    = 1e9   // curvature that does so
	blendWindow = 300   // events by which the weights of an update are compared with those of now
	blendLeast  = 100   // and how many of these at the least
	blendErrors = 2     // standard errors by which the latter are better where updates come early
)

// blendWeights are one solution: output c is constant[c] plus the inputs times factors. It does not change.
type blendWeights struct {
	constant  []float64
	factors   []float64
	reduction *posterior.Reduction // of an update
}

// blendFit is the curvature and the right side of the events so far, fading.
type blendFit struct {
	normal  []float64 // n×n, lower triangle, in constants and then factors
	right   []float64 // n
	weights *blendWeights
	loss    float64 // fading
}

// hasBlend reports whether versions of a model can hold sums: its labels are numbers, by names, and its fold-ins in closed form.
func hasBlend(m *config.Model) bool {
	return m.Train.Refit == "variational" && m.Train.FoldIn.Enabled && len(m.Schema.Categorical) > 0 && m.Schema.Learned().IsNumeric()
}

// newBlend returns the blend of the fold-ins and of the baselines of a mixture.
func newBlend(t *Target, m *mixture) *blend {
	b := &blend{outputs: t.Outputs(), levels: t.Likelihood == posterior.Logistic, squares: fading{rate: mixtureFade}}
	for _, base := range m.baselines {
		if of, ok := base.(*conditional); ok && (of.field < 0 || of.last) {
			continue // versions know nothing of labels before, and constants there are
		}
		if l, ok := base.(linearBaseline); ok {
			b.linear = append(b.linear, l)
		}
	}
	b.inputs, b.steps = make([]float64, len(blendFoldIns)+len(b.linear)), make([]float64, b.outputs)
	b.advances = make([]float64, 0, blendWindow)
	n := b.outputs + len(b.inputs)
	for i := range b.alone {
		b.alone[i].rate = mixtureFade
	}
	for i := range b.fits {
		b.fits[i] = blendFit{normal: make([]float64, n*n), right: make([]float64, n)}
	}
	return b
}

// blendParts returns the fold-ins of a blend that there are, nil for the others. c.mu is held.
func (c *Cycle) blendParts() (parts [len(blendFoldIns)]*posteriorLearner) {
	first, ok := c.learner.(*posteriorLearner)
	if !ok {
		return parts
	}
	parts[0] = first
	base := first.foldIn.Base()
	for i := 1; i < len(parts); i++ {
		b := c.companion(blendFoldIns[i])
		if b == nil {
			continue
		}
		l, ok := b.learner.(*posteriorLearner)
		if !ok {
			continue
		}
		own := l.foldIn.Base()
		sameNumbers := len(c.schema.Numeric) == 0 || l.vocab == first.vocab // on the same scale
		if sameNumbers && own.NumFields == base.NumFields && slices.Equal(own.Group, base.Group) {
			parts[i] = l
		}
	}
	return parts
}

// takeBlend takes up an event for which the mixture has predicted, given the outputs of the fold-in. c.mu is held.
func (c *Cycle) takeBlend(foldIn []float64) {
	b := c.blend
	parts := c.blendParts()
	if b.ready = parts[0] != nil; !b.ready {
		return
	}
	for i := range parts {
		switch {
		case i == 0:
			b.inputs[0] = c.blendSign(0) * foldIn[0]
			copy(b.steps, foldIn)
			floats.AddConst(-foldIn[0], b.steps)
		case parts[i] != nil:
			b.inputs[i] = c.blendSign(i) * c.companion(blendFoldIns[i]).outputs[0]
		default:
			b.inputs[i] = b.inputs[i-1]
		}
	}
	for i, l := range b.linear {
		b.inputs[len(parts)+i] = l.number()
	}
	b.ready = isFinite(b.inputs)
}

// blendSign returns the sign of the number in the outputs of a fold-in that there is: those of levels fall as the label rises.
func (c *Cycle) blendSign(i int) float64 {
	if c.blend.levels && (i == 0 || c.companion(blendFoldIns[i]).target.Link == c.target.Link) {
		return -1
	}
	return 1
}

// sign is that of the inputs in the outputs.
func (b *blend) sign() float64 {
	if b.levels {
		return -1
	}
	return 1
}

// output returns output c for the event.
func (b *blend) output(w *blendWeights, c int) float64 {
	return w.constant[c] + floats.Dot(w.factors, b.inputs)
}

// loss returns the loss of the event: in units of the given mean square for numbers.
func (b *blend) loss(w *blendWeights, label float64, targets []float64, unit float64) (loss float64) {
	shared := floats.Dot(w.factors, b.inputs)
	for c, t := range targets {
		o := w.constant[c] + shared
		if !b.levels {
			return min((label-o)*(label-o)/(2*unit), mixtureLossMax)
		}
		loss += max(-t*o, 0) + math.Log1p(math.Exp(-math.Abs(o)))
	}
	return loss
}

// number returns what the event is predicted as.
func (b *blend) number(w *blendWeights) float64 {
	if !b.levels {
		return b.output(w, 0)
	}
	shared, level := floats.Dot(w.factors, b.inputs), 1.0
	for _, t := range w.constant {
		level += 1 - chance(t+shared)
	}
	return level
}

// learnBlend lets the fits learn the label of the event that was taken up last. c.mu is held.
func (c *Cycle) learnBlend(label float64) {
	b := c.blend
	unit := c.mixture.square()
	if !b.ready || !(unit > 0) {
		return
	}
	if b.events == 0 {
		c.solveBlend(unit)
	}
	best := b.best()
	square := func(number float64) float64 { return min((number-label)*(number-label), worstError) }
	b.squares.add(square(c.target.Clip(b.number(best.weights))))
	for i, name := range blendFoldIns {
		if p := c.mixture.part(name); p != nil && p.present {
			b.alone[i].add(square(p.value[0]))
		}
	}
	now := best.weights
	for i := range b.fits {
		f := &b.fits[i]
		f.loss = blendFades[0]*f.loss + b.loss(f.weights, label, c.targets, unit)
		b.add(f, blendFades[i], label, c.targets, unit)
	}
	if b.used != nil {
		advance := b.loss(b.used, label, c.targets, unit) - b.loss(now, label, c.targets, unit)
		if len(b.advances) < blendWindow {
			b.advances = append(b.advances, advance)
		} else {
			b.advances[b.at] = advance
			b.at = (b.at + 1) % blendWindow
		}
	}
	if b.events++; b.events%blendEvery == 0 {
		c.solveBlend(unit)
	}
}

// best returns the fit that has predicted better of late.
func (b *blend) best() *blendFit {
	best := &b.fits[0]
	for i := range b.fits {
		if b.fits[i].loss < best.loss {
			best = &b.fits[i]
		}
	}
	return best
}

// add takes up an event in a fit: of each output its curvature, and what that times the output would have been in a step from where it is.
func (b *blend) add(f *blendFit, fade, label float64, targets []float64, unit float64) {
	m, n := b.outputs, b.outputs+len(b.inputs)
	floats.Scale(fade, f.normal)
	floats.Scale(fade, f.right)
	sign, shared := b.sign(), floats.Dot(f.weights.factors, b.inputs)
	curves, rights := 0.0, 0.0
	for c, t := range targets {
		o := f.weights.constant[c] + shared
		h, right := 1/unit, 0.0
		if b.levels {
			p := 1 / (1 + math.Exp(-o))
			h = p * (1 - p)
			right = h*o + (t+1)/2 - p
		} else {
			miss := min(max(label-o, -stackMiss*math.Sqrt(unit)), stackMiss*math.Sqrt(unit))
			right = h * (o + miss)
		}
		f.normal[c*n+c] += h
		f.right[c] += right
		for j, x := range b.inputs {
			f.normal[(m+j)*n+c] += h * sign * x
		}
		curves, rights = curves+h, rights+right
	}
	for i, x := range b.inputs {
		f.right[m+i] += rights * sign * x
		floats.AddScaled(f.normal[(m+i)*n+m:(m+i)*n+m+i+1], curves*x, b.inputs[:i+1])
	}
}

// solveBlend sets the weights of the fits, held to those of the best fold-in alone. c.mu is held.
func (c *Cycle) solveBlend(unit float64) {
	b := c.blend
	base := 0
	for i, l := range c.blendParts() {
		if l != nil && b.alone[i].mean() < b.alone[base].mean() {
			base = i
		}
	}
	slope := 1.0 // of the numbers, in logits
	start := &levelLink{Threshold: make([]float64, b.outputs)}
	if b.levels {
		start = newLevelLink(b.outputs, math.Sqrt(unit))
		slope = start.Slope
		if base == 0 {
			copy(start.Threshold, b.steps)
		}
	}
	slopes := make([]float64, len(b.inputs))
	for j := range slopes {
		if slopes[j] = slope; j == 0 {
			slopes[j] = 1
		}
	}
	for i := range b.fits {
		b.solve(&b.fits[i], start.Threshold, slopes, base)
	}
}

// solve sets the weights of a fit that is held to one fold-in: to its slope, and to the given constants, with a curvature of 1. Fold-ins that add next to
// nothing are left out. Where rounding defeats it, it begins anew with the one fold-in.
func (b *blend) solve(f *blendFit, constant, slopes []float64, base int) {
	m := b.outputs
	hold := make([]float64, len(slopes))
	for i := range hold {
		if i != base {
			hold[i] = blendHold
		}
	}
	w, ok := b.solution(f, constant, slopes, hold)
	var out []int
	for i := range blendFoldIns {
		if ok && i != base && math.Abs(w[m+i]) < blendShare*slopes[i] {
			hold[i], out = blendOut, append(out, i)
		}
	}
	if len(out) > 0 {
		w, ok = b.solution(f, constant, slopes, hold)
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
	f.weights = &blendWeights{constant: w[:m:m], factors: w[m:]}
}

// solution returns constants and slopes where all slopes, in the given ones, are held to a sum of 1, and each to 0 as hold says.
func (b *blend) solution(f *blendFit, constant, slopes, hold []float64) (w []float64, ok bool) {
	m, n := b.outputs, b.outputs+len(b.inputs)
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
	var lapack gonum.Implementation
	if !lapack.Dpotrf(blas.Lower, n, normal, n) {
		return w, false
	}
	lapack.Dpotrs(blas.Lower, n, 1, normal, n, w, 1)
	return w, isFinite(w)
}

// moved reports whether the weights of the newest update predict worse by now than those that the next one would have.
func (b *blend) moved(errors float64) bool {
	n := float64(len(b.advances))
	if n < blendLeast {
		return false
	}
	mean, squares := floats.Sum(b.advances)/n, floats.Dot(b.advances, b.advances)/n
	return mean > errors*math.Sqrt(max(squares-mean*mean, 0)/n) && mean > 0
}

// use makes weights those of the newest update.
func (b *blend) use(w *blendWeights) { b.used, b.advances, b.at = w, b.advances[:0], 0 }

// has reports whether a part of the mixture is one of the newest update's sum.
func (b *blend) has(name string) bool {
	if b.used == nil {
		return false
	}
	if i := slices.Index(blendFoldIns[:], name); i >= 0 {
		return b.used.factors[i] != 0
	}
	return slices.ContainsFunc(b.linear, func(l linearBaseline) bool { return l.name() == name })
}

// madeOfBlend returns the blend with its weights of now, or with those of the newest update; nothing where it is no better than one of its parts.
func (c *Cycle) madeOfBlend(v *Vocabulary, next bool) (of made) {
	if c.blend == nil || v == nil {
		return of
	}
	b := c.blend
	w := b.used
	if next {
		if w = nil; c.isBlendBetter(1) {
			w = b.best().weights
		}
	}
	parts := c.blendParts()
	if w == nil || parts[0] == nil {
		return of
	}
	of.blend, of.vocab = w, v
	of.sum = &summed{likelihood: c.target.Likelihood, constant: w.constant}
	sign := 1.0
	for i, l := range parts {
		if l != nil {
			sign = c.blendSign(i)
			of.sum.parts = append(of.sum.parts, summand{l, 0, c.steadyIn(blendForms[i])})
		}
		of.sum.parts[len(of.sum.parts)-1].factor += sign * w.factors[i]
	}
	of.sum.parts = slices.DeleteFunc(of.sum.parts, func(p summand) bool { return p.factor == 0 })
	if len(of.sum.parts) == 0 {
		return made{}
	}
	for i, l := range b.linear {
		of.sum.baselines = append(of.sum.baselines, weighed{l, w.factors[len(parts)+i]})
	}
	of.sum.reduction, of.sum.reduces = w.reduction, next
	of.folded = of.sum.state(v)
	if of.model = of.folded.Model(); next {
		of.blend = &blendWeights{w.constant, w.factors, of.sum.reduction}
	}
	return of
}

// isBlendBetter reports whether the live blend has predicted better of late than each fold-in: has a mean square below a share of theirs.
func (c *Cycle) isBlendBetter(share float64) bool {
	if c.blend == nil || c.blend.events < blendEvents {
		return false
	}
	for i, l := range c.blendParts() {
		if l != nil && !(c.blend.squares.mean() < share*c.blend.alone[i].mean()) {
			return false
		}
	}
	return true
}

// blendAsks reports whether consumers should get a whole update for the sake of the blend: its weights have moved by so many standard errors since the newest
// update, which is one, or they have an update of another form and the blend is better by enough to be worth that. c.mu is held.
func (c *Cycle) blendAsks(f *following, errors float64) bool {
	switch {
	case f.form == formBlend:
		return c.isBlendBetter(1) && c.blend.moved(errors)
	case f.forms[formBlend] != nil:
		return c.isBlendBetter(blendGain) && c.blend.moved(errors)
	}
	return false
}

// goOn tells that a fold-in, which those after it counted as, goes on as the last one, and another takes its place.
func (b *blend) goOn(was updateForm) {
	if b == nil {
		return
	}
	from, last := slices.Index(blendForms[:], was), len(blendForms)-1
	for i := range b.fits {
		if w := b.fits[i].weights; w != nil {
			factors := slices.Clone(w.factors)
			all := floats.Sum(factors[from : last+1])
			clear(factors[from:last])
			factors[last] = all
			b.fits[i].weights = &blendWeights{constant: w.constant, factors: factors}
		}
	}
	b.alone[last], b.used = b.alone[from], nil
}
