package fitted

import (
	"slices"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/online"
)

// foldIn returns what a version says about folding events in where it is used, or nil and why it says nothing: rows are
// those of the posterior whose mean the model is, at the rates of the live fold-in and with what these have lost.
func (ch *Fitted) foldIn(m *config.Model) (*format.FoldIn, string) {
	// Said before: of an update that sums several, or of a version that was read from a store.
	if ch.FoldIn != nil || ch.NoFoldIn != "" {
		return ch.FoldIn, ch.NoFoldIn
	}
	s := ch.Folded
	if s == nil && ch.Version.Sweeps > 0 {
		s = ch.Posterior
	}
	switch {
	case !m.Train.FoldIn.Enabled:
		return nil, "train.fold_in.enabled is false"
	case s == nil || ch.Model.Map != nil:
		return nil, "the model has no posterior: it is of the convex stage, or of numbers"
	case !format.CanFoldIn(s.Likelihood.String(), string(ch.Target.Link)):
		return nil, "its outputs are margins of train.loss, no log odds: another loss of classes can be folded into"
	case len(m.Train.FoldIn.By) == 0:
		return nil, "the schema has no categorical field"
	}
	// Consumers fold into the vectors of the version: loadings say how coordinates and vectors relate.
	l := s.Loadings()
	f := &format.FoldIn{
		Likelihood:  s.Likelihood.String(),
		Shared:      !s.Separate,
		Coordinates: l.Coordinate,
		Scale:       l.Scale,
		LabelRange:  ch.LabelRange,
	}
	linear := 1
	if s.Separate {
		linear = ch.Target.Outputs()
	}
	if s.Likelihood == posterior.Gaussian {
		f.Noise = []float64{s.Noise}
		if s.Separate {
			f.Noise = slices.Clone(s.Noises)
		}
	}
	q := linear + s.NumBasis
	for i, name := range FoldInFields(m) {
		field := slices.Index(m.Schema.Categorical, name)
		precision := s.Precision[field*q : (field+1)*q]
		// No coordinates to learn: the prior of the linear weights is all.
		if s.MainOnly != nil && s.MainOnly[field] {
			precision = precision[:linear]
		}
		rates := FoldInRates(i)
		// Unknown losses are all 0: the rates begin level.
		losses := make([]float64, len(rates))
		if field < len(ch.RateLosses) && len(ch.RateLosses[field]) == len(rates) {
			losses = slices.Clone(ch.RateLosses[field])
		}
		f.Fields = append(
			f.Fields,
			format.FoldInField{
				Name:      name,
				Precision: slices.Clone(precision),
				Signs:     l.Sign[field],
				Rates:     rates,
				Losses:    losses,
			},
		)
	}
	return f, ""
}

// FoldInFields returns the fields whose names forget, each once, in the order of the configuration.
func FoldInFields(m *config.Model) (names []string) {
	for _, name := range m.Train.FoldIn.By {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// FoldInRates returns the rates of the i-th of FoldInFields: fields beyond the first have fewer.
func FoldInRates(i int) []float64 {
	if i > 0 {
		return online.FurtherRates
	}
	return online.DefaultRates
}
