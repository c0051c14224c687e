package cycle

import (
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// The variants of linear learners, models of names, numbers and their products without vectors.
var (
	adagradVariant = linearVariant(
		"update_adagrad", experts.PartAdagrad,
		"AdaGrad on numbers, their products and names, without interactions; numeric fields",
		"; AdaGrad on numbers, their products and names, which has predicted better",
		"the update is made of AdaGrad's learner, which has no posterior",
	)
	bayesVariant = linearVariant(
		"update_naive_bayes", experts.PartBayes,
		"what each name says of the classes, without interactions; classes",
		"; naive Bayes on names, which has predicted better",
		"the update is made of naive Bayes, which has no posterior",
	)
)

// linearVariant returns the variant of a linear expert. noFoldIn says why its versions have no fold-in.
func linearVariant(name, part, doc, reason, noFoldIn string) variant {
	return variant{
		name:   name,
		doc:    doc,
		part:   isPart(part),
		reason: reason,
		apart:  true,
		isHeld: func(m *config.Model) bool {
			s, err := experts.SettingOf(m)
			return err == nil && len(m.Schema.Categorical)+len(m.Schema.Multi) > 0 && experts.KindOf(part).Applies(s)
		},
		candidate: func(e *ensemble, _ *variant, made *candidates, _ bool) (of updates.Candidate) {
			b := e.expertOf(part)
			if b == nil || b.Target.Link != e.target.Link || b.Target.Outputs() != e.target.Outputs() {
				return of
			}
			l, ok := b.Learner.(experts.Linear)
			if !ok {
				return of
			}
			v := made[mixture.FormFoldIn].Vocab
			if v == nil {
				v = e.champion.Vocabulary
			}
			of.Model, of.Vocab = l.Freeze(v, e.champion.Model.Kernel)
			of.NoFoldIn = noFoldIn
			return of
		},
		follow: func(e *ensemble, v *variant, of *updates.DeltaStream, made *updates.Candidate) *updates.DeltaEncoder {
			l, ok := v.learner(e).(experts.Linear)
			if !ok {
				return nil
			}
			rows := &updates.LinearRows{Learner: l, Numbers: e.numbers, Vocab: made.Vocab,
				Kernel: e.champion.Model.Kernel}
			return &updates.DeltaEncoder{Learner: l, Source: of.SourceOf(l.Names()), Rows: rows}
		},
	}
}
