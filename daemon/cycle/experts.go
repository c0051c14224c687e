package cycle

import (
	"slices"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
)

// expertNames returns the names of the experts that a model has, whether or not they predict yet.
func (e *ensemble) expertNames() (names []string) {
	if experts.HasGaussian(e.config) {
		names = append(names, experts.PartGaussian)
	}
	if _, ok := e.learner.(*experts.FoldIn); ok && e.config.Train.FoldIn.Enabled &&
		!e.config.LeavesOut(experts.PartBefore) {
		names = append(names, experts.PartBefore)
	}
	for _, expert := range e.experts {
		if expert.Lasting {
			names = append(names, expert.Name)
		}
	}
	return names
}

// onNumbers returns the experts of a model with numeric fields, which learn from the first event on.
func (e *ensemble) onNumbers() (all []*experts.Expert) {
	m, d := e.config, len(e.schema.Numeric)
	if d == 0 || !m.Train.FoldIn.Enabled || !mixture.HasProbabilities(e.target) {
		return nil
	}
	t := e.target
	if t.IsNumeric() {
		t = experts.GaussianTarget(t)
	}
	add := func(name string, make func() experts.Learner) {
		if m.LeavesOut(name) {
			return
		}
		b := experts.NewExpert(name, t, make())
		b.Lasting = true
		all = append(all, b)
	}
	limit := m.Train.FoldIn.MaxRows
	if d*t.Outputs() <= experts.MaxAdagradWeights {
		adagrad := func(recent bool) func() experts.Learner {
			return func() experts.Learner { return experts.NewAdaGrad(e.numbers, &e.schema, t, limit, recent) }
		}
		add(experts.PartAdagrad, adagrad(false))
		if t.Outputs() <= experts.MaxRecent {
			add(experts.PartRecent, adagrad(true))
		}
	}
	if experts.NewtonInputs(d)*t.Outputs() <= experts.MaxNewtonWeights {
		add(experts.PartNewton, func() experts.Learner { return experts.NewNewton(e.numbers, t) })
	}
	add(experts.PartNeighbours, func() experts.Learner {
		return experts.NewNeighbours(e.numbers, t, len(e.schema.Categorical))
	})
	return all
}

// onPairwise returns the expert of a model of binary labels on names, which learns from the first event on.
func (s *common) onPairwise() []*experts.Expert {
	if !s.config.Train.FoldIn.Enabled || !experts.HasPairwise(&s.schema, s.target.Link) ||
		s.config.LeavesOut(experts.PartNames) {
		return nil
	}
	t := s.target
	if t.IsNumeric() {
		t = experts.GaussianTarget(t)
	}
	b := experts.NewExpert(experts.PartNames, t, experts.NewPairwise(&s.schema, t, s.config.Train.FoldIn.MaxRows))
	b.Lasting = true
	return []*experts.Expert{b}
}

// newExperts returns the experts that are made on a champion, which may be nil, and the lasting ones of last.
func (s *common) newExperts(ch *fitted.Fitted, last []*experts.Expert) (all []*experts.Expert) {
	for _, l := range last {
		if l.Lasting && l.HasScalesOf(ch) {
			all = append(all, l)
		}
	}
	if experts.HasGaussian(s.config) && (ch == nil || ch.Gaussian != nil) {
		target := experts.GaussianTarget(s.target)
		var base *fitted.Fitted
		if ch != nil {
			base = &fitted.Fitted{Vocabulary: ch.Vocabulary, Posterior: ch.Gaussian}
		}
		l := experts.NewFoldIn(s.config, &s.schema, target, base)
		for _, before := range last {
			if p, ok := before.Learner.(*experts.FoldIn); ok && before.Name == experts.PartGaussian {
				l.FoldIn.InheritLosses(p.FoldIn)
			}
		}
		b := experts.NewExpert(experts.PartGaussian, target, l)
		b.Recent = new(encode.RecentLevels)
		all = append(all, b)
	}
	return all
}

// carryOver returns the experts that accompany the fold-in on the next champion, given those that were made for it.
// For a while after names have changed, the present fold-in remains as an expert, for ordinal labels the Gaussian one:
// most rows of a refit are from before the change. Without a refit it has no vocabulary for updates, and with other
// scales of numbers it cannot be summed with the next one: then it is dropped.
func (c *Cycle) carryOver(ch *fitted.Fitted, others []*experts.Expert) []*experts.Expert {
	last := c.ensemble.expertOf(experts.PartGaussian)
	if next := experts.ExpertOf(others, experts.PartGaussian); last != nil && next != nil {
		next.Recent = last.Recent.Clone()
	}
	isBefore := func(b *experts.Expert) bool { return b.Name == experts.PartBefore }
	if !c.watch.drift.Lasts() || c.config.LeavesOut(experts.PartBefore) {
		return slices.DeleteFunc(others, isBefore)
	}
	present, ok := c.ensemble.learner.(*experts.FoldIn)
	if !ok || present.Vocab == nil || slices.ContainsFunc(others, isBefore) {
		return others
	}
	before, was := experts.NewExpert(experts.PartBefore, c.target, present), mixture.FormFoldIn
	if !before.HasScalesOf(ch) {
		return others
	}
	if last != nil {
		before, was = experts.NewExpert(experts.PartBefore, last.Target, last.Learner), mixture.FormNumbers
		before.Recent, before.Link = last.Recent, last.Link
	}
	before.Lasting = true
	c.publisher.race.CarryOver(was)
	c.ensemble.stacked.CarryOver(was)
	return append(others, before)
}

// relink has an update that is about to be made say of numbers what the last events say. c.mu is held, and there is a
// champion.
func (e *ensemble) relink() {
	for _, b := range e.experts {
		if b.Recent != nil && e.champion.Link != nil {
			b.Next = b.Recent.Link(e.champion.Link)
		}
	}
}

// linkOf returns what a number is for the levels: in what is live, or, with next, in an update that is about to be
// made. c.mu is held, and there is a champion.
func (s *common) linkOf(b *experts.Expert, next bool) *encode.LevelLink {
	switch {
	case next:
		return b.Next
	case b.Link != nil:
		return b.Link
	}
	return s.champion.Link
}

// expertOf returns that of a name, nil without. c.mu is held.
func (e *ensemble) expertOf(name string) *experts.Expert { return experts.ExpertOf(e.experts, name) }
