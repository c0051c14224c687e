package cycle

import (
	"slices"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/baselines"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// variants are the forms in which the live model can become an update. To add one, write its value in a file of this
// package, its row here, and the constant of the row in package mixture.
var variants = [mixture.NumForms]variant{
	mixture.FormFoldIn:  foldInVariant,
	mixture.FormNumbers: gaussianVariant,
	mixture.FormNewton:  newtonVariant,
	mixture.FormGoing:   extrapolatedVariant,
	mixture.FormNames:   pairwiseVariant,
	mixture.FormAdaGrad: adagradVariant,
	mixture.FormBayes:   bayesVariant,
	mixture.FormTrees:   treesVariant,
	mixture.FormMixed:   mixedVariant,
	mixture.FormBlend:   blendVariant,
	mixture.FormPool:    pooledVariant,
}

// variant is what there is to say of one. Updates, deltas, reports and memory.parts know variants by this table alone.
type variant struct {
	// name is that of the variant, in documents and tests.
	name string
	// doc says what it is, for configs/docs/components.md.
	doc string
	// part returns the part of the mixture that it is made of.
	part func(m *config.Model) string
	// reason is what versions made of it say in addition; empty for the first.
	reason string
	// apart says that it is not made on the last refit.
	apart bool
	// steady says that only names of entities forget in it.
	steady bool
	// isHeld reports whether it may be held in addition to the first, as large as that; nil for never.
	isHeld func(m *config.Model) bool
	// candidate returns the live model in this form, given the variants before it in the table. The result is empty if
	// there is no such model, or versions cannot hold it. next is set for an update that is about to be made. c.mu is
	// held, and there is a champion.
	candidate func(e *ensemble, v *variant, made *candidates, next bool) updates.Candidate
	// follow returns an encoder of what changes after a candidate, nil where deltas cannot follow it. c.mu is held.
	follow func(e *ensemble, v *variant, of *updates.DeltaStream, made *updates.Candidate) *updates.DeltaEncoder
}

// candidates are those of all variants.
type candidates = [mixture.NumForms]updates.Candidate

// VariantDocs returns the names of the variants and what each is, for configs/docs/components.md.
func VariantDocs() (names, docs []string) {
	for f := range variants {
		names, docs = append(names, variants[f].name), append(docs, variants[f].doc)
	}
	return names, docs
}

// isPart returns the function of a variant that is made of one part.
func isPart(name string) func(*config.Model) string {
	return func(*config.Model) string { return name }
}

// NumVariants returns how many variants of an update may be held in addition to the fold-in, each as large as it:
// those of posteriors, and that of names, which has pairs as far as there is room.
func NumVariants(m *config.Model) (n int) {
	for f := range variants {
		if is := variants[f].isHeld; is != nil && is(m) {
			n++
		}
	}
	return n
}

// chooseVariant has the race choose what updates are made of, or takes the variant that consumers have come to be
// behind. c.mu is held.
func (u *publisher) chooseVariant(there func(mixture.Variant) bool) {
	u.reportMu.Lock()
	defer u.reportMu.Unlock()
	u.race.Chosen = u.race.Best(there)
	if f, is := u.behind.Best(u.race.Chosen, there); is && f != u.race.Chosen && u.isChanged() {
		u.race.Forget() // what was better before is not any more
		u.race.Chosen = f
	}
	// A sum whose factors deltas bring follows which of its parts is good, and takes the place of one that is not shown
	// to be better, where consumers would have updates of it. A fold-in of names stays: versions of it take histories.
	if f := u.race.Chosen; u.sumFollows && (variants[f].apart || u.hasNoNames()) &&
		slices.Contains(mixture.PooledForms[:], f) && there(mixture.FormPool) &&
		u.race.Pairs[mixture.FormPool][f].N >= updates.UpdateEvents &&
		u.race.Refits[mixture.FormPool].Prefers(false, variants[mixture.FormPool].apart) {
		if _, errors := u.race.Difference(f, mixture.FormPool); errors <= 1 {
			u.race.Chosen = mixture.FormPool
		}
	}
}

// prefersUpdates reports whether consumers should have updates rather than the last refit. c.mu is held.
func (u *publisher) prefersUpdates() bool {
	is := u.comparison.Prefers(u.updates, variants[u.race.Chosen].apart)
	if !is && u.isChanged() && u.behind.Lags[u.race.Chosen].IsLarge() {
		u.comparison.Forget()
		return true
	}
	return is
}

// candidates returns the live model in every variant. next is set for an update that is about to be made. c.mu is held,
// and there is a champion.
func (e *ensemble) candidates(next bool) (all [mixture.NumForms]updates.Candidate) {
	for f := range variants {
		if e.config.LeavesOut(variants[f].name) {
			continue
		}
		all[f] = variants[f].candidate(e, &variants[f], &all, next)
		if m := all[f].Model; f != int(mixture.FormFoldIn) && m != nil && !m.IsFinite() {
			all[f] = updates.Candidate{}
		}
	}
	if popular := e.champion.Popular; popular != nil {
		if len(e.popular.Names) > 0 { // else others observe the choices
			popular = e.popular.Weights().As(popular)
		}
		for f := range all {
			all[f].Popular = popular
		}
	}
	return all
}

// partOf returns the part of the mixture that a variant is made of.
func (s *common) partOf(f mixture.Variant) string { return variants[f].part(s.config) }

// nonForgetting returns the fields whose names forget nothing in a variant, nil for none.
func (v *variant) nonForgetting(s *common) []bool {
	if v.steady {
		return s.nonForgetting
	}
	return nil
}

// variantLearner returns the learner that a variant is made of, or nil. Of a sum it is the fold-in. c.mu is held.
func (e *ensemble) variantLearner(f mixture.Variant) experts.Learner { return variants[f].learner(e) }

func (v *variant) learner(e *ensemble) experts.Learner {
	part := v.part(e.config)
	if part == mixture.PartFoldIn || part == experts.PartBlend {
		return e.learner
	}
	if b := e.expertOf(part); b != nil {
		return b.Learner
	}
	return nil
}

// newDeltaEncoder returns an encoder of what changes after a variant of an update was made just now. It is nil if
// deltas cannot follow the variant. c.mu is held.
func (e *ensemble) newDeltaEncoder(of *updates.DeltaStream, f mixture.Variant,
	made *updates.Candidate) *updates.DeltaEncoder {
	if of.Of.PopularOnly {
		l := e.variantLearner(f)
		return &updates.DeltaEncoder{Learner: l, Source: new(updates.Source), Rows: updates.PopularRows{}}
	}
	if variants[f].follow == nil {
		return nil
	}
	return variants[f].follow(e, &variants[f], of, made)
}

// namesOf returns what lists the names that events touch: those of the fold-in, for encoders of learners without such a
// list. c.mu is held.
func (e *ensemble) namesOf(of *updates.DeltaStream) *updates.Source {
	switch l := e.learner.(type) {
	case *experts.FoldIn:
		return of.SourceOf(l.Slots)
	case *experts.Gradient:
		return of.SourceOf(l.Slots)
	}
	return nil
}

// Parts returns the names of all parts of the learner that config.Model.Without may leave out: experts, baselines and
// combinations by their names as parts of the mixture, variants of updates, choices of a refit, and that experts sleep.
// The fold-in cannot be left out.
func Parts() []string {
	parts := []string{mixture.PartRefit}
	for i := range experts.Kinds {
		parts = append(parts, experts.Kinds[i].Name)
	}
	for i := range baselines.Kinds {
		parts = append(parts, baselines.Kinds[i].Name)
	}
	parts = append(parts, mixture.PartStack, mixture.PartPool, mixture.PartCalibration, mixture.PartLevels)
	for f := range variants[1:] {
		parts = append(parts, variants[1+f].name)
	}
	return append(parts,
		task.ChoiceHalfLife, task.ChoiceFeatureMap, task.ChoiceClipping, task.ChoiceInteractions, task.ChoicePrecisions,
		task.ChoiceRestart, task.ChoiceStage, task.ChoiceHeldOut, experts.ChoiceSleep)
}
