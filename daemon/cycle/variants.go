package cycle

import (
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// partOf returns the part of the mixture that a variant is made of.
func (s *common) partOf(f mixture.Variant) string {
	if f == mixture.FormMixed && !experts.HasGaussian(s.config) {
		f = mixture.FormFoldIn
	}
	return mixture.FormParts[f]
}

// chooseVariant has the race choose what updates are made of. c.mu is held.
func (u *publisher) chooseVariant(there func(mixture.Variant) bool) {
	u.reportMu.Lock()
	defer u.reportMu.Unlock()
	u.race.Choose(there)
}

// candidates returns the live model in every variant. next is set for an update that is about to be made. c.mu is held,
// and there is a champion.
func (e *ensemble) candidates(next bool) (all [mixture.NumForms]updates.Candidate) {
	for f := range mixture.NumForms {
		l, target := e.variantLearner(f)
		switch f {
		case mixture.FormNames:
			all[f] = e.candidateOfPairs(l, all[mixture.FormFoldIn].Vocab)
		case mixture.FormGoing:
			all[f] = e.extrapolated(l, all[mixture.FormNewton])
		case mixture.FormBlend:
			all[f] = e.candidateOfStack(all[mixture.FormFoldIn].Vocab, next)
		case mixture.FormMixed:
			if _, ok := l.(*experts.FoldIn); ok && e.nonForgetting != nil {
				all[f] = e.candidate(f, l, target, nil, next)
			}
		default:
			all[f] = e.candidate(f, l, target, e.nonForgettingIn(f), next)
		}
		if m := all[f].Model; f != mixture.FormFoldIn && m != nil && !m.IsFinite() {
			all[f] = updates.Candidate{}
		}
	}
	if popular := e.champion.Popular; popular != nil {
		if len(e.popular.Names) > 0 { // else others observe the choices
			popular = e.popular.Weights().As(popular)
		}
		for f := range all {
			all[f].Popular = popular
		}
	}
	return all
}

// nonForgettingIn returns the fields whose names forget nothing in a variant, nil for none.
func (s *common) nonForgettingIn(form mixture.Variant) []bool {
	if form == mixture.FormFoldIn || form == mixture.FormNumbers {
		return s.nonForgetting
	}
	return nil
}

// variantLearner returns the learner of a variant and its target, or nil. c.mu is held.
func (e *ensemble) variantLearner(form mixture.Variant) (experts.Learner, *encode.Target) {
	part := e.partOf(form)
	if part == mixture.FormParts[mixture.FormFoldIn] || form == mixture.FormBlend {
		return e.learner, e.target
	}
	if b := e.expertOf(part); b != nil {
		return b.Learner, b.Target
	}
	return nil, nil
}

// candidate returns what the learner of a variant has learned of a target, as levels if the target treats levels as
// numbers. The result is empty if versions cannot hold it. steady are the fields whose rows a closed-form fold-in has
// without forgetting, next is that of candidates.
func (e *ensemble) candidate(
	form mixture.Variant,
	l experts.Learner,
	target *encode.Target,
	steady []bool,
	next bool,
) (of updates.Candidate) {
	limit := e.config.Train.MaxFeatures
	switch l := l.(type) {
	case *experts.FoldIn:
		numbers := target.Link != e.target.Link
		if numbers && e.champion.Link == nil {
			return of
		}
		if !numbers {
			of.Folded, of.Vocab = l.Live(limit, steady)
		} else {
			of.Link = e.linkOf(e.expertOf(e.partOf(form)), next)
			of.Sum = &mixture.LinearCombination{Likelihood: e.target.Likelihood, Constant: of.Link.Threshold,
				Parts: []mixture.Term{{Learner: l, Factor: -of.Link.Slope, Steady: steady}}}
			of.Vocab = l.Vocab.With(l.Slots, limit)
			of.Folded = of.Sum.State(of.Vocab)
		}
		of.Model = of.Folded.Model()
	case *experts.Newton: // which knows nothing of names
		if v := e.champion.Vocabulary; len(v.Names) == 0 && target.Link == e.target.Link &&
			target.Outputs() == e.target.Outputs() {
			of.Model, of.Vocab = l.Freeze(v, e.champion.Model.Kernel)
		}
	case experts.FoldInLearner:
		of.Model, of.Vocab = l.Model(limit)
	}
	return of
}

// extrapolated returns the variant of Newton's learner with extrapolated weights, given that with its current weights.
// With deltas, which encode the current weights, it returns no candidate.
func (s *common) extrapolated(l experts.Learner, now updates.Candidate) updates.Candidate {
	n, ok := l.(*experts.Newton)
	if !ok || now.Model == nil || n.Before == nil || s.config.Publish.Deltas.Every > 0 {
		return updates.Candidate{}
	}
	now.Model = n.Frozen(n.Extrapolated(), s.champion.Vocabulary, s.champion.Model.Kernel)
	return now
}

// markNewton keeps the weights of Newton's learner for the next update.
func (e *ensemble) markNewton() {
	for _, b := range e.experts {
		if l, ok := b.Learner.(*experts.Newton); ok {
			l.Mark()
		}
	}
}

// candidateOfPairs returns the learner on names as an ordinary model over v and its pairs, nothing where its outputs
// are not those of versions.
func (s *common) candidateOfPairs(l experts.Learner, v *encode.Vocabulary) (of updates.Candidate) {
	if l, ok := l.(*experts.Pairwise); ok && l.Label == nil {
		of.Model, of.Vocab = l.Freeze(v, s.champion.Model.Kernel, s.config.Train.MaxFeatures)
		of.FoldIn = l.FoldIn(s.config)
	}
	return of
}
