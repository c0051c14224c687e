package experts

import (
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// BaselineLinear is the name of the linear baseline in reports. It is not to be changed.
const BaselineLinear = "linear"

// The one setting of the linear baseline; it is part of its definition. It is the middle of AdaGrad's settings, and
// nothing fades. Chosen by hand.
const (
	linearStep     = 0.1
	linearBiasStep = 0.1
)

// NewLinear returns the linear baseline of classes: logistic regression on names and numbers, one step for each event.
// It is no part of the mixture: what is live does not depend on it. It is nil for numbers, for outputs without
// probabilities and for too many of them.
func (s *Setting) NewLinear() *Expert {
	if !s.hasLinear() {
		return nil
	}
	numbers := encode.NewNumberScale(len(s.Schema.Numeric), s.Target)
	l := newAdaGrad(numbers, s.Schema, s.Target)
	l.Each = []adagradExpert{{Step: linearStep, Fade: 1, BiasStep: linearBiasStep}}
	l.allocate(len(s.Schema.Numeric), s.maxRows())
	x := NewExpert(BaselineLinear, s.Target, l)
	x.numbers = numbers
	return x
}

// hasLinear reports whether a model has the linear baseline.
func (s *Setting) hasLinear() bool {
	return !s.Target.IsNumeric() && HasProbabilities(s.Target) &&
		(len(s.Schema.Numeric)+1)*s.Target.Outputs() <= maxAdagradWeights
}

// LinearFootprint returns the bytes that the linear baseline takes at most.
func (s *Setting) LinearFootprint() int64 {
	if !s.hasLinear() {
		return 0
	}
	const list = 24
	each := 8 * int64(s.Target.Outputs()+1) // of an input or a name, with the sum of squares
	bytes := each * int64(len(s.Schema.Numeric))
	if s.numNames() > 0 {
		names := min(s.maxRows(), adagradNames/(s.Target.Outputs()+1))
		bytes += rows.SlotsFootprint(names, s.maxName()) + int64(names)*(each+list)
	}
	return bytes
}
