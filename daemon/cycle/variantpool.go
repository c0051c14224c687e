package cycle

import (
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// pooledVariant is the sum of other variants that PooledUpdate fits.
var pooledVariant = variant{
	name:   "update_pool",
	doc:    "a sum of the fold-in, Newton's, AdaGrad's, naive Bayes and boosted trees; classes and numbers",
	part:   isPart(experts.PartBlend),
	reason: "; a sum of variants, which has predicted better than each",
	isHeld: func(m *config.Model) bool {
		s, err := experts.SettingOf(m)
		return err == nil && mixture.IsPooled(s.Target) && m.ChosenField() < 0 &&
			(adagradVariant.isHeld(m) || bayesVariant.isHeld(m) || treesVariant.isHeld(m))
	},
	candidate: func(e *ensemble, _ *variant, made *candidates, next bool) (of updates.Candidate) {
		if e.pooled == nil || made[mixture.FormFoldIn].Model == nil || e.champion.Popular != nil {
			return of
		}
		w := e.pooled.Used
		if next {
			for _, newton := range []bool{false, true} {
				sum := updates.NewPooledSum(made, newton)
				e.pooled.LeaveOut(newton, func(f mixture.Variant) bool { return made[f].Model != nil && !sum.Has(f) })
			}
			newton := e.pooled.PrefersNewton()
			w = e.pooled.Weights(newton, updates.NewPooledSum(made, newton).Has)
		} else if w != nil {
			w = e.pooledAsDeltas(made, w)
		}
		if w == nil {
			return of
		}
		of.Pooled = &updates.PooledForms{PooledWeights: w, Of: made}
		if of.Model, of.Vocab = updates.NewPooledSum(made, w.Newton).Of(w); of.Model == nil {
			return updates.Candidate{}
		}
		of.NoFoldIn = "the update is a sum of variants, which has no posterior"
		return of
	},
	follow: followPooled,
}

// pooledAsDeltas returns the weights that deltas of the newest update bring, which was made by w.
func (e *ensemble) pooledAsDeltas(made *candidates, w *mixture.PooledWeights) *mixture.PooledWeights {
	base, has := &made[mixture.FormFoldIn], updates.NewPooledSum(made, w.Newton).Has
	vectors := base.Model.NumBasis
	if w.Factors[0] == 0 {
		vectors = 0
	}
	if !e.followsFactors(int(base.Vocab.NumNames()), base.Model.NumOutputs, vectors) {
		return w.Among(has)
	}
	return e.pooled.Weights(w.Newton, func(f mixture.Variant) bool { return e.pooled.Has(f) && has(f) })
}

// followsFactors reports whether deltas bring the factors of a sum with so many names, outputs and vectors: with all of
// its rows.
func (s *common) followsFactors(names, outputs, vectors int) bool {
	return names <= s.config.Publish.Deltas.MaxRows && updates.HasFewRows(names, outputs, vectors)
}

// pooledOf are the variants of mixture.PooledForms.
var pooledOf = [len(mixture.PooledForms)]*variant{&foldInVariant, &newtonVariant, &adagradVariant, &bayesVariant,
	&treesVariant}

// followPooled returns the encoder of a sum: of what its variants have, by the weights as they are at each delta where
// rows are few, else by those of the update.
func followPooled(e *ensemble, v *variant, of *updates.DeltaStream, made *updates.Candidate) *updates.DeltaEncoder {
	w := made.Pooled
	sum := updates.NewPooledSum(w.Of, w.Newton)
	rows := &updates.SumRows{Constant: w.Constant, Map: made.Model.Map, Names: made.Vocab.Names,
		Columns: made.Vocab.NumColumns() - int(made.Vocab.NumNames()), Vectors: made.Model.NumBasis}
	var forms []int // of the parts, by their places in mixture.PooledForms
	for i, f := range mixture.PooledForms {
		part := &w.Of[f]
		if part.Model == nil || w.Factors[i] == 0 {
			continue
		}
		x := pooledOf[i].follow(e, pooledOf[i], of, part)
		if x == nil {
			return nil
		}
		if part.Model.NumBasis > 0 && rows.Vectors > 0 {
			rows.Weights = part.Model.Weights
		}
		forms = append(forms, i)
		rows.Parts = append(rows.Parts, updates.NewSumPart(x.Rows, w.Factors[i], max(sum.Offsets[f], 0)*made.Model.NumOutputs,
			sum.Scale(f), part.Vocab.Trees))
	}
	rows.Current = func(names int) (constant, factors []float64) {
		if !e.followsFactors(names, made.Model.NumOutputs, rows.Vectors) {
			return nil, nil
		}
		now := e.pooled.Weights(w.Newton, func(f mixture.Variant) bool {
			return slices.ContainsFunc(forms, func(i int) bool { return mixture.PooledForms[i] == f })
		})
		if now == nil {
			return nil, nil
		}
		for _, i := range forms {
			factors = append(factors, now.Factors[i])
		}
		return now.Constant, factors
	}
	return &updates.DeltaEncoder{Learner: v.learner(e), Source: e.namesOf(of), Rows: rows}
}

// learnPooled has the weights of the sum follow what the variants of the newest update have lost, and returns what the
// sum by the weights before would have lost, NaN without.
func (e *ensemble) learnPooled(s *updates.Score, ev *event.Event) (loss float64) {
	m := e.target.Outputs()
	if e.pooled == nil || len(s.Candidates) <= 2*m {
		return math.NaN()
	}
	outputs := e.pooled.Learn(s.Candidates[2*m:], ev.Label, e.targets)
	if outputs == nil {
		return math.NaN()
	}
	o := evaluate.Outcome(e.target, ev, outputs, e.targets)
	return o.Judged(e.target.IsNumeric())
}

// isPooled reports whether the newest update has a part of the mixture in its sum. c.mu or reportMu is held.
func (e *ensemble) isPooled(part string) bool {
	for i, f := range mixture.PooledForms {
		if e.pooled.Has(f) && pooledOf[i].part(e.config) == part {
			return true
		}
	}
	return false
}

// neededPart returns the part that updates are made of, the trees of a sum that has some.
func (c *Cycle) neededPart() string {
	if c.publisher.race.Chosen == mixture.FormPool && c.ensemble.pooled.Has(mixture.FormTrees) {
		return experts.PartBoosted
	}
	return c.partOf(c.publisher.race.Chosen)
}

// isChanged reports whether consumers lose so much more than they used to that what was better before says nothing.
// Where labels come in runs, what has followed the last one is better for a while, and worse after it. Where events
// have names, a flood of some with labels of others looks alike: what was better before counts.
func (u *publisher) isChanged() bool { return u.hasNoNames() && u.hasChanged() }

// hasChanged reports whether consumers lose much more than they used to. What they lost on the first events of a flood,
// before its copies were left out, is no change: it is forgotten. c.mu is held.
func (u *publisher) hasChanged() bool {
	if u.guard.IsFlooded() {
		u.behind = u.behind.Reset()
	}
	return u.behind.HasChanged()
}

// hasNoNames reports whether events have no names.
func (s *common) hasNoNames() bool { return len(s.schema.Categorical)+len(s.schema.Multi) == 0 }
