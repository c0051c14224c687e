package cycle

import (
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// The variants of Newton's learner, a model with its Fourier features and no vectors, which takes little memory.
var (
	newtonVariant = variant{
		name:   "update_newton",
		doc:    "Newton's on Fourier features, with its current weights; models without fields of names",
		part:   isPart(experts.PartNewton),
		apart:  true,
		reason: "; Newton's on Fourier features, which has predicted better",
		candidate: func(e *ensemble, _ *variant, _ *candidates, _ bool) (of updates.Candidate) {
			b := e.expertOf(experts.PartNewton)
			if b == nil {
				return of
			}
			l, ok := b.Learner.(*experts.Newton)
			if v := e.champion.Vocabulary; ok && len(v.Names) == 0 && b.Target.Link == e.target.Link &&
				b.Target.Outputs() == e.target.Outputs() {
				of.Model, of.Vocab = l.Freeze(v, e.champion.Model.Kernel)
			}
			return of
		},
		follow: func(e *ensemble, v *variant, of *updates.DeltaStream, made *updates.Candidate) *updates.DeltaEncoder {
			l, ok := v.learner(e).(*experts.Newton)
			if !ok {
				return nil
			}
			rows := &updates.NewtonRows{Learner: l, Vocab: e.champion.Vocabulary, Features: made.Vocab.Map,
				Kernel: e.champion.Model.Kernel}
			return &updates.DeltaEncoder{Learner: l, Source: e.namesOf(of), Rows: rows}
		},
	}
	// extrapolatedVariant has no encoder: deltas encode the current weights. With deltas there is no candidate.
	extrapolatedVariant = variant{
		name: "update_newton_extrapolated",
		doc: "the same with its weights moved on by half of what they have moved since the update before; " +
			"without deltas",
		part:   isPart(experts.PartNewton),
		apart:  true,
		reason: "; Newton's on Fourier features, where its weights are going, which has predicted better",
		candidate: func(e *ensemble, v *variant, made *candidates, _ bool) updates.Candidate {
			of := made[mixture.FormNewton]
			n, ok := v.learner(e).(*experts.Newton)
			if !ok || of.Model == nil || n.Before == nil || e.config.Publish.Deltas.Every > 0 {
				return updates.Candidate{}
			}
			of.Model = n.Frozen(n.Extrapolated(), e.champion.Vocabulary, e.champion.Model.Kernel)
			return of
		},
	}
)

// markNewton keeps the weights of Newton's learner for the next update.
func (e *ensemble) markNewton() {
	for _, b := range e.experts {
		if l, ok := b.Learner.(*experts.Newton); ok {
			l.Mark()
		}
	}
}
