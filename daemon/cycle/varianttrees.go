package cycle

import (
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// treesVariant is boosted trees. Deltas bring them whole where they were fitted anew.
var treesVariant = variant{
	name:   "update_trees",
	doc:    "boosted trees on numbers and names, as they were last fitted; numeric fields, up to ten outputs",
	part:   isPart(experts.PartBoosted),
	reason: "; boosted trees, which have predicted better",
	apart:  true,
	isHeld: func(m *config.Model) bool {
		s, err := experts.SettingOf(m)
		return err == nil && len(m.Schema.Categorical)+len(m.Schema.Multi) > 0 &&
			experts.KindOf(experts.PartBoosted).Applies(s)
	},
	candidate: func(e *ensemble, _ *variant, made *candidates, _ bool) (of updates.Candidate) {
		b := e.expertOf(experts.PartBoosted)
		if b == nil || b.Asleep || e.champion.Popular != nil || b.Target.Link != e.target.Link ||
			b.Target.Outputs() != e.target.Outputs() {
			return of
		}
		l, ok := b.Learner.(*experts.Boosted)
		if !ok {
			return of
		}
		v := made[mixture.FormFoldIn].Vocab
		if v == nil {
			v = e.champion.Vocabulary
		}
		of.Model, of.Vocab = l.Freeze(v, e.champion.Model.Kernel)
		of.NoFoldIn = "the update is made of boosted trees, which have no posterior"
		return of
	},
	follow: func(e *ensemble, v *variant, _ *updates.DeltaStream, made *updates.Candidate) *updates.DeltaEncoder {
		l, ok := v.learner(e).(*experts.Boosted)
		if !ok {
			return nil
		}
		rows := updates.NewTreesRows(l, &made.FixedModel)
		return &updates.DeltaEncoder{Learner: l, Source: new(updates.Source), Rows: rows}
	},
}
