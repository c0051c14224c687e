package cycle

import (
	"slices"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver/posterior"
)

// foldIn returns what a version says about folding events in where it is used, or nil and why it says nothing: rows are those of the posterior whose
// mean the model is, at the rates of the live fold-in and with what these have lost.
func (ch *Champion) foldIn(m *config.Model) (*snapshot.FoldIn, string) {
	if ch.told != nil || ch.untold != "" {
		return ch.told, ch.untold
	}
	s := ch.folded
	if s == nil && ch.Version.Sweeps > 0 {
		s = ch.posterior
	}
	switch {
	case !m.Train.FoldIn.Enabled:
		return nil, "train.fold_in.enabled is false"
	case s == nil || ch.Model.Map != nil:
		return nil, "the model has no posterior: it is of the convex stage, or of numbers"
	case len(m.Train.FoldIn.By) == 0:
		return nil, "the schema has no categorical field"
	}
	l := s.Loadings()
	f := &snapshot.FoldIn{Likelihood: s.Likelihood.String(), Shared: !s.Separate, Coordinates: l.Coordinate, Scale: l.Scale, LabelRange: ch.labelRange}
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
	for i, name := range foldInFields(m) {
		field := slices.Index(m.Schema.Categorical, name)
		precision := s.Precision[field*q : (field+1)*q]
		if s.MainOnly != nil && s.MainOnly[field] {
			precision = precision[:linear]
		}
		rates := foldInRates(i)
		losses := make([]float64, len(rates))
		if field < len(ch.rateLosses) && len(ch.rateLosses[field]) == len(rates) {
			losses = slices.Clone(ch.rateLosses[field])
		}
		f.Fields = append(f.Fields, snapshot.FoldInField{Name: name, Precision: slices.Clone(precision), Signs: l.Sign[field], Rates: rates, Losses: losses})
	}
	return f, ""
}

// foldInFields returns the fields whose names forget, each once, in the order of the configuration.
func foldInFields(m *config.Model) (names []string) {
	for _, name := range m.Train.FoldIn.By {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// foldInRates returns the rates of the i-th of foldInFields: fields beyond the first have fewer.
func foldInRates(i int) []float64 {
	if i > 0 {
		return posterior.FurtherRates
	}
	return posterior.DefaultRates
}

// noteLive notes in a champion what its version tells readers of the live fold-in. c.mu is held.
func (c *Cycle) noteLive(ch *Champion) {
	if low, high := c.numbers.labels(); low <= high && c.numbers.limited && c.numbers.label.ready() {
		ch.labelRange = []float64{low, high}
	}
	if l, ok := c.learner.(*posteriorLearner); ok {
		ch.rateLosses = l.foldIn.RateLosses()
	}
}
