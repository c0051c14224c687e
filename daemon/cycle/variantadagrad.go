package cycle

import (
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// adagradVariant is the learner by AdaGrad as a model of linear weights and products of numbers.
var adagradVariant = variant{
	name:   "update_adagrad",
	doc:    "AdaGrad on numbers, their products and names, without interactions; numeric fields",
	part:   isPart(experts.PartAdagrad),
	reason: "; AdaGrad on numbers, their products and names, which has predicted better",
	isHeld: func(m *config.Model) bool {
		s, err := experts.SettingOf(m)
		return err == nil && len(m.Schema.Categorical)+len(m.Schema.Multi) > 0 &&
			experts.KindOf(experts.PartAdagrad).Applies(s)
	},
	candidate: func(e *ensemble, _ *variant, made *candidates, _ bool) (of updates.Candidate) {
		b := e.expertOf(experts.PartAdagrad)
		if b == nil || b.Target.Link != e.target.Link || b.Target.Outputs() != e.target.Outputs() {
			return of
		}
		l, ok := b.Learner.(*experts.AdaGrad)
		if !ok {
			return of
		}
		v := made[mixture.FormFoldIn].Vocab
		if v == nil {
			v = e.champion.Vocabulary
		}
		of.Model, of.Vocab = l.Freeze(v, e.champion.Model.Kernel)
		of.NoFoldIn = "the update is made of AdaGrad's learner, which has no posterior"
		return of
	},
	follow: func(e *ensemble, v *variant, of *updates.DeltaStream, made *updates.Candidate) *updates.DeltaEncoder {
		l, ok := v.learner(e).(*experts.AdaGrad)
		if !ok {
			return nil
		}
		rows := &updates.AdaGradRows{Learner: l, Vocab: made.Vocab, Kernel: e.champion.Model.Kernel}
		return &updates.DeltaEncoder{Learner: l, Source: of.SourceOf(l.Slots), Rows: rows}
	},
}
