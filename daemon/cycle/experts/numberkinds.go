package experts

import (
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// numbersMemory is the part of memory.parts of all experts on numeric fields.
const numbersMemory = "numbers"

// What experts on numbers take at most: weights of one expert of AdaGrad, or of Newton's learner. Chosen
// by hand.
const (
	maxAdagradWeights = 10_000
	maxNewtonWeights  = 100_000
)

// adaGradKind learns numbers, their products and names.
var adaGradKind = Kind{
	Name:    PartAdagrad,
	Doc:     "steps that adapt to each input, on numbers, their products and names; numeric fields",
	Memory:  numbersMemory,
	Lasting: true,
	Applies: func(s *Setting) bool {
		return s.learnsNumbers() && len(s.Schema.Numeric)*s.numberTarget().Outputs() <= maxAdagradWeights
	},
	New: onNumbers(PartAdagrad, func(s *Setting, n *encode.NumberScale, t *encode.Target) Learner {
		return NewAdaGrad(n, s.Schema, t, s.maxRows(), false)
	}),
	Footprint: func(s *Setting) int64 {
		return adaGradFootprint(s, adaGradInputs(len(s.Schema.Numeric), s.numberTarget().Outputs()))
	},
}

// recentKind learns numbers, names and the labels that came last.
var recentKind = Kind{
	Name:    PartRecent,
	Doc:     "the same on numbers, names and labels that just came; numeric fields, up to ten outputs",
	Memory:  numbersMemory,
	Lasting: true,
	Applies: func(s *Setting) bool { return adaGradKind.Applies(s) && s.numberTarget().Outputs() <= maxRecent },
	New: onNumbers(PartRecent, func(s *Setting, n *encode.NumberScale, t *encode.Target) Learner {
		return NewAdaGrad(n, s.Schema, t, s.maxRows(), true)
	}),
	Footprint: func(s *Setting) int64 {
		return adaGradFootprint(s, len(s.Schema.Numeric)+len(recentFades)*s.numberTarget().Outputs())
	},
}

// newtonKind learns Fourier features.
var newtonKind = Kind{
	Name:    PartNewton,
	Doc:     "Newton's step at every event on numbers and random Fourier features; numeric fields",
	Memory:  numbersMemory,
	Lasting: true,
	Applies: func(s *Setting) bool {
		return s.learnsNumbers() &&
			newtonInputs(len(s.Schema.Numeric))*s.numberTarget().Outputs() <= maxNewtonWeights
	},
	New: onNumbers(PartNewton, func(_ *Setting, n *encode.NumberScale, t *encode.Target) Learner {
		return NewNewton(n, t)
	}),
	Footprint: func(s *Setting) int64 {
		n := int64(newtonInputs(len(s.Schema.Numeric)))
		return 8 * n * (n + int64(s.numberTarget().Outputs()) + newtonFourier)
	},
}

// neighboursKind predicts from the nearest events.
var neighboursKind = Kind{
	Name:    PartNeighbours,
	Doc:     "the nearest recent events; numeric fields",
	Memory:  numbersMemory,
	Lasting: true,
	Applies: (*Setting).learnsNumbers,
	New: onNumbers(PartNeighbours, func(s *Setting, n *encode.NumberScale, t *encode.Target) Learner {
		return newNeighbours(n, t, len(s.Schema.Categorical))
	}),
	Footprint: func(s *Setting) int64 {
		values, outputs := len(s.Schema.Numeric)+s.numNames(), s.numberTarget().Outputs()
		return 4 * int64(neighbourWindow(values, outputs)) * int64(values+outputs)
	},
}

// onNumbers returns the New of a kind that sees numbers: each of its experts has a scale of them.
func onNumbers(name string, make func(s *Setting, n *encode.NumberScale, t *encode.Target) Learner) func(*Setting,
	*fitted.Fitted, *Expert) *Expert {
	return func(s *Setting, _ *fitted.Fitted, _ *Expert) *Expert {
		n, t := encode.NewNumberScale(len(s.Schema.Numeric), s.Target), s.numberTarget()
		x := NewExpert(name, t, make(s, n, t))
		x.numbers = n
		return x
	}
}

// numNames returns how many fields of names there are.
func (s *Setting) numNames() int { return len(s.Schema.Categorical) + len(s.Schema.Multi) }

// adaGradFootprint returns the bytes of a learner by AdaGrad on so many inputs and on names.
func adaGradFootprint(s *Setting, inputs int) int64 {
	each, outputs := len(adagradSteps)*len(adagradFades)*len(adagradBiasSteps), s.numberTarget().Outputs()
	weights := 8 * int64(each) * int64(outputs+1) // of an input or a name, with the sums of squares
	bytes := weights * int64(inputs)
	if s.numNames() > 0 {
		const list = 24
		names := min(s.maxRows(), adagradNames/(each*(outputs+1)))
		bytes += rows.SlotsFootprint(names, s.maxName()) + int64(names)*(weights+list)
	}
	return bytes
}
