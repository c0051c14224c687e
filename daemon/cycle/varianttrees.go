package cycle

import (
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// treesVariant is boosted trees as they are when the update is made. Deltas bring names, but no other trees.
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
	candidate: func(e *ensemble, _ *variant, made *candidates, next bool) (of updates.Candidate) {
		b := e.expertOf(experts.PartBoosted)
		if b == nil || e.champion.Popular != nil || b.Target.Link != e.target.Link ||
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
		if next && of.Model != nil {
			l.Keep(of.Vocab.Trees)
		}
		of.NoFoldIn = "the update is made of boosted trees, which have no posterior"
		return of
	},
	follow: func(e *ensemble, v *variant, _ *updates.DeltaStream, made *updates.Candidate) *updates.DeltaEncoder {
		rows := updates.FixedRows{Bias: slices.Clone(made.Model.Bias)}
		return &updates.DeltaEncoder{Learner: v.learner(e), Source: new(updates.Source), Rows: rows}
	},
}

// treesAsk reports whether consumers should get a whole update because their trees have become much worse than those of
// the live model. c.mu is held.
func (e *ensemble) treesAsk(has *updates.Served) bool {
	l, ok := treesVariant.learner(e).(*experts.Boosted)
	return ok && has != nil && l.HasMoved(has.Vocab.Trees)
}

// treesBehind is how far consumers are behind the trees of the newest update, where the guard has held these back.
type treesBehind struct {
	lag   experts.Lag
	wait  float64 // events between two times that an update is asked for
	since float64 // events since the last time
}

// firstWait is the first of the waits, each of which is twice the last. Chosen by hand.
const firstWait = 100

// add takes up the losses of what consumers have and of the newest update with trees, which may not be there. Those of
// numbers are not bounded.
func (b *treesBehind) add(s *updates.Score, isNumber bool) {
	trees, has, most := s.Forms[mixture.FormTrees], s.Published.Loss, experts.LagMost
	if isNumber {
		has, most = s.Published.Square, math.Inf(1)
	}
	if b.since++; !math.IsNaN(trees) && !math.IsNaN(has) {
		b.lag.Add(has, trees, most)
	}
}

// asks reports whether an update is asked for once more, given the variant of the newest one.
func (b *treesBehind) asks(of mixture.Variant) bool {
	if of == mixture.FormTrees {
		b.wait = firstWait
		return false
	}
	if b.since < b.wait || !b.lag.IsLarge() {
		return false
	}
	b.wait, b.since = max(2*b.wait, firstWait), 0
	return true
}
