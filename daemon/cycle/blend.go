package cycle

import (
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"gonum.org/v1/gonum/floats"
)

// blendVariant is the sum of fold-ins and baselines that StackedUpdate fits.
var blendVariant = variant{
	name:   mixture.BlendName,
	doc:    "a sum of fold-ins, that from before the last alarm too, and of linear baselines; numbers and ordinal labels",
	part:   isPart(experts.PartBlend),
	reason: "; a sum of fold-ins and baselines, which has predicted better than each",
	isHeld: mixture.HasStackedUpdate,
	candidate: func(e *ensemble, _ *variant, made *candidates, next bool) updates.Candidate {
		return e.candidateOfStack(made[mixture.FormFoldIn].Vocab, next)
	},
	follow: func(e *ensemble, v *variant, of *updates.DeltaStream, made *updates.Candidate) *updates.DeltaEncoder {
		l, ok := e.learner.(*experts.FoldIn)
		if !ok {
			return nil
		}
		r, parts := posteriorRows(e, v, l, made), e.stackedParts()
		r.Changed = func() string {
			if e.stackedParts() != parts || e.stacked.Used != made.Blend {
				return "the parts of the blend are others"
			}
			return ""
		}
		return &updates.DeltaEncoder{Learner: l, Source: of.SourceOf(l.Slots), Rows: r}
	},
}

// stackedParts returns the fold-ins of a blend that there are, nil for the others. c.mu is held.
func (e *ensemble) stackedParts() (parts [len(mixture.BlendFoldIns)]*experts.FoldIn) {
	first, ok := e.learner.(*experts.FoldIn)
	if !ok {
		return parts
	}
	parts[0] = first
	base := first.FoldIn.Base()
	for i := 1; i < len(parts); i++ {
		b := e.expertOf(mixture.BlendFoldIns[i])
		if b == nil {
			continue
		}
		l, ok := b.Learner.(*experts.FoldIn)
		if !ok {
			continue
		}
		own := l.FoldIn.Base()
		sameNumbers := len(e.schema.Numeric) == 0 || l.Vocab == first.Vocab // on the same scale
		if sameNumbers && own.NumFields == base.NumFields && slices.Equal(own.Group, base.Group) {
			parts[i] = l
		}
	}
	return parts
}

// takeStacked takes up an event for which the mixture has predicted, given the outputs of the fold-in. c.mu is held.
func (e *ensemble) takeStacked(foldIn []float64) {
	b := e.stacked
	parts := e.stackedParts()
	if b.Ready = parts[0] != nil; !b.Ready {
		return
	}
	for i := range parts {
		switch {
		case i == 0:
			b.Inputs[0] = e.stackedSign(0) * foldIn[0]
			copy(b.Steps, foldIn)
			floats.AddConst(-foldIn[0], b.Steps)
		case parts[i] != nil:
			b.Inputs[i] = e.stackedSign(i) * e.predicted[slices.Index(e.experts, e.expertOf(mixture.BlendFoldIns[i]))][0]
		default:
			b.Inputs[i] = b.Inputs[i-1]
		}
	}
	for i, l := range b.Linear {
		b.Inputs[len(parts)+i] = l.Number()
	}
	b.Ready = encode.IsFinite(b.Inputs)
}

// stackedSign returns the sign of the number in the outputs of a fold-in that there is: those of levels fall as the
// label rises.
func (e *ensemble) stackedSign(i int) float64 {
	if e.stacked.Levels && (i == 0 || e.expertOf(mixture.BlendFoldIns[i]).Target.Link == e.target.Link) {
		return -1
	}
	return 1
}

// learnStacked lets the fits learn the label of the event that was taken up last. c.mu is held.
func (e *ensemble) learnStacked(label float64) {
	b := e.stacked
	unit := e.mixture.Square()
	if !b.Ready || !(unit > 0) {
		return
	}
	if b.Events == 0 {
		e.solveStacked(unit)
	}
	best := b.Best()
	square := func(number float64) float64 { return min((number-label)*(number-label), evaluate.WorstError) }
	b.Squares.Add(square(e.target.Clip(b.Number(best.Weights))))
	for i, name := range mixture.BlendFoldIns {
		if p := e.mixture.Part(name); p != nil && p.Present {
			b.Alone[i].Add(square(p.Value[0]))
		}
	}
	now := best.Weights
	for i := range b.Fits {
		f := &b.Fits[i]
		f.Loss = mixture.StackedFades[0]*f.Loss + b.Loss(f.Weights, label, e.targets, unit)
		b.Add(f, mixture.StackedFades[i], label, e.targets, unit)
	}
	if b.Used != nil {
		advance := b.Loss(b.Used, label, e.targets, unit) - b.Loss(now, label, e.targets, unit)
		if len(b.Advances) < mixture.BlendWindow {
			b.Advances = append(b.Advances, advance)
		} else {
			b.Advances[b.At] = advance
			b.At = (b.At + 1) % mixture.BlendWindow
		}
	}
	if b.Events++; b.Events%mixture.BlendEvery == 0 {
		e.solveStacked(unit)
	}
}

// solveStacked sets the weights of the fits, held to those of the best fold-in alone. c.mu is held.
func (e *ensemble) solveStacked(unit float64) {
	b := e.stacked
	base := 0
	for i, l := range e.stackedParts() {
		if l != nil && mixture.Mean(&b.Alone[i]) < mixture.Mean(&b.Alone[base]) {
			base = i
		}
	}
	slope := 1.0 // of the numbers, in logits
	start := &encode.LevelLink{Threshold: make([]float64, b.Outputs)}
	if b.Levels {
		start = encode.NewLevelLink(b.Outputs, math.Sqrt(unit))
		slope = start.Slope
		if base == 0 {
			copy(start.Threshold, b.Steps)
		}
	}
	slopes := make([]float64, len(b.Inputs))
	for j := range slopes {
		if slopes[j] = slope; j == 0 {
			slopes[j] = 1
		}
	}
	for i := range b.Fits {
		b.Solve(&b.Fits[i], start.Threshold, slopes, base)
	}
}

// candidateOfStack returns the blend with its current weights, or with those of the newest update. The result is empty
// if the blend is no better than one of its parts.
func (e *ensemble) candidateOfStack(v *encode.Vocabulary, next bool) (of updates.Candidate) {
	if e.stacked == nil || v == nil {
		return of
	}
	b := e.stacked
	w := b.Used
	if next {
		if w = nil; e.isStackedBetter(1) {
			w = b.Best().Weights
		}
	}
	parts := e.stackedParts()
	if w == nil || parts[0] == nil {
		return of
	}
	of.Blend, of.Vocab = w, v
	of.Sum = &mixture.LinearCombination{Likelihood: e.target.Likelihood, Constant: w.Constant}
	sign := 1.0
	for i, l := range parts {
		if l != nil {
			sign = e.stackedSign(i)
			steady := e.nonForgetting
			if mixture.BlendFoldIns[i] == experts.PartBefore {
				steady = nil // no refit resets it: names of all its fields forget
			}
			of.Sum.Parts = append(of.Sum.Parts, mixture.Term{Learner: l, Factor: 0, Steady: steady})
		}
		of.Sum.Parts[len(of.Sum.Parts)-1].Factor += sign * w.Factors[i]
	}
	of.Sum.Parts = slices.DeleteFunc(of.Sum.Parts, func(p mixture.Term) bool { return p.Factor == 0 })
	if len(of.Sum.Parts) == 0 {
		return updates.Candidate{}
	}
	for i, l := range b.Linear {
		of.Sum.Baselines = append(of.Sum.Baselines, mixture.BaselineTerm{Linear: l, Factor: w.Factors[len(parts)+i]})
	}
	of.Sum.Reduction, of.Sum.Reduces = w.Reduction, next
	of.Folded = of.Sum.State(v)
	if of.Model = of.Folded.Model(); next {
		of.Blend = &mixture.StackedWeights{Constant: w.Constant, Factors: w.Factors, Reduction: of.Sum.Reduction}
	}
	return of
}

// isStackedBetter reports whether the live blend has predicted better of late than each fold-in: has a mean square
// below a share of theirs.
func (e *ensemble) isStackedBetter(share float64) bool {
	if e.stacked == nil || e.stacked.Events < mixture.BlendEvents {
		return false
	}
	for i, l := range e.stackedParts() {
		if l != nil && !(mixture.Mean(&e.stacked.Squares) < share*mixture.Mean(&e.stacked.Alone[i])) {
			return false
		}
	}
	return true
}

// stackedAsks reports whether consumers should get a whole update because of the blend. Either the newest update is a
// blend and its weights have moved by so many standard errors, or it is another variant and the blend is enough better.
// c.mu is held.
func (e *ensemble) stackedAsks(f *updates.DeltaStream, errors float64) bool {
	switch {
	case f.Form == mixture.FormBlend:
		return e.isStackedBetter(1) && e.stacked.Moved(errors)
	case f.Forms[mixture.FormBlend] != nil:
		return e.isStackedBetter(mixture.BlendGain) && e.stacked.Moved(errors)
	}
	return false
}
