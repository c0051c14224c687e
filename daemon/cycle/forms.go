package cycle

import (
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver/posterior"
)

// updateForm is what an update can be made of. Of equals the first counts.
type updateForm int

// The forms of updates: the fold-in that stands on the last refit, that of gaussianTarget, the one from before the last change of names, Newton's learner,
// as it is and where its weights are going, the learner on names, the fold-in as it is mixed for the next event, in all fields, and a sum of the first three
// and of baselines (blend). In the first two only names of entities (a user, an item) forget: another, such as an occupation, has hundreds of events until the
// next update, follows whoever is at hand and has forgotten by then what it was published for.
const (
	formFoldIn updateForm = iota
	formNumbers
	formBefore
	formNewton
	formGoing // the same, where its weights are going
	formNames
	formMixed // of gaussianTarget where there is such a fold-in
	formBlend
	numForms
)

// formParts are the parts of the mixture that forms are of, and formReasons what a version says where it is not of the first.
var (
	formParts   = [numForms]string{"fold_in", partGaussian, partBefore, partNewton, partNewton, partNames, partGaussian, partBlend}
	formReasons = [numForms]string{formNumbers: "; that of levels as numbers, which has predicted better",
		formBefore: "; that from before the last change, which has predicted better", formNewton: "; Newton's on Fourier features, which has predicted better",
		formGoing: "; Newton's on Fourier features, where its weights are going, which has predicted better",
		formNames: "; that of names and pairs of names without interactions, which has predicted better",
		formMixed: "; that in which names of all fields forget, which has predicted better",
		formBlend: "; a sum of fold-ins and baselines, which has predicted better than each"}
)

// partOf returns the part of the mixture that a form is of.
func (c *Cycle) partOf(f updateForm) string {
	if f == formMixed && !HasGaussian(c.config) {
		f = formFoldIn
	}
	return formParts[f]
}

// OtherForms returns in how many forms beside the fold-in an update of a model may be held that take as much as it: those of posteriors, and that of
// names, which has pairs as far as there is room.
func OtherForms(m *config.Model) (n int) {
	if HasGaussian(m) {
		n++
	}
	if m.Train.Refit == "variational" && m.Train.FoldIn.Enabled {
		n++
		if schema := m.Schema.Event(); steadyFields(m, &schema) != nil {
			n++
		}
		if hasBlend(m) {
			n++
		}
	}
	if NamesFootprint(m) > 0 && m.Schema.Learned() == event.Binary {
		n++
	}
	return n
}

// formRace tells which form of updates predicts best at the lag of consumers: every form is scored, as it was at the newest update, on the events after it,
// and the losses are compared pair by pair. O(numForms²) an event.
type formRace struct {
	pairs  [numForms][numForms]lag // [a][b], for a after b: of a against b
	chosen updateForm
}

func newFormRace() formRace {
	var r formRace
	for a := range numForms {
		r.forget(a)
	}
	return r
}

// forget begins anew with a form: it is another learner than before.
func (r *formRace) forget(f updateForm) {
	for b := range numForms {
		r.pairs[max(f, b)][min(f, b)] = lag{scale: fading{rate: updateFade}}
	}
}

// goOn tells that what a form was of goes on as formBefore: so do updates, until another form predicts better.
func (r *formRace) goOn(was updateForm) {
	r.forget(formBefore)
	if r.chosen == was {
		r.chosen = formBefore
	}
}

// add takes up the loss of every form on one event, NaN for those that there are not. limit is that of lag.add.
func (r *formRace) add(losses *[numForms]float64, limit float64) {
	for a := range numForms {
		if math.IsNaN(losses[a]) {
			continue
		}
		for b := range a {
			if !math.IsNaN(losses[b]) {
				r.pairs[a][b].add(losses[a], losses[b], limit)
			}
		}
	}
}

// lead returns by how much less a loses than b, in units and in standard errors, 0 where too few events say so.
func (r *formRace) lead(a, b updateForm) (units, errors float64) {
	l, sign := &r.pairs[max(a, b)][min(a, b)], -1.0
	if l.n < updateEvents {
		return 0, 0
	}
	if a < b {
		sign = 1
	}
	units = sign * l.sum / l.n
	if errors = units / l.deviation(); math.IsNaN(errors) {
		errors = 0
	}
	return units, errors
}

// choose sets the form that updates are made of, one of those that there are: the last one until another has predicted better by a standard error, then
// the best of such.
func (r *formRace) choose(there func(updateForm) bool) {
	from := r.chosen
	if !there(from) {
		from = formFoldIn
	}
	r.chosen = from
	best := 0.0
	for f := range numForms {
		if f == from || !there(f) {
			continue
		}
		if units, errors := r.lead(f, from); errors > 1 && units > best {
			r.chosen, best = f, units
		}
	}
}

// chooseForm has the race choose what updates are made of. c.mu is held.
func (c *Cycle) chooseForm(there func(updateForm) bool) {
	c.figures.Lock()
	defer c.figures.Unlock()
	c.race.choose(there)
}

// made is the live model in one form, and where there is one the posterior whose mean it is, or what versions of it say of fold-in. Without a model there is
// no such form.
type made struct {
	frozen
	folded *posterior.State
	told   *snapshot.FoldIn
	link   *levelLink // of a number as levels; nil without
	sum    *summed    // what folded is the sum of; nil without
	blend  *blendWeights
}

// of returns a champion with the model in this form.
func (of *made) of(ch *Champion) *Champion {
	u := *ch
	u.popular = of.popular
	if u.Model, u.Vocabulary, u.folded, u.told, u.untold = of.model, of.vocab, of.folded, of.told, ""; u.folded == nil {
		u.posterior = nil
	}
	return &u
}

// forms returns the live model in every form, with next for an update that is about to be made. c.mu is held, and there is a champion.
func (c *Cycle) forms(next bool) (all [numForms]made) {
	for f := range numForms {
		l, target := c.formLearner(f)
		switch f {
		case formNames:
			all[f] = c.madeOfNames(l, all[formFoldIn].vocab)
		case formGoing:
			all[f] = c.madeGoing(l, all[formNewton])
		case formBlend:
			all[f] = c.madeOfBlend(all[formFoldIn].vocab, next)
		case formMixed:
			if _, ok := l.(*posteriorLearner); ok && c.steady != nil {
				all[f] = c.made(f, l, target, nil, next)
			}
		default:
			all[f] = c.made(f, l, target, c.steadyIn(f), next)
		}
		if m := all[f].model; f != formFoldIn && m != nil && !m.IsFinite() {
			all[f] = made{}
		}
	}
	if popular := c.champion.popular; popular != nil {
		if len(c.popular.names) > 0 { // else others observe the choices
			popular = c.popular.weights()
		}
		for f := range all {
			all[f].popular = popular
		}
	}
	return all
}

// steadyIn returns the fields whose names forget nothing in a form, nil for none.
func (c *Cycle) steadyIn(form updateForm) []bool {
	if form == formFoldIn || form == formNumbers {
		return c.steady
	}
	return nil
}

// steadyFields returns, for each field, whether it is one of those that the fold-in forgets by but not of entities; nil where there is none.
func steadyFields(m *config.Model, schema *event.Schema) (steady []bool) {
	entities := judgedFields(m, schema)
	for _, name := range m.Train.FoldIn.By {
		if f := slices.Index(schema.Categorical, name); !slices.Contains(entities, f) {
			if steady == nil {
				steady = make([]bool, len(schema.Categorical)+len(schema.Multi)+len(schema.Numeric)+1)
			}
			steady[f] = true
		}
	}
	return steady
}

// formLearner returns the learner that a form is of and its target, nil without. c.mu is held.
func (c *Cycle) formLearner(form updateForm) (learner, *Target) {
	part := c.partOf(form)
	if part == formParts[formFoldIn] || form == formBlend {
		return c.learner, c.target
	}
	if b := c.companion(part); b != nil {
		return b.learner, b.target
	}
	return nil, nil
}

// made returns what the learner of a form has learned of a target, as one of levels where the target takes these for numbers; nothing where versions cannot
// hold it. steady are the fields whose rows a fold-in in closed form has without forgetting, next is that of forms.
func (c *Cycle) made(form updateForm, l learner, target *Target, steady []bool, next bool) (of made) {
	limit := c.config.Train.MaxFeatures
	switch l := l.(type) {
	case *posteriorLearner:
		numbers := target.Link != c.target.Link
		if numbers && c.champion.link == nil {
			return of
		}
		if !numbers {
			of.folded, of.vocab = l.live(limit, steady)
		} else {
			of.link = c.linkOf(c.companion(c.partOf(form)), next)
			of.sum = &summed{likelihood: c.target.Likelihood, constant: of.link.Threshold, parts: []summand{{l, -of.link.Slope, steady}}}
			of.vocab = l.vocab.with(l.slots, limit)
			of.folded = of.sum.state(of.vocab)
		}
		of.model = of.folded.Model()
	case *newtonLearner: // which knows nothing of names
		if v := c.champion.Vocabulary; len(v.Names) == 0 && target.Link == c.target.Link && target.Outputs() == c.target.Outputs() {
			of.model, of.vocab = l.freeze(v, c.champion.Model.Kernel)
		}
	case foldInLearner:
		of.model, of.vocab = l.model(limit)
	}
	return of
}

// madeGoing returns Newton's learner in the form that is where its weights are going, given the form as they are. There is none with deltas, which follow the
// weights themselves.
func (c *Cycle) madeGoing(l learner, now made) made {
	n, ok := l.(*newtonLearner)
	if !ok || now.model == nil || n.before == nil || c.config.Publish.Deltas.Every > 0 {
		return made{}
	}
	now.model = n.frozen(n.going(), c.champion.Vocabulary, c.champion.Model.Kernel)
	return now
}

// markNewton keeps the weights of Newton's learner for the next update.
func (c *Cycle) markNewton() {
	for _, b := range c.companions {
		if l, ok := b.learner.(*newtonLearner); ok {
			l.mark()
		}
	}
}

// madeOfNames returns the learner on names as an ordinary model over v and its pairs, nothing where its outputs are not those of versions.
func (c *Cycle) madeOfNames(l learner, v *Vocabulary) (of made) {
	if l, ok := l.(*namesLearner); ok && l.label == nil {
		of.model, of.vocab = l.freeze(v, c.champion.Model.Kernel, c.config.Train.MaxFeatures)
		of.told = l.foldIn(c.config)
	}
	return of
}
