package cycle

import (
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// partOf returns the part of the mixture that a form is of.
func (c *Cycle) partOf(f mixture.Variant) string {
	if f == mixture.FormMixed && !experts.HasGaussian(c.config) {
		f = mixture.FormFoldIn
	}
	return mixture.FormParts[f]
}

// chooseForm has the race choose what updates are made of. c.mu is held.
func (c *Cycle) chooseVariant(there func(mixture.Variant) bool) {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	c.race.Choose(there)
}

// candidates returns the live model in every form, with next for an update that is about to be made. c.mu is held, and
// there is a champion.
func (c *Cycle) candidates(next bool) (all [mixture.NumForms]updates.Candidate) {
	for f := range mixture.NumForms {
		l, target := c.variantLearner(f)
		switch f {
		case mixture.FormNames:
			all[f] = c.candidateOfPairs(l, all[mixture.FormFoldIn].Vocab)
		case mixture.FormGoing:
			all[f] = c.extrapolated(l, all[mixture.FormNewton])
		case mixture.FormBlend:
			all[f] = c.candidateOfStack(all[mixture.FormFoldIn].Vocab, next)
		case mixture.FormMixed:
			if _, ok := l.(*experts.FoldIn); ok && c.nonForgetting != nil {
				all[f] = c.candidate(f, l, target, nil, next)
			}
		default:
			all[f] = c.candidate(f, l, target, c.nonForgettingIn(f), next)
		}
		if m := all[f].Model; f != mixture.FormFoldIn && m != nil && !m.IsFinite() {
			all[f] = updates.Candidate{}
		}
	}
	if popular := c.champion.Popular; popular != nil {
		if len(c.popular.Names) > 0 { // else others observe the choices
			popular = c.popular.Weights()
		}
		for f := range all {
			all[f].Popular = popular
		}
	}
	return all
}

// nonForgettingIn returns the fields whose names forget nothing in a form, nil for none.
func (c *Cycle) nonForgettingIn(form mixture.Variant) []bool {
	if form == mixture.FormFoldIn || form == mixture.FormNumbers {
		return c.nonForgetting
	}
	return nil
}

// variantLearner returns the learner that a form is of and its target, nil without. c.mu is held.
func (c *Cycle) variantLearner(form mixture.Variant) (experts.Learner, *encode.Target) {
	part := c.partOf(form)
	if part == mixture.FormParts[mixture.FormFoldIn] || form == mixture.FormBlend {
		return c.learner, c.target
	}
	if b := c.expertOf(part); b != nil {
		return b.Learner, b.Target
	}
	return nil, nil
}

// candidate returns what the learner of a form has learned of a target, as one of levels where the target takes these
// for numbers; nothing where versions cannot
// hold it. steady are the fields whose rows a fold-in in closed form has without forgetting, next is that of forms.
func (c *Cycle) candidate(
	form mixture.Variant,
	l experts.Learner,
	target *encode.Target,
	steady []bool,
	next bool,
) (of updates.Candidate) {
	limit := c.config.Train.MaxFeatures
	switch l := l.(type) {
	case *experts.FoldIn:
		numbers := target.Link != c.target.Link
		if numbers && c.champion.Link == nil {
			return of
		}
		if !numbers {
			of.Folded, of.Vocab = l.Live(limit, steady)
		} else {
			of.Link = c.linkOf(c.expertOf(c.partOf(form)), next)
			of.Sum = &mixture.LinearCombination{Likelihood: c.target.Likelihood, Constant: of.Link.Threshold,
				Parts: []mixture.Term{{Learner: l, Factor: -of.Link.Slope, Steady: steady}}}
			of.Vocab = l.Vocab.With(l.Slots, limit)
			of.Folded = of.Sum.State(of.Vocab)
		}
		of.Model = of.Folded.Model()
	case *experts.Newton: // which knows nothing of names
		if v := c.champion.Vocabulary; len(v.Names) == 0 && target.Link == c.target.Link &&
			target.Outputs() == c.target.Outputs() {
			of.Model, of.Vocab = l.Freeze(v, c.champion.Model.Kernel)
		}
	case experts.FoldInLearner:
		of.Model, of.Vocab = l.Model(limit)
	}
	return of
}

// extrapolated returns Newton's learner in the form that is where its weights are going, given the form as they are.
// There is none with deltas, which follow the
// weights themselves.
func (c *Cycle) extrapolated(l experts.Learner, now updates.Candidate) updates.Candidate {
	n, ok := l.(*experts.Newton)
	if !ok || now.Model == nil || n.Before == nil || c.config.Publish.Deltas.Every > 0 {
		return updates.Candidate{}
	}
	now.Model = n.Frozen(n.Extrapolated(), c.champion.Vocabulary, c.champion.Model.Kernel)
	return now
}

// markNewton keeps the weights of Newton's learner for the next update.
func (c *Cycle) markNewton() {
	for _, b := range c.experts {
		if l, ok := b.Learner.(*experts.Newton); ok {
			l.Mark()
		}
	}
}

// candidateOfPairs returns the learner on names as an ordinary model over v and its pairs, nothing where its outputs
// are not those of versions.
func (c *Cycle) candidateOfPairs(l experts.Learner, v *encode.Vocabulary) (of updates.Candidate) {
	if l, ok := l.(*experts.Pairwise); ok && l.Label == nil {
		of.Model, of.Vocab = l.Freeze(v, c.champion.Model.Kernel, c.config.Train.MaxFeatures)
		of.Told = l.FoldIn(c.config)
	}
	return of
}
