package cycle

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"gonum.org/v1/gonum/floats"
)

// pooledVariant is the sum of other variants that PooledUpdate fits. Deltas bring rows with the weights that it has.
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
			w = w.Among(updates.NewPooledSum(made, w.Newton).Has)
		}
		if w == nil {
			return of
		}
		of.Pooled = &updates.PooledForms{PooledWeights: w, Of: made}
		if of.Model, of.Vocab = updates.NewPooledSum(made, w.Newton).Of(w); of.Model == nil {
			return updates.Candidate{}
		}
		of.NoFoldIn = "the update is a sum of variants, which has no posterior"
		if l, ok := treesVariant.learner(e).(*experts.Boosted); ok && next {
			l.MarkSum(of.Vocab.Trees)
		}
		return of
	},
	follow: followPooled,
}

// pooledOf are the variants of mixture.PooledForms.
var pooledOf = [len(mixture.PooledForms)]*variant{&foldInVariant, &newtonVariant, &adagradVariant, &bayesVariant,
	&treesVariant}

// followPooled returns the encoder of a sum: of rows that its variants have, while trees and weights stay.
func followPooled(e *ensemble, v *variant, of *updates.DeltaStream, made *updates.Candidate) *updates.DeltaEncoder {
	w := made.Pooled
	sum := updates.NewPooledSum(w.Of, w.Newton)
	rows := &updates.SumRows{Constant: append([]float64(nil), w.Constant...), Map: made.Model.Map,
		Named: len(made.Vocab.Names), First: made.Vocab.NumNames(), Vectors: made.Model.NumBasis}
	rows.Columns = made.Vocab.NumColumns() - int(rows.First)
	for i, f := range mixture.PooledForms {
		part := &w.Of[f]
		switch {
		case part.Model == nil || w.Factors[i] == 0:
			continue
		case part.Vocab.Trees != nil:
			floats.AddScaled(rows.Constant, w.Factors[i], part.Model.Bias)
			continue
		}
		x := pooledOf[i].follow(e, pooledOf[i], of, part)
		if x == nil {
			return nil
		}
		rows.Parts = append(rows.Parts, updates.SumPart{Rows: x.Rows, Factor: w.Factors[i],
			At: max(sum.Offsets[f], 0) * made.Model.NumOutputs, Scale: sum.Scale(f)})
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

// poolMoved reports whether the newest update, a sum, has trees, or would predict better by its current weights.
func (u *publisher) poolMoved(e *ensemble) bool {
	return e.pooled.Has(mixture.FormTrees) || u.behind.Lags[mixture.FormPool].Gain() > 0
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
func (u *publisher) isChanged() bool {
	return len(u.schema.Categorical)+len(u.schema.Multi) == 0 && u.behind.HasChanged()
}
