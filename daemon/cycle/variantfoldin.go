package cycle

import (
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// The variants that are fold-ins. In the first two only names of entities (a user, an item) forget. Another name, such
// as an occupation, has hundreds of events until the next update. It would follow the newest of them and forget what it
// was published for.
var (
	foldInVariant = variant{
		name:      "update_fold_in",
		doc:       "the fold-in on the last refit",
		part:      isPart(mixture.PartFoldIn),
		steady:    true,
		candidate: foldInCandidate,
		follow:    followFoldIn,
	}
	gaussianVariant = variant{
		name:      "update_gaussian",
		doc:       "that of levels as numbers, with the thresholds of the last refit; ordinal labels",
		part:      isPart(experts.PartGaussian),
		reason:    "; that of levels as numbers, which has predicted better",
		steady:    true,
		isHeld:    experts.HasGaussian,
		candidate: foldInCandidate,
		follow:    followFoldIn,
	}
	// mixedVariant is the fold-in as mixed for the next event, that of GaussianTarget where the model has one.
	mixedVariant = variant{
		name: "update_forgetting",
		doc:  "the fold-in, that of levels as numbers for ordinal labels, in which names of all fields forget",
		part: func(m *config.Model) string {
			if experts.HasGaussian(m) {
				return experts.PartGaussian
			}
			return mixture.PartFoldIn
		},
		reason: "; that in which names of all fields forget, which has predicted better",
		isHeld: func(m *config.Model) bool {
			schema := m.Schema.Event()
			return hasPosteriors(m) && updates.NonForgettingFields(m, &schema) != nil
		},
		candidate: func(e *ensemble, v *variant, made *candidates, next bool) (of updates.Candidate) {
			if _, ok := v.learner(e).(*experts.FoldIn); ok && e.nonForgetting != nil {
				return foldInCandidate(e, v, made, next)
			}
			return of
		},
		follow: followFoldIn,
	}
)

// hasPosteriors reports whether the fold-in of a model is one in closed form.
func hasPosteriors(m *config.Model) bool {
	return m.Train.Refit == "variational" && m.Train.FoldIn.Enabled
}

// foldInCandidate returns the candidate of a variant that is a fold-in: what its learner has learned, as levels if it
// treats levels as numbers.
func foldInCandidate(e *ensemble, v *variant, _ *candidates, next bool) (of updates.Candidate) {
	limit, steady := e.config.Train.MaxFeatures, v.nonForgetting(e.common)
	switch l := v.learner(e).(type) {
	case *experts.FoldIn:
		b := e.expertOf(v.part(e.config))
		switch {
		case b == nil || b.Target.Link == e.target.Link:
			of.Folded, of.Vocab = l.Live(limit, steady)
		case e.champion.Link == nil: // no refit says what a number is for the levels
			return of
		default:
			of.Link = e.linkOf(b, next)
			of.Sum = &mixture.LinearCombination{Likelihood: e.target.Likelihood, Constant: of.Link.Threshold,
				Parts: []mixture.Term{{Learner: l, Factor: -of.Link.Slope, Steady: steady}}}
			of.Vocab = l.Vocab.With(l.Slots, limit)
			of.Folded = of.Sum.State(of.Vocab)
		}
		of.Model = of.Folded.Model()
	case experts.FoldInLearner:
		of.Model, of.Vocab = l.Model(limit)
	}
	return of
}

// followFoldIn returns the encoder of a variant that is a fold-in.
func followFoldIn(e *ensemble, v *variant, of *updates.DeltaStream, made *updates.Candidate) *updates.DeltaEncoder {
	switch l := v.learner(e).(type) {
	case *experts.FoldIn:
		r := posteriorRows(e, v, l, made)
		if made.Link != nil {
			r.Changed = func() string {
				if e.linkOf(e.expertOf(v.part(e.config)), false) != made.Link {
					return "numbers mean something else for the levels"
				}
				return ""
			}
		}
		return &updates.DeltaEncoder{Learner: l, Source: of.SourceOf(l.Slots), Rows: r}
	case *experts.Gradient:
		rows := &updates.GradientRows{Learner: l}
		return &updates.DeltaEncoder{Learner: l, Source: of.SourceOf(l.Slots), Rows: rows}
	}
	return nil
}

// posteriorRows are the rows of a variant that is a fold-in in closed form, or a sum that begins with l.
func posteriorRows(e *ensemble, v *variant, l *experts.FoldIn, made *updates.Candidate) *updates.PosteriorRows {
	r := &updates.PosteriorRows{Learner: l, Steady: v.nonForgetting(e.common), Sum: made.Sum,
		Loadings: made.Folded.Loadings(), Outputs: e.target.Outputs(), Linear: 1}
	if made.Folded.Separate {
		r.Linear = r.Outputs
	}
	return r
}
