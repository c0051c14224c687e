package cycle

import (
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// pairwiseVariant is the learner on names as an ordinary model over the names of the fold-in and its pairs.
var pairwiseVariant = variant{
	name:   "name_pairs",
	doc:    "names and pairs of names, without interactions; binary labels",
	part:   isPart(experts.PartNames),
	reason: "; that of names and pairs of names without interactions, which has predicted better",
	isHeld: func(m *config.Model) bool {
		s, err := experts.SettingOf(m)
		return err == nil && s.Target.Task == event.Binary && experts.KindOf(experts.PartNames).Applies(s)
	},
	candidate: func(e *ensemble, v *variant, made *candidates, _ bool) (of updates.Candidate) {
		l, ok := v.learner(e).(*experts.Pairwise)
		if ok && l.Label == nil { // its outputs are those of versions
			v := made[mixture.FormFoldIn].Vocab
			of.Model, of.Vocab = l.Freeze(v, e.champion.Model.Kernel, e.config.Train.MaxFeatures)
			of.FoldIn = l.FoldIn(e.config)
		}
		return of
	},
	follow: func(e *ensemble, v *variant, of *updates.DeltaStream, made *updates.Candidate) *updates.DeltaEncoder {
		l, ok := v.learner(e).(*experts.Pairwise)
		if !ok {
			return nil
		}
		rows := updates.NewNamesRows(l, made.Vocab, e.config.Publish.Deltas.MaxRows)
		return &updates.DeltaEncoder{Learner: l, Source: e.namesOf(of), Rows: rows}
	},
}
