package cycle

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// companion is a learner beside the fold-in. What it predicts is a part of the mixture; updates are made of some (formParts). It belongs to one goroutine at a
// time.
type companion struct {
	name    string
	target  *Target // whose outputs the learner gives
	learner learner
	lasting bool          // it goes on from refit to refit: no refit replaces it
	recent  *recentLevels // of a number that stands for an ordinal label; nil without
	link    *levelLink    // that the newest update has, by recent; nil for the champion's
	next    *levelLink    // that an update which is being made has

	outputs []float64
	targets []float64
}

func newCompanion(name string, target *Target, l learner) *companion {
	return &companion{name: name, target: target, learner: l, outputs: make([]float64, target.Outputs()), targets: make([]float64, target.Outputs())}
}

// hasScalesOf reports whether numbers have the scales of a champion, nil for none, where the learner stands on a version: updates are sums over one scale.
func (c *companion) hasScalesOf(ch *Champion) bool {
	l, ok := c.learner.(*posteriorLearner)
	return !ok || ch == nil || l.vocab == nil || slices.Equal(l.vocab.Numeric, ch.Vocabulary.Numeric)
}

// predict takes up an event and returns the outputs for it.
func (c *companion) predict(ev *event.Event) []float64 {
	c.learner.outputs(c.outputs, ev)
	return c.outputs
}

// learn folds in what counts of the event that was taken up last.
func (c *companion) learn(ev *event.Event, counts *counted) {
	if c.target.Encode(c.targets, ev) {
		learnPart(c.learner, ev, c.targets, counts)
	}
}

// note keeps what was predicted for an event, before it is learned.
func (c *companion) note(ev *event.Event) {
	if c.recent != nil {
		c.recent.add(c.outputs[0], ev.Label)
	}
}

// The parts that companions are.
const (
	partGaussian   = "fold_in_gaussian"
	partBefore     = "fold_in_before"
	partAdagrad    = "adagrad"
	partRecent     = "adagrad_recent_labels"
	partNewton     = "newton_fourier"
	partNeighbours = "neighbours"
	partNames      = "name_pairs"
	partBlend      = "blend" // of which there is no companion
)

// What companions on numbers take at most: weights of one expert of AdaGrad, or of Newton's learner.
const (
	maxAdagradWeights = 10_000
	maxNewtonWeights  = 100_000
)

// companionNames returns the names of the companions that a model has, whether or not they predict yet.
func (c *Cycle) companionNames() (names []string) {
	if HasGaussian(c.config) {
		names = append(names, partGaussian)
	}
	if _, ok := c.learner.(*posteriorLearner); ok && c.config.Train.FoldIn.Enabled {
		names = append(names, partBefore)
	}
	for _, beside := range c.companions {
		if beside.lasting {
			names = append(names, beside.name)
		}
	}
	return names
}

// onNumbers returns the companions of a model with numeric fields, which learn from the first event on.
func (c *Cycle) onNumbers() (all []*companion) {
	m, d := c.config, len(c.schema.Numeric)
	if d == 0 || !m.Train.FoldIn.Enabled || !hasProbabilities(c.target) {
		return nil
	}
	t := c.target
	if t.IsNumeric() {
		t = gaussianTarget(t)
	}
	add := func(name string, l learner) {
		b := newCompanion(name, t, l)
		b.lasting = true
		all = append(all, b)
	}
	limit := m.Train.FoldIn.MaxRows
	if d*t.Outputs() <= maxAdagradWeights {
		add(partAdagrad, newAdagradLearner(c.numbers, &c.schema, t, limit, false))
		if t.Outputs() <= maxRecent {
			add(partRecent, newAdagradLearner(c.numbers, &c.schema, t, limit, true))
		}
	}
	if newtonInputs(d)*t.Outputs() <= maxNewtonWeights {
		add(partNewton, newNewtonLearner(c.numbers, t))
	}
	add(partNeighbours, newNeighboursLearner(c.numbers, t, len(c.schema.Categorical)))
	return all
}

// onNames returns the companion of a model of binary labels on names, which learns from the first event on.
func (c *Cycle) onNames() []*companion {
	if !c.config.Train.FoldIn.Enabled || !hasNames(&c.schema, c.target.Link) {
		return nil
	}
	t := c.target
	if t.IsNumeric() {
		t = gaussianTarget(t)
	}
	b := newCompanion(partNames, t, newNamesLearner(&c.schema, t, c.config.Train.FoldIn.MaxRows))
	b.lasting = true
	return []*companion{b}
}

// HasGaussian reports whether a model learns its ordinal label as a number, too, with a posterior of its own.
func HasGaussian(m *config.Model) bool {
	o, err := m.Objective()
	return err == nil && o.Link == snapshot.OrdinalLink && m.Train.Refit == "variational" && m.Train.FoldIn.Enabled
}

// newCompanions returns those that stand on a champion, nil before there is one, and the lasting ones of last.
func (c *Cycle) newCompanions(ch *Champion, last []*companion) (all []*companion) {
	for _, l := range last {
		if l.lasting && l.hasScalesOf(ch) {
			all = append(all, l)
		}
	}
	if HasGaussian(c.config) && (ch == nil || ch.gaussian != nil) {
		target := gaussianTarget(c.target)
		var base *Champion
		if ch != nil {
			base = &Champion{Vocabulary: ch.Vocabulary, posterior: ch.gaussian}
		}
		l := newPosteriorLearner(c.config, &c.schema, target, base)
		for _, before := range last {
			if p, ok := before.learner.(*posteriorLearner); ok && before.name == partGaussian {
				l.foldIn.InheritLosses(p.foldIn)
			}
		}
		b := newCompanion(partGaussian, target, l)
		b.recent = new(recentLevels)
		all = append(all, b)
	}
	return all
}

// gaussianTarget returns the target that takes an ordinal label for a number with a Gaussian error. Where levels are about
// evenly spaced, such a posterior follows a change faster than that of the levels' thresholds: on ratings that drift .790 RMSE against .802.
func gaussianTarget(t *Target) *Target {
	g := *t
	g.Loss, g.Link, g.Likelihood = solver.Squared{}, snapshot.Identity, posterior.Gaussian
	return &g
}

// gaussian refits the posterior of gaussianTarget beside the variational stage, warm from the live one, nil where there is no such stage or no time
// left, and fits the link of its numbers on the select rows. New basis vectors are those of the convex stage. No refit that is published holds it, so
// that no refit that is repeated does. As costly as the sweeps of a regression.
func (j *refitJob) gaussian(ctx context.Context, warm *warmStart, convex *solver.Model) (*posterior.State, error) {
	t := gaussianTarget(j.target)
	own := budget{deadline: j.budget.deadline} // where it ends is no matter of the version
	if !HasGaussian(j.model) || j.given >= 0 || own.over(ctx) {
		return nil, nil
	}
	p := *j.problem
	p.Outputs, p.Loss, p.Targets = 1, t.Loss, j.train.levels(j.target.Outputs())
	valid := *j.select_
	valid.targets = j.select_.levels(j.target.Outputs())
	prior := priorFor(t.Likelihood, &p)
	k := j.model.Train.VariationalBasis(p.X.NumRows())
	fading := j.selectWeights()
	judge := func(m *solver.Model) float64 { return valid.loss(t, m, fading) }
	sweeps := j.model.Train.Sweeps
	if j.restarted {
		sweeps *= restartSweeps
	}
	sweep := func(s *posterior.State, b *budget) (*variationalFit, error) {
		return j.sweep(ctx, s, &sweeping{problem: &p, prior: prior, limit: sweeps, judge: judge, budget: b})
	}
	var fit *variationalFit
	var err error
	if warm == nil || warm.gaussian == nil {
		random := rand.New(rand.NewPCG(j.model.Train.Seed, 0x6761757373)) // "gauss": apart from other uses of the seed
		fit, err = sweep(posterior.Start(t.Likelihood, &p, j.groups, j.mainOnly, k, prior, random), &own)
	} else {
		addVectors(warm.gaussian, oneOutput(convex), prior, k)
		stage := &continuation{state: warm.gaussian, prior: prior, last: warm.precisions.Gaussian, both: warm.bothPrecisions, sweep: sweep, budget: &own,
			weight: fading, losses: func(m *solver.Model) []float64 { return valid.losses(t, m) }}
		fit, j.precisions.Gaussian, _, err = stage.run()
	}
	if fit == nil || err != nil {
		return nil, err
	}
	j.sweptGaussian = fit
	numbers := make([]float64, 0, len(valid.events))
	valid.each(t, fit.model, func(_ int, outputs, _ []float64) { numbers = append(numbers, outputs[0]) })
	j.link = newLevelLink(j.target.Outputs(), 1/math.Sqrt(fit.state.Noise)).fit(numbers, j.select_.targets, j.chosenBy(nil, j.select_.events))
	return fit.state, nil
}

// oneOutput returns the vectors of an ordinal model with the weights of a number's single output: the outputs of thresholds fall as the level rises.
func oneOutput(ordinal *solver.Model) *solver.Model {
	m := solver.Model{Kernel: ordinal.Kernel, NumFeatures: ordinal.NumFeatures, NumOutputs: 1, NumBasis: ordinal.NumBasis, Basis: ordinal.Basis}
	for r := range m.NumBasis {
		m.Weights = append(m.Weights, -floats.Sum(ordinal.Weights[r*ordinal.NumOutputs:][:ordinal.NumOutputs])/float64(ordinal.NumOutputs))
	}
	return &m
}

// levels returns the labels of rows whose targets are those of an ordinal label with m thresholds.
func (e *encoded) levels(m int) []float64 {
	out := make([]float64, len(e.targets)/m)
	for i := range out {
		out[i] = 1
		for _, t := range e.targets[i*m : i*m+m] {
			if t < 0 {
				out[i]++
			}
		}
	}
	return out
}

// goOn returns the companions beside a fold-in on a champion that is about to take the place of the present one. For a while after names have changed the
// present one goes on as a companion, for ordinal labels that of numbers: most rows of a refit are from before the change. One that stands on no refit
// has no vocabulary that updates could be made over, and one that has other scales of numbers makes no sum with the next.
func (c *Cycle) goOn(ch *Champion, companions []*companion) []*companion {
	last := c.companion(partGaussian)
	if next := companionOf(companions, partGaussian); last != nil && next != nil {
		next.recent = last.recent.clone()
	}
	isBefore := func(b *companion) bool { return b.name == partBefore }
	if !c.drift.lasts() {
		return slices.DeleteFunc(companions, isBefore)
	}
	present, ok := c.learner.(*posteriorLearner)
	if !ok || present.vocab == nil || slices.ContainsFunc(companions, isBefore) {
		return companions
	}
	before, was := newCompanion(partBefore, c.target, present), formFoldIn
	if !before.hasScalesOf(ch) {
		return companions
	}
	if last != nil {
		before, was = newCompanion(partBefore, last.target, last.learner), formNumbers
		before.recent, before.link = last.recent, last.link
	}
	before.lasting = true
	c.race.goOn(was)
	c.blend.goOn(was)
	return append(companions, before)
}

// relink has an update that is about to be made say of numbers what the last events say. c.mu is held, and there is a champion.
func (c *Cycle) relink() {
	for _, b := range c.companions {
		if b.recent != nil && c.champion.link != nil {
			b.next = b.recent.link(c.champion.link)
		}
	}
}

// linkOf returns what a number is for the levels: in what is live, or, with next, in an update that is about to be made. c.mu is held, and there is a champion.
func (c *Cycle) linkOf(b *companion, next bool) *levelLink {
	switch {
	case next:
		return b.next
	case b.link != nil:
		return b.link
	}
	return c.champion.link
}

// companion returns that of a name, nil without. c.mu is held.
func (c *Cycle) companion(name string) *companion { return companionOf(c.companions, name) }

func companionOf(all []*companion, name string) *companion {
	if at := slices.IndexFunc(all, func(b *companion) bool { return b.name == name }); at >= 0 {
		return all[at]
	}
	return nil
}
