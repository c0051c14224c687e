package cycle

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// goldenEvents is how many events of a sample go into a version as golden pairs.
const goldenEvents = 16

// streamTolerance is the solver's tolerance in a streaming refit, coarser than that of an offline fit: the next refit starts where this
// one stopped.
const streamTolerance = 1e-3

// refitJob is one refit: a sample, what it continues from, and what it found so far.
type refitJob struct {
	model      *config.Model
	schema     *event.Schema
	champion   *Champion // nil before the first version
	instead    *substitute
	updated    bool // consumers have an update of the champion
	cold       coldStart
	rejections int          // in a row before it
	rough      bool         // the convex stage is polished and certified only where its model is published
	carries    bool         // each λ of a path of Algorithm 1 goes on from the one before
	paired     [][2]float64 // of the fold-in and of what consumers have, on the last events, oldest first
	repeats    *keptStart   // what a refit that is repeated starts from
	workers    int
	yield      func() // solver.Settings.Yield
	budget     budget
	now        func() time.Time
	judge      func(*solver.Model) float64 // loss on the select rows
	guard      *guard                      // of what is published; nil of a fit that publishes nothing
	progress   *fitProgress                // of an offline fit

	heldOutSweeps int               // of a refit that is repeated
	began         precisionStart    // of its variational stage
	folded        *posteriorLearner // the champion's posterior with the recent rows folded in, nil until it is asked for

	target         *Target
	vocab          *Vocabulary
	train          *encoded
	select_        *encoded
	gate           *encoded
	problem        *solver.Problem
	swept          *variationalFit // nil without the variational stage
	sweptGaussian  *variationalFit // of gaussianTarget
	link           *levelLink      // for that
	weights        []float64       // of the training rows before they fade, nil counting every row once
	unbounded      bool            // choices, by entity and by row: of a refit of an earlier build that is repeated
	horizon        int             // in horizons
	alarmAge       float64         // events since the last alarm of the drift detector, +Inf without one
	ahead          *sweeper        // the sweeps by which the horizon was chosen; nil without
	given          int             // the horizon of a refit that is repeated, -1 of any other
	recent         []event.Event   // training rows since the champion's cut, for rival
	groups         []int32         // posterior.State.Group, nil: every field for itself
	rowIDs         []rowID         // of the training rows, where dual variables are kept by them
	mainOnly       []bool          // posterior.State.MainOnly, by relate
	ridge          float64         // of weights on the feature map, by chooseForm
	plain          bool            // by chooseForm: no basis vectors are looked for
	whole          bool            // the model has all products of numbers already
	forms          []report.FitForm
	popularLearned *popularWeights // of choices, by the training rows; nil of events with labels
	popularAll     *popularWeights // by all rows
	chosen         *lists          // what versions of choices are judged by; nil of events with labels
	lists          *lists          // the same while they are
	precisions     precisionChoice // by variational and gaussian
	restarted      bool            // by relate: there is a last variational stage, and this one does not go on from it
	heldOut        heldOutNames
	means          *means
	least          float64 // what a loss counts as at least where models are compared
	meansOfAll     *means  // of held-out rows, too
	golden         []event.Event
	sample         *Sample
}

// Refit trains a challenger on a sample: Algorithm 1, warm from the live model mapped by name onto the sample's vocabulary, then, where
// the model is multilinear, the variational stage; the stage that scores better on the select rows wins. It compares the challenger with
// the champion on the gate rows and writes the decision into the Version, but installs nothing. It may run beside Observe, and it takes the
// sample's training rows: they are gone from it once they are decoded.
//
// When the time budget or ctx ends, the best model so far is returned with status time_budget or interrupted; without any model the error is that
// of such a context.
func (c *Cycle) Refit(ctx context.Context, sample *Sample) (*Champion, error) {
	start := c.now()
	c.mu.Lock()
	j := &refitJob{given: -1, rough: true, carries: true, model: c.config, schema: &c.schema, champion: c.champion, instead: c.instead,
		workers: c.Workers, now: c.now, sample: sample, guard: &c.guard, updated: c.published != nil && c.published.isUpdate(),
		paired: c.progressive.paired(foldIn, published), cold: c.coldStart(), rejections: c.rejections}
	if j.alarmAge = math.Inf(1); c.drift.alarm > 0 {
		j.alarmAge = float64(c.drift.events - c.drift.alarm)
	}
	c.mu.Unlock()
	budget := time.Duration(j.model.Train.TimeBudget)
	if budget > 0 {
		j.budget.deadline = time.Now().Add(budget)
	}
	if c.Throttle != nil {
		j.yield = c.Throttle(ctx, budget)
	}
	rows := len(sample.Train)
	if rows == 0 {
		return nil, ErrNoRows
	}
	challenger, err := j.runFrom(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%w (%d rows to train on, %d to select on, %d for the gate)", err, rows, len(sample.Select), len(sample.Gate))
	}
	challenger.Version.OutputLimit = outputLimit(challenger, sample.Gate, sample.Select)
	c.mu.Lock()
	c.noteLive(challenger)
	c.mu.Unlock()
	c.judged(challenger.Cause)
	challenger.Version.TrainSeconds = report.Number(c.now().Sub(start).Seconds())
	return challenger, nil
}

// runFrom is run for a refit of a cycle, which notes a failure of one that continued from the champion, and a panic of it.
func (j *refitJob) runFrom(ctx context.Context, c *Cycle) (ch *Champion, err error) {
	ended := false
	defer func() {
		if failed := !ended || err != nil && !IsInterrupted(err) && !errors.Is(err, ErrNoRows); failed && j.champion != nil && !j.cold.begins {
			c.failed(j.champion)
		}
	}()
	ch, err = j.run(ctx)
	ended = true
	return ch, err
}

func (j *refitJob) run(ctx context.Context) (*Champion, error) {
	record, err := j.record()
	if err != nil {
		return nil, err
	}
	if err := j.prepare(); err != nil {
		return nil, err
	}
	var warm *warmStart
	if j.repeats != nil {
		warm = j.repeats.on(j.vocab, j.began)
	} else {
		warm = j.continuing(j.vocab)
	}
	kept, err := record.finish(warm, j.heldOut, j.vocab.Numeric)
	if err != nil {
		return nil, err
	}
	j.relate(warm)
	if warm != nil && len(warm.mapWeights) > 0 {
		j.vocab.Map = warm.featureMap // horizons are compared with it
	}
	if err := j.fade(ctx, warm); err != nil {
		return nil, err
	}
	if err := j.chooseForm(ctx, warm); err != nil {
		return nil, err
	}
	best, variational, err := j.stages(ctx, warm)
	if err != nil {
		return nil, err
	}
	j.swept = variational
	ch := j.challenger(ctx, best, variational, j.mapped(ctx, best.model, warm), warm)
	ch.CutShort, ch.Kept = j.budget.cut, kept
	if ch.CutShort != nil && ch.Target.Link != snapshot.Identity && isZero(ch.Model) {
		return nil, errNothingLearned
	}
	if ch.gaussian, err = j.gaussian(ctx, warm, j.vectorsOf(best.model)); err != nil && !IsInterrupted(err) {
		return nil, err
	}
	ch.link, ch.precisions = j.link, j.precisions
	ch.GateBegan = j.now()
	if j.judging().decide(ch); ch.popularOnly {
		ch.Version.Reason += "; lists of popularity alone, as the model's are not shown to be better"
	}
	ch.GateEnded = j.now()
	if j.guard != nil {
		ch.holdout = j.guard.holdout(ch, j.sample.Gate, j.sample.GateAge, horizons[j.horizon])
	}
	switch {
	case j.swept == nil:
		return ch, nil
	case j.repeats != nil:
		return ch, j.learnHeldOut(ctx, ch, j.heldOutSweeps)
	case Causes[ch.Cause] == promoted:
		return ch, j.learnHeldOut(ctx, ch, j.swept.sweeps)
	}
	return ch, nil
}

// errNothingLearned is returned for a refit that was cut short before its first step, which no version can hold.
var errNothingLearned = fmt.Errorf("the time ended before anything was learned: %w", context.DeadlineExceeded)

// isZero reports whether all outputs of a model are 0.
func isZero(m *solver.Model) bool {
	for _, values := range [][]float64{m.Weights, m.Linear, m.Bias, m.Map} {
		if slices.ContainsFunc(values, func(v float64) bool { return v != 0 }) {
			return false
		}
	}
	return true
}

// challenger wraps the best of the stages with its version, not yet judged.
func (j *refitJob) challenger(ctx context.Context, best *candidate, variational *variationalFit, mapped *mappedFit, warm *warmStart) *Champion {
	ch := &Champion{Model: best.model, Vocabulary: j.vocab, Target: j.target, Lambda: best.lambda, Watermark: j.sample.Watermark,
		horizon: j.horizon, Sample: j.sample.Digest, Lineage: j.sample.Lineage, Events: &j.sample.Events, Golden: j.golden, means: j.means, heldOut: j.heldOut}
	ch.popular = j.popularAll
	v := &ch.Version
	*v = report.Version{
		Model: j.model.Name, Kind: "refit", Status: best.result.Status.String(), K: best.model.NumBasis,
		Lambda: report.Number(best.lambda / lambdaUnit(j.problem)), Rows: int64(j.problem.X.NumRows()), Features: j.vocab.NumColumns(), Outputs: j.target.Outputs(),
		Objective: report.Number(best.step.Objective), Cut: j.sample.Cut, HorizonEvents: halfLife(j.horizon), Solver: "algorithm1:" + j.model.Train.Solver,
		StochasticEpochs: best.result.StochasticEpochs, FISTAIterations: best.result.FISTAIterations, Warm: warm != nil,
	}
	if j.model.Train.Refit == solver.LineSearch.String() {
		v.Solver = report.LineSearchSolver // train.solver is of refits
	}
	if best.final {
		v.Objective = report.Number(best.result.Objective)
	}
	if a := j.another(); a != nil {
		v.Solver, ch.scale = a.Name(), best.scale
		if best.result.Dual != nil {
			ch.dual = &rowDual{IDs: j.rowIDs, Outputs: j.target.Outputs(), Values: best.result.Dual}
		}
	}
	if best.quadratic {
		v.Solver = "products:2"
	}
	if variational != nil {
		ch.convex = best.model
		ch.posterior = variational.state // the fold-in stands on it even where the convex model is published
		v.Precisions = string(j.precisions.Stage)
	}
	if variational != nil && j.prefers(variational, best) && !j.model.Train.ConvexAlone() {
		ch.Model = variational.model
		v.K = variational.model.NumBasis
		v.Form = snapshot.FormVariational
		v.Solver += "+variational"
		v.MainEffects = j.vocab.fieldNames(variational.state.MainOnly)
		v.Sweeps, v.Evidence = variational.sweeps, report.Some(variational.evidence)
	} else {
		j.optimality(ctx, v, best)
	}
	if mapped != nil {
		ch.Model, ch.mapRidge = mapped.model, mapped.ridge
		v.Solver += "+map"
		v.FeatureMap = mapText(j.vocab.Map)
	}
	by := j.judging()
	if by.lists != nil {
		ch.popularOnly = !by.lifts(ch.Model)
	}
	j.beside(func() { v.Select = j.select_.metrics(j.target, ch.Model, groupOf(j.model)) },
		func() { v.Gate = j.gate.metrics(j.target, ch.Model, groupOf(j.model)) })
	if by.lists != nil {
		by.listsOf(by.gate, by.listed(ch, ch.Model), j.vocab).hits.AddTo(v.Gate)
	}
	return ch
}

// prefers reports whether the variational stage predicts the select rows no worse than the best model of the convex one: choices by their lists.
func (j *refitJob) prefers(variational *variationalFit, best *candidate) bool {
	if j.chosen != nil {
		by := j.judging()
		return !(by.listLoss(variational.model) > by.listLoss(best.model))
	}
	return variational.loss <= best.loss || !j.selectTells()
}

// selectTells reports whether the select rows can tell one stage from the other, leastOfLabel of either binary label. Without one of the rarer label the best
// is whatever says least of it: a strength that is chosen by such rows is next to none, while the variational stage has its own from the training rows.
func (j *refitJob) selectTells() bool {
	ones := 0
	for _, one := range j.onesOf(j.select_) {
		if one {
			ones++
		}
	}
	return j.target.Task != event.Binary || min(ones, len(j.select_.events)-ones) >= leastOfLabel
}

// prepare decodes the sample, builds the vocabulary and encodes the parts.
func (j *refitJob) prepare() error {
	train, selected, gate, err := j.sample.decode(j.beside)
	if err != nil {
		return err
	}
	j.sample.Train = nil
	if j.target, err = NewTarget(j.model, classesOf(train)); err != nil {
		return err
	}
	j.countChoices(train, selected, gate)
	train, gate = j.holdOutEntities(train, gate)
	limitLabels(j.target, train, selected, gate)
	weights := j.sample.Weights
	j.beside(func() {
		limits := j.limits(train)
		j.vocab = buildVocabulary(j.schema, train, j.model.Train.Augment == "true", j.model.Train.MaxFeatures, limits, j.lastScales())
		limitNumbers(j.vocab.Numeric, train, selected, gate)
		j.keepRecent(train)
		j.encodeTrain(train, weights)
		j.select_, _ = encode(j.vocab, j.target, selected, nil)
	}, func() {
		j.meansOfAll = j.fitMeansOfAll(train, selected, gate)
	})
	j.gate, _ = encode(j.vocab, j.target, gate, nil)
	j.bounded(j.train)
	j.bounded(j.select_)
	j.chosen = j.newLists(train)
	if j.problem.X.NumRows() == 0 {
		return ErrNoRows
	}
	return j.problem.Validate()
}

// encodeTrain makes the problem of the training events, and keeps of them only what a version needs besides.
func (j *refitJob) encodeTrain(events []event.Event, weights []float64) {
	if !j.vocab.Augment {
		j.groups = findGroups(j.schema, events, j.vocab.NumFields())
	}
	train, kept := encode(j.vocab, j.target, events, weights)
	j.train, j.weights = train, kept
	j.problem = &solver.Problem{X: train.x, Targets: train.targets, Weights: kept, Outputs: j.target.Outputs(),
		Loss: j.target.Loss, Field: j.vocab.field, NumFields: j.vocab.NumFields()}
	if j.target.Fitted != nil {
		j.problem.Loss = j.target.Fitted
	}
	j.means = fitMeans(j.target, kept, j.baselineField(), train.events)
	j.least = j.means.leastLoss(kept, train.events)
	j.golden = slices.Clone(train.events[:min(goldenEvents, len(train.events))])
	if j.keepsDual() {
		j.rowIDs = idsOf(train.events)
	}
	j.keepNumbers(train)
	train.events = nil
}

// stages runs the convex stage and, where it applies, the variational one.
func (j *refitJob) stages(ctx context.Context, warm *warmStart) (*candidate, *variationalFit, error) {
	settings, err := j.settings()
	if err != nil {
		return nil, nil, err
	}
	settings.Tolerance = streamTolerance
	fading := j.selectWeights()
	j.judge = func(m *solver.Model) float64 { return j.select_.loss(j.target, m, fading) }
	variational := j.model.Train.Refit == "variational"
	k := j.model.Train.VariationalBasis(j.problem.X.NumRows())
	alone := j.model.Train.ConvexAlone()
	if variational && !alone {
		settings.MaxBasis = k
	}
	if variational && warm != nil && warm.lean && warm.posterior != nil {
		if best, fit, err := j.sweepAlone(ctx, warm, k); err != nil || best != nil {
			return best, fit, err
		}
	}
	var best *candidate
	var vectors *solver.Model // all vectors found, the candidate for the variational stage's basis
	switch a := j.another(); {
	case a != nil:
		if a, err = j.overBasis(ctx, a, warm, settings); err == nil {
			best, err = j.fitBy(ctx, a, warm, settings, func(m *solver.Model) float64 { return j.selectLoss(m, fading) })
		}
	case j.plain:
		best, err = j.linearOnly(ctx, settings)
	case warm != nil && (warm.mapWeights == nil || warm.model.NumBasis > 0 || j.vocab.Map != nil): // else maps are no longer asked for
		settings.MaxSteps = j.model.Train.NewBasis
		if warm.posterior != nil && !alone {
			settings.MaxSteps = max(0, k-warm.posterior.NumBasis)
		}
		best, err = j.resume(ctx, warm, settings)
	default:
		best, err = j.coldStart(ctx, settings)
	}
	if err != nil {
		return nil, nil, err
	}
	if j.budget.over(ctx) {
		return best, nil, nil
	}
	if !variational {
		best, err = j.finish(ctx, best, settings)
		return best, nil, err
	}
	if vectors = best.result.Model; best.path != nil && best.path.NumBasis > vectors.NumBasis {
		vectors = best.path
	}
	if alone {
		if vectors, err = j.startVectors(ctx, best.model, warm, k, settings); err != nil {
			return nil, nil, err
		}
		if j.budget.over(ctx) {
			return best, nil, nil
		}
	}
	fit, err := j.variational(ctx, warm, vectors, k, j.model.Train.Sweeps, &j.budget)
	if err == nil && fit != nil && warm != nil && warm.posterior != nil && fit.loss > best.loss {
		fit, err = j.anew(ctx, fit, vectors, k)
	}
	if err == nil && (alone || fit == nil || !(fit.loss <= best.loss)) && !j.budget.endedInSweeps() {
		best, err = j.finish(ctx, best, settings)
	}
	return best, fit, err
}

// variational runs the variational stage, from nothing without a warm start that has one, with basis vectors of the convex stage where it has room.
func (j *refitJob) variational(ctx context.Context, warm *warmStart, vectors *solver.Model, k, sweeps int, b *budget) (*variationalFit, error) {
	prior := priorFor(j.target.Likelihood, j.problem)
	if j.restarted {
		sweeps *= restartSweeps
	}
	sweep := func(s *posterior.State, b *budget) (*variationalFit, error) {
		addVectors(s, vectors, prior, k)
		return j.sweep(ctx, s, &sweeping{problem: j.problem, prior: prior, limit: sweeps, judge: j.judge, budget: b})
	}
	if warm == nil || warm.posterior == nil {
		return sweep(j.newPosterior(vectors, prior, k), b)
	}
	stage := &continuation{state: warm.posterior, prior: prior, last: warm.precisions.Stage, both: warm.bothPrecisions, sweep: sweep, losses: func(m *solver.Model) []float64 { return j.losses(m) },
		weight: j.selectWeights(), budget: b}
	fit, began, compared, err := stage.run()
	j.precisions = precisionChoice{Stage: began, Refits: warm.precisions.Refits + 1}
	if compared {
		j.precisions.Refits = 0
	}
	return fit, err
}

// anew runs the variational stage once more, from nothing, after one that went on from the last and predicts worse than the convex stage: that one has
// not left behind what no longer holds. The better of the two counts. One that the clock cuts short does not, so that it can be repeated without.
func (j *refitJob) anew(ctx context.Context, warm *variationalFit, vectors *solver.Model, k int) (*variationalFit, error) {
	if j.restarted || j.repeats != nil && !j.repeats.Anew || j.budget.endedInSweeps() {
		return warm, nil
	}
	own := budget{deadline: j.budget.deadline}
	fit, err := j.variational(ctx, nil, vectors, k, restartSweeps*j.model.Train.Sweeps, &own)
	switch {
	case own.cut != nil:
		j.budget.endIn(warm.sweeps)
		return warm, nil
	case err != nil:
		return nil, err
	case fit == nil || fit.loss >= warm.loss:
		return warm, nil
	}
	return fit, nil
}

// baselineField returns the categorical field of the item mean, or -1.
func (j *refitJob) baselineField() int {
	return slices.Index(j.schema.Categorical, j.model.Evaluate.BaselineBy)
}

// degenerate reports whether a model predicts the same for all of some training rows, although their labels and their features differ.
// Where features are the same, so is what any model predicts.
func (j *refitJob) degenerate(model *solver.Model) bool {
	const probe = 200
	low, high := math.Inf(1), math.Inf(-1)
	labelLow, labelHigh := math.Inf(1), math.Inf(-1)
	m := j.target.Outputs()
	outputs, work := make([]float64, m), make([]float64, 2*model.NumBasis)
	var phi []float64
	n := j.problem.X.NumRows()
	differ := false
	for i := 0; i < n; i += max(1, n/probe) {
		index, value := j.train.x.Row(i)
		firstIndex, firstValue := j.train.x.Row(0)
		differ = differ || !slices.Equal(index, firstIndex) || !slices.Equal(value, firstValue) || !slices.Equal(j.train.numbers(i), j.train.numbers(0))
		model.Predict(outputs, work, index, value)
		phi = j.vocab.addMapped(outputs, model, j.train.numbers(i), phi)
		low, high = min(low, outputs[0]), max(high, outputs[0])
		labelLow, labelHigh = min(labelLow, j.train.targets[i*m]), max(labelHigh, j.train.targets[i*m])
	}
	return differ && labelLow < labelHigh && high-low <= 1e-12*(1+math.Abs(high))
}

// IsInterrupted reports whether a refit ended without a model because its context did.
func IsInterrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
