package cycle

import (
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/baselines"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
)

// setting is what the experts of the model are made for. c.mu is held.
func (e *ensemble) setting() *experts.Setting {
	return &experts.Setting{Model: e.config, Schema: &e.schema, Target: e.target}
}

// baselineSetting is what the baselines of a model are made for.
func baselineSetting(s *experts.Setting) *baselines.Setting {
	by := -1
	if len(s.Model.Train.FoldIn.By) > 0 {
		by = slices.Index(s.Schema.Categorical, s.Model.Train.FoldIn.By[0])
	}
	return &baselines.Setting{
		Target:  s.Target,
		Fields:  len(s.Schema.Categorical),
		By:      by,
		Limit:   s.Model.Train.FoldIn.MaxRows,
		Without: s.Model.Without,
	}
}

// newExperts returns the experts that are made on a champion, which may be nil, and the lasting ones of last.
func (e *ensemble) newExperts(ch *fitted.Fitted, last []*experts.Expert) (all []*experts.Expert) {
	for _, l := range last {
		if l.Lasting && l.HasScalesOf(ch) {
			all = append(all, l)
		}
	}
	return append(all, e.setting().NewOn(ch, last)...)
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
	before, was := experts.NewExpert(experts.PartBefore, c.target, present), mixture.PartFoldIn
	if !before.HasScalesOf(ch) {
		return others
	}
	if last != nil {
		before, was = experts.NewExpert(experts.PartBefore, last.Target, last.Learner), experts.PartGaussian
		before.Recent, before.Link = last.Recent, last.Link
	}
	before.Lasting = true
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

// takeNumbers takes up an event in all scales of numbers.
func (e *ensemble) takeNumbers(ev *event.Event) {
	e.numbers.Take(ev)
	for _, x := range e.experts {
		x.Take(ev)
	}
}
