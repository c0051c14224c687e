package cycle

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
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
				sum := newPooledSum(made, newton)
				e.pooled.LeaveOut(newton, func(f mixture.Variant) bool { return made[f].Model != nil && !sum.has(f) })
			}
			newton := e.pooled.PrefersNewton()
			w = e.pooled.Weights(newton, newPooledSum(made, newton).has)
		} else if w != nil {
			w = w.Among(newPooledSum(made, w.Newton).has)
		}
		if w == nil {
			return of
		}
		of.Pooled = &updates.PooledForms{PooledWeights: w, Of: made}
		if of.Model, of.Vocab = newPooledSum(made, w.Newton).of(w); of.Model == nil {
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

// pooledSum puts together the variants of a sum.
type pooledSum struct {
	made    *candidates
	maps    *format.FeatureMap
	offsets [mixture.NumForms]int // of the columns of a variant's feature map in the joint one, -1 of one left out
}

// newPooledSum returns the sum of those variants that one version can hold: with the columns of the fold-in, and maps
// that go with that of the fold-in or, of newton, with Newton's.
func newPooledSum(made *candidates, newton bool) *pooledSum {
	s := &pooledSum{made: made}
	for f := range s.offsets {
		s.offsets[f] = -1
	}
	newton = newton && made[mixture.FormNewton].Model != nil
	for _, f := range mixture.PooledForms {
		x := &made[f]
		if x.Model == nil || x.Model.NumFeatures != made[mixture.FormFoldIn].Model.NumFeatures ||
			newton && x.Model.Map != nil && x.Vocab.Map.Kind != format.Fourier {
			continue
		}
		switch own := x.Vocab.Map; {
		case own == nil || x.Model.Map == nil:
			s.offsets[f] = 0
		case s.maps == nil:
			s.maps, s.offsets[f] = own, 0
		default:
			if joint := encode.JoinFourier(s.maps, own); joint != nil {
				s.offsets[f], s.maps = s.maps.NumColumns(), joint
			}
		}
	}
	return s
}

// has reports whether a variant is in the sum.
func (s *pooledSum) has(f mixture.Variant) bool { return s.offsets[f] >= 0 }

// of returns the sum by its factors; nil where that is one variant alone.
func (s *pooledSum) of(w *mixture.PooledWeights) (*solver.Model, *encode.Vocabulary) {
	base := &s.made[mixture.FormFoldIn]
	m, n := base.Model.NumOutputs, 0
	model, vocab := solver.NewModel(base.Model.Kernel, base.Model.NumFeatures, m, true), *base.Vocab
	copy(model.Bias, w.Constant)
	if w.Factors[0] != 0 {
		model.NumBasis, model.Basis = base.Model.NumBasis, base.Model.Basis
		model.Weights = append([]float64(nil), base.Model.Weights...)
		floats.Scale(w.Factors[0], model.Weights)
	}
	if vocab.Map = s.maps; s.maps != nil {
		model.Map = make([]float64, s.maps.NumColumns()*m)
	}
	vocab.Trees = nil
	for i, f := range mixture.PooledForms {
		own, factor := &s.made[f], w.Factors[i]
		if own.Model == nil || factor == 0 {
			continue
		}
		n++
		floats.AddScaled(model.Bias, factor, own.Model.Bias)
		if own.Model.Linear != nil {
			floats.AddScaled(model.Linear, factor, own.Model.Linear)
		}
		if own.Model.Map != nil {
			at := s.offsets[f] * m
			floats.AddScaled(model.Map[at:at+len(own.Model.Map)], factor*s.scale(f), own.Model.Map)
		}
		if own.Vocab.Trees != nil {
			vocab.Trees = scaledTrees(own.Vocab.Trees, factor)
		}
	}
	if n < 2 {
		return nil, nil
	}
	return model, &vocab
}

// scale is what weights on the feature map of a variant are multiplied by for the joint one.
func (s *pooledSum) scale(f mixture.Variant) float64 {
	own := s.made[f].Vocab.Map
	if own == nil || s.maps == nil || own.Kind != format.Fourier {
		return 1
	}
	return own.Amplitude() / s.maps.Amplitude()
}

// scaledTrees returns trees whose leaves are multiplied by a factor.
func scaledTrees(x *format.Trees, factor float64) *format.Trees {
	out := &format.Trees{List: make([]format.Tree, len(x.List))}
	for i, t := range x.List {
		leaves := append([]float64(nil), t.Leaves...)
		floats.Scale(factor, leaves)
		out.List[i] = format.Tree{Splits: t.Splits, Leaves: leaves}
	}
	return out
}

// followPooled returns the encoder of a sum: of rows that its variants have, while trees and weights stay.
func followPooled(e *ensemble, v *variant, of *updates.DeltaStream, made *updates.Candidate) *updates.DeltaEncoder {
	w := made.Pooled
	sum := newPooledSum(w.Of, w.Newton)
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
			At: max(sum.offsets[f], 0) * made.Model.NumOutputs, Scale: sum.scale(f)})
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
	return e.pooled.Has(mixture.FormTrees) || u.behind.lags[mixture.FormPool].Gain() > 0
}

// neededPart returns the part that updates are made of, the trees of a sum that has some.
func (c *Cycle) neededPart() string {
	if c.publisher.race.Chosen == mixture.FormPool && c.ensemble.pooled.Has(mixture.FormTrees) {
		return experts.PartBoosted
	}
	return c.partOf(c.publisher.race.Chosen)
}

// behind says by how much consumers lose more of late than they would by the newest update in another variant.
type behind struct {
	lags  [mixture.NumForms]experts.Lag
	has   experts.Lag     // what consumers lose, more than nothing
	usual evaluate.Fading // the same for longer
	wait  float64         // events between two times that an update is asked for
	since float64         // events since the last time
}

// firstWait is the first of the waits, each of which is twice the last. Chosen by hand.
const firstWait = 100

// changedTimes is how many times as much as usual consumers lose after a change. Chosen by hand.
const changedTimes = 2

// behindMargin is how many times as much as the chosen variant another one has to gain. Chosen by hand.
const behindMargin = 1.25

// add takes up the losses of what consumers have, of the newest update in each variant, and of a sum of these by the
// current weights. Those of numbers are not bounded.
func (b *behind) add(s *updates.Score, sum float64, isNumber bool) {
	has, most := s.Published.Loss, experts.LagMost
	if isNumber {
		has, most = s.Published.Square, math.Inf(1)
	}
	b.since++
	if !math.IsNaN(has) {
		b.usual.Rate = updates.UpdateFade
		b.usual.Add(min(has, most))
		b.has.Add(has, 0, most)
	}
	for f, loss := range s.Forms {
		if f == int(mixture.FormPool) {
			loss = sum
		}
		if !math.IsNaN(loss) && !math.IsNaN(has) {
			b.lags[f].Add(has, loss, most)
		}
	}
}

// best returns the variant by which consumers would lose least, of those that there are and lose much less. That is the
// chosen one unless another gains clearly more. It reports false where no variant does.
func (b *behind) best(chosen mixture.Variant, there func(mixture.Variant) bool) (best mixture.Variant, is bool) {
	most := 0.0
	for f := range mixture.NumForms {
		x := &b.lags[f]
		if !x.IsLarge() || !there(f) {
			continue
		}
		gain := x.Gain()
		if f == chosen {
			gain *= behindMargin
		}
		if gain > most {
			best, is, most = f, true, gain
		}
	}
	return best, is
}

// after returns what is known once consumers have another update of a variant. If they come to be behind another
// variant still, the next one is waited for as long as it would have been.
func (b *behind) after(has mixture.Variant) behind {
	next := behind{usual: b.usual}
	if f, is := b.best(has, func(mixture.Variant) bool { return true }); is && f != has {
		next.wait, next.since = b.wait, b.since
	}
	return next
}

// isChanged reports whether consumers lose so much more than they used to that what was better before says nothing.
// Where labels come in runs, what has followed the last one is better for a while, and worse after it. Where events
// have names, a flood of some with labels of others looks alike: what was better before counts.
func (u *publisher) isChanged() bool {
	b := &u.behind
	return len(u.schema.Categorical)+len(u.schema.Multi) == 0 && b.usual.N > 0 &&
		b.has.Mean() > changedTimes*mixture.Mean(&b.usual)
}

// asks reports whether an update is asked for: at once where consumers have come to be behind or another variant is
// chosen, then after waits until they have another one.
func (b *behind) asks(isOther bool) bool {
	_, is := b.best(mixture.FormFoldIn, func(mixture.Variant) bool { return true })
	if !is && !isOther || b.since < b.wait {
		return false
	}
	b.wait, b.since = max(2*b.wait, firstWait), 0
	return true
}
