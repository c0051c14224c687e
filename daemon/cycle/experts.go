package cycle

import (
	"slices"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
)

// expertNames returns the names of the companions that a model has, whether or not they predict yet.
func (c *Cycle) expertNames() (names []string) {
	if experts.HasGaussian(c.config) {
		names = append(names, experts.PartGaussian)
	}
	if _, ok := c.learner.(*experts.FoldIn); ok && c.config.Train.FoldIn.Enabled {
		names = append(names, experts.PartBefore)
	}
	for _, beside := range c.experts {
		if beside.Lasting {
			names = append(names, beside.Name)
		}
	}
	return names
}

// onNumbers returns the companions of a model with numeric fields, which learn from the first event on.
func (c *Cycle) onNumbers() (all []*experts.Expert) {
	m, d := c.config, len(c.schema.Numeric)
	if d == 0 || !m.Train.FoldIn.Enabled || !mixture.HasProbabilities(c.target) {
		return nil
	}
	t := c.target
	if t.IsNumeric() {
		t = experts.GaussianTarget(t)
	}
	add := func(name string, l experts.Learner) {
		b := experts.NewExpert(name, t, l)
		b.Lasting = true
		all = append(all, b)
	}
	limit := m.Train.FoldIn.MaxRows
	if d*t.Outputs() <= experts.MaxAdagradWeights {
		add(experts.PartAdagrad, experts.NewAdaGrad(c.numbers, &c.schema, t, limit, false))
		if t.Outputs() <= experts.MaxRecent {
			add(experts.PartRecent, experts.NewAdaGrad(c.numbers, &c.schema, t, limit, true))
		}
	}
	if experts.NewtonInputs(d)*t.Outputs() <= experts.MaxNewtonWeights {
		add(experts.PartNewton, experts.NewNewton(c.numbers, t))
	}
	add(experts.PartNeighbours, experts.NewNeighbours(c.numbers, t, len(c.schema.Categorical)))
	return all
}

// onPairwise returns the companion of a model of binary labels on names, which learns from the first event on.
func (c *Cycle) onPairwise() []*experts.Expert {
	if !c.config.Train.FoldIn.Enabled || !experts.HasPairwise(&c.schema, c.target.Link) {
		return nil
	}
	t := c.target
	if t.IsNumeric() {
		t = experts.GaussianTarget(t)
	}
	b := experts.NewExpert(experts.PartNames, t, experts.NewPairwise(&c.schema, t, c.config.Train.FoldIn.MaxRows))
	b.Lasting = true
	return []*experts.Expert{b}
}

// newExperts returns those that stand on a champion, nil before there is one, and the lasting ones of last.
func (c *Cycle) newExperts(ch *fitted.Fitted, last []*experts.Expert) (all []*experts.Expert) {
	for _, l := range last {
		if l.Lasting && l.HasScalesOf(ch) {
			all = append(all, l)
		}
	}
	if experts.HasGaussian(c.config) && (ch == nil || ch.Gaussian != nil) {
		target := experts.GaussianTarget(c.target)
		var base *fitted.Fitted
		if ch != nil {
			base = &fitted.Fitted{Vocabulary: ch.Vocabulary, Posterior: ch.Gaussian}
		}
		l := experts.NewFoldIn(c.config, &c.schema, target, base)
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

// goOn returns the companions beside a fold-in on a champion that is about to take the place of the present one. For a
// while after names have changed the present one goes on as a companion, for ordinal labels that of numbers: most rows
// of a refit are from before the change. One that stands on no refit has no vocabulary that updates could be made over,
// and one that has other scales of numbers makes no sum with the next.
func (c *Cycle) carryOver(ch *fitted.Fitted, companions []*experts.Expert) []*experts.Expert {
	last := c.expertOf(experts.PartGaussian)
	if next := experts.ExpertOf(companions, experts.PartGaussian); last != nil && next != nil {
		next.Recent = last.Recent.Clone()
	}
	isBefore := func(b *experts.Expert) bool { return b.Name == experts.PartBefore }
	if !c.drift.Lasts() {
		return slices.DeleteFunc(companions, isBefore)
	}
	present, ok := c.learner.(*experts.FoldIn)
	if !ok || present.Vocab == nil || slices.ContainsFunc(companions, isBefore) {
		return companions
	}
	before, was := experts.NewExpert(experts.PartBefore, c.target, present), mixture.FormFoldIn
	if !before.HasScalesOf(ch) {
		return companions
	}
	if last != nil {
		before, was = experts.NewExpert(experts.PartBefore, last.Target, last.Learner), mixture.FormNumbers
		before.Recent, before.Link = last.Recent, last.Link
	}
	before.Lasting = true
	c.race.CarryOver(was)
	c.stacked.CarryOver(was)
	return append(companions, before)
}

// relink has an update that is about to be made say of numbers what the last events say. c.mu is held, and there is a
// champion.
func (c *Cycle) relink() {
	for _, b := range c.experts {
		if b.Recent != nil && c.champion.Link != nil {
			b.Next = b.Recent.Link(c.champion.Link)
		}
	}
}

// linkOf returns what a number is for the levels: in what is live, or, with next, in an update that is about to be
// made. c.mu is held, and there is a champion.
func (c *Cycle) linkOf(b *experts.Expert, next bool) *encode.LevelLink {
	switch {
	case next:
		return b.Next
	case b.Link != nil:
		return b.Link
	}
	return c.champion.Link
}

// expertOf returns that of a name, nil without. c.mu is held.
func (c *Cycle) expertOf(name string) *experts.Expert { return experts.ExpertOf(c.experts, name) }
