package refit

import (
	"context"
	"fmt"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/gate"
	"github.com/refitd/refitd/daemon/cycle/refit/choose"
	"github.com/refitd/refitd/daemon/cycle/refit/convex"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/refit/variational"
	"github.com/refitd/refitd/daemon/cycle/vectors"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// goldenEvents is how many events of a sample go into a version as golden pairs. Chosen by hand.
const goldenEvents = 16

// Run makes one refit: the stages in order, each of which returns what it found, and the gate. It takes the training
// rows of the sample. The error is that of ctx where there is no model yet when it ends; else what was found so far is
// returned. See Cycle.Refit.
func Run(ctx context.Context, j *task.Task) (*fitted.Fitted, error) {
	// The record comes first: Prepare gives the rows up.
	record, err := j.Record()
	if err != nil {
		return nil, err
	}
	if err := Prepare(j); err != nil {
		return nil, err
	}
	var warm *task.WarmStart
	if j.Repeats != nil {
		warm = j.Repeats.On(j.Vocab, j.Stages.Began)
	} else {
		warm, j.Stages.Folded = variational.Continuing(j, j.Vocab)
	}
	// And its end as soon as the start is known: nothing after this line may depend on what the record lacks.
	kept, err := record.Finish(warm, j.Rows.HeldOut, j.Vocab.Numeric)
	if err != nil {
		return nil, err
	}
	j.Choices.MainOnly, j.Choices.Restarted = variational.ChooseInteractions(j, warm)
	if warm != nil && len(warm.MapWeights) > 0 {
		j.Vocab.Map = warm.FeatureMap // horizons are compared with it
	}
	if err := fade(ctx, j, warm); err != nil {
		return nil, err
	}
	if err := chooseMap(ctx, j, warm); err != nil {
		return nil, err
	}
	// Interactions, half-life and feature map are chosen: now the model.
	best, swept, err := Stages(ctx, j, warm)
	if err != nil {
		return nil, err
	}
	variational.TakeVectors(j, swept, j.Judge)
	j.Stages.Swept = swept
	ch := challenger(ctx, j, best, swept, choose.Mapped(ctx, j, best.Model, warm), warm)
	temper(j, ch)
	measure(j, ch)
	ch.CutShort, ch.Kept = j.Budget.Cut, kept
	// A version of zeros would be judged, and may be promoted, as the first one.
	if ch.CutShort != nil && ch.Target.Link != format.Identity && isZero(ch.Model) {
		return nil, errNothingLearned
	}
	gaussian, err := variational.FitGaussian(ctx, j, warm, convex.VectorsOf(j, best.Model))
	if err != nil && !task.IsInterrupted(err) {
		return nil, err
	}
	if gaussian != nil {
		j.Stages.Gaussian, ch.Gaussian, ch.Link = gaussian, gaussian.State, gaussian.Link
		j.Choices.Precisions.Gaussian = gaussian.Began
	}
	ch.Precisions = j.Choices.Precisions
	// The challenger is final, but for what it may learn from the held-out rows after the gate has used them.
	ch.GateBegan = j.Now()
	if gate.Decide(j.Judging(), ch); ch.PopularOnly {
		ch.Version.Reason += "; lists of popularity alone, as the model's are not shown to be better"
		if ch.Popular.CoChoices != nil {
			ch.Version.Reason += ", and of co-choices"
		}
	}
	ch.GateEnded = j.Now()
	if j.Guard != nil {
		ch.Holdout = j.Guard.Holdout(ch, j.Rows.Sample.Gate, j.Rows.Sample.GateAge, fitted.HalfLives[j.Choices.HalfLife])
	}
	switch {
	case j.Stages.Swept == nil || j.Model.LeavesOut(task.ChoiceHeldOut):
		return ch, nil
	// A refit that is repeated does what the version says that was done, whatever the gate says now.
	case j.Repeats != nil:
		return ch, variational.LearnHeldOut(ctx, j, ch, j.Stages.HeldOutSweeps)
	case fitted.Causes[ch.Cause] == fitted.Promoted:
		return ch, variational.LearnHeldOut(ctx, j, ch, j.Stages.Swept.Sweeps)
	}
	return ch, nil
}

// fade lets the training rows fade from here on, with the half-life that the refit chooses.
func fade(ctx context.Context, j *task.Task, warm *task.WarmStart) (err error) {
	if j.Choices.HalfLife, j.Stages.Ahead, err = choose.HalfLife(ctx, j, warm); err != nil {
		return err
	}
	if h := j.Choices.HalfLife; h > 0 {
		j.Rows.Problem.Weights = fitted.Decayed(j.Rows.Problem.Weights, j.Rows.Sample.TrainAge, fitted.HalfLives[h])
	}
	return nil
}

// chooseMap puts the feature map that the refit chooses into its vocabulary.
func chooseMap(ctx context.Context, j *task.Task, warm *task.WarmStart) error {
	chosen, err := choose.ChooseFeatureMap(ctx, j, warm)
	j.Vocab.Map, j.Choices.Ridge, j.Choices.Plain = chosen.Map, chosen.Ridge, chosen.Plain
	return err
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
func challenger(ctx context.Context, j *task.Task, best *task.Candidate, variational *task.VariationalFit,
	mapped *task.MappedFit, warm *task.WarmStart) *fitted.Fitted {
	ch := &fitted.Fitted{
		Model:      best.Model,
		Vocabulary: j.Vocab,
		Target:     j.Target,
		Lambda:     best.Lambda,
		Watermark:  j.Rows.Sample.Watermark,
		Horizon:    j.Choices.HalfLife,
		Sample:     j.Rows.Sample.Digest,
		Lineage:    j.Rows.Sample.Lineage,
		Events:     &j.Rows.Sample.Events,
		Golden:     j.Rows.Golden,
		Tables:     j.Rows.Sample.Tables(),
		Properties: j.Rows.Observed,
		Means:      j.Criteria.Means,
		HeldOut:    j.Rows.HeldOut,
	}
	ch.Popular = j.Criteria.PopularAll
	v := &ch.Version
	*v = report.Version{
		Model: j.Model.Name, Kind: "refit", Status: best.Result.Status.String(), K: best.Model.NumBasis,
		Lambda: report.Number(
			best.Lambda / convex.LambdaUnit(j.Rows.Problem),
		), Rows: int64(j.Rows.Problem.X.NumRows()), Features: j.Vocab.NumColumns(), Outputs: j.Target.Outputs(),
		Objective: report.Number(
			best.Step.Objective,
		), Cut: j.Rows.Sample.Cut, HorizonEvents: fitted.HalfLife(j.Choices.HalfLife), Solver: "algorithm1:" +
			j.Model.Train.Solver,
		StochasticEpochs: best.Result.StochasticEpochs, FISTAIterations: best.Result.FISTAIterations, Warm: warm != nil,
	}
	if j.Model.Train.Refit == solver.LineSearch.String() {
		v.Solver = report.LineSearchSolver // train.solver is of refits
	}
	if best.Final {
		v.Objective = report.Number(best.Result.Objective)
	}
	if a := convex.FitAlgorithm(j); a != nil {
		v.Solver, ch.Scale = a.Name(), best.Scale
		if best.Result.Dual != nil {
			ch.Dual = &fitted.RowDual{IDs: j.Rows.RowIDs, Outputs: j.Target.Outputs(), Values: best.Result.Dual}
		}
	}
	if best.Quadratic {
		v.Solver = "products:2"
	}
	if variational != nil {
		ch.Convex = best.Model
		ch.Vectors = variational.Priors
		ch.Posterior = variational.State // the fold-in uses it even where the convex model is published
		v.Precisions = string(j.Choices.Precisions.Stage)
	}
	if variational != nil && prefers(j, variational, best) && !j.Model.Train.ConvexAlone() {
		ch.Model = variational.Model
		v.K = variational.Model.NumBasis
		v.Form = format.FormVariational
		v.Solver += "+variational"
		v.MainEffects = j.Vocab.FieldNames(variational.State.MainOnly)
		v.Sweeps, v.Evidence = variational.Sweeps, report.Some(variational.Evidence)
	} else {
		convex.Optimality(ctx, j, v, best)
	}
	if mapped != nil {
		ch.Model, ch.MapRidge = mapped.Model, mapped.Ridge
		v.Solver += "+map"
		v.FeatureMap = encode.MapText(j.Vocab.Map)
	}
	return ch
}

// measure says how good a challenger is by the select rows and those of the gate, before the gate decides.
func measure(j *task.Task, ch *fitted.Fitted) {
	by, v := j.Judging(), &ch.Version
	if by.Criteria.Lists != nil {
		if ch.PopularOnly = !by.Lifts(ch.Model); ch.PopularOnly {
			ch.Popular = ch.Popular.Calibrated(j.CalibratePopular())
		}
	}
	j.InParallel(func() { v.Select = evaluate.MetricsOf(j.Rows.Select_, j.Target, ch.Model, encode.GroupOf(j.Model)) },
		func() { v.Gate = evaluate.MetricsOf(j.Rows.Gate, j.Target, ch.Model, encode.GroupOf(j.Model)) })
	if by.Criteria.Lists != nil {
		by.ListsOf(by.Rows.Gate, by.Listed(ch, ch.Model), j.Vocab).Hits.AddTo(v.Gate)
	}
}

// temper multiplies the outputs of a model that is no mean of a posterior: those of a posterior are as sure as it is.
func temper(j *task.Task, ch *fitted.Fitted) {
	if ch.Version.Form == format.FormVariational {
		return
	}
	if factor := j.InverseTemperature(ch.Model); factor != 1 {
		ch.Model, ch.Factor = task.Scaled(ch.Model, factor), factor
		ch.Version.Solver += "+temperature"
	}
}

// prefers reports whether the variational stage predicts the select rows no worse than the best model of the convex
// one: choices by their lists.
func prefers(j *task.Task, variational *task.VariationalFit, best *task.Candidate) bool {
	if j.Model.LeavesOut(task.ChoiceStage) {
		return true
	}
	if j.Criteria.Chosen != nil {
		by := j.Judging()
		return !(by.ListLoss(variational.Model) > by.ListLoss(best.Model))
	}
	return variational.Loss <= best.Loss || !gate.SelectDecides(j)
}

// Prepare decodes the sample, builds the vocabulary and encodes the parts.
func Prepare(j *task.Task) error {
	// Training rows, rows to select on, rows of the gate: no row is in two of them.
	train, selected, held, err := j.Rows.Sample.Decode(j.InParallel)
	if err != nil {
		return err
	}
	j.Rows.Sample.Train = nil // encoded rows are all that is needed from here on
	if j.Target, err = encode.NewTarget(j.Model, encode.ClassesOf(train)); err != nil {
		return err
	}
	j.Rows.Observed = encode.Observed(j.Schema, train, j.Rows.Sample.TrainAge)
	j.Rows.Vectors = vectors.Of(j.Rows.Sample.Tables())
	j.Criteria.PopularLearned, j.Criteria.PopularAll = j.CountChoices(train, selected, held)
	train, held, j.Rows.HeldOut = gate.HoldOutEntities(j, train, held)
	encode.LimitLabels(j.Target, train, selected, held)
	weights := j.Rows.Sample.Weights
	j.InParallel(func() {
		limits := choose.Limits(j, train)
		j.Vocab = encode.BuildVocabulary(j.Schema, train, j.Model.Train.Augment == "true", j.Model.Train.MaxFeatures,
			limits, j.LastScales())
		knowVectors(j)
		choose.LimitNumbers(j.Vocab.Numeric, train, selected, held)
		j.Rows.Recent = variational.RecentOf(j, train)
		encodeTrain(j, train, weights)
		j.Rows.Select_, _ = encode.Encode(j.Vocab, j.Target, selected, nil)
	}, func() {
		j.Criteria.MeansOfAll = variational.FitAllBaselineMeans(j, train, selected, held)
		fillVectors(j)
	})
	j.Rows.Gate, _ = encode.Encode(j.Vocab, j.Target, held, nil)
	j.Bounded(j.Rows.Train)
	j.Bounded(j.Rows.Select_)
	j.Criteria.Chosen = j.NewLists(train)
	if j.Rows.Problem.X.NumRows() == 0 {
		return encode.ErrNoRows
	}
	return j.Rows.Problem.Validate()
}

// knowVectors gives all names that have vectors columns, behind those of the sample.
func knowVectors(j *task.Task) {
	for _, c := range j.Rows.Vectors {
		j.Vocab.AddNames(c.Field, c.Names, j.Model.Train.MaxFeatures)
	}
}

// fillVectors computes their coordinates.
func fillVectors(j *task.Task) {
	for _, c := range j.Rows.Vectors {
		c.Fill(j.Rows.Sample.Tables())
	}
}

// encodeTrain makes the problem of the training events, and keeps only what a version needs in addition.
func encodeTrain(j *task.Task, events []event.Event, weights []float64) {
	if !j.Vocab.Augment {
		j.Rows.Groups = encode.FindGroups(j.Schema, events, j.Vocab.NumFields())
	}
	train, kept := encode.Encode(j.Vocab, j.Target, events, weights)
	j.Rows.Train, j.Rows.Weights = train, kept
	j.Rows.Problem = &solver.Problem{X: train.X, Targets: train.Targets, Weights: kept, Outputs: j.Target.Outputs(),
		Loss: j.Target.Loss, Field: j.Vocab.Field, NumFields: j.Vocab.NumFields()}
	if j.Target.Fitted != nil {
		j.Rows.Problem.Loss = j.Target.Fitted
	}
	j.Criteria.Means = fitted.FitBaselineMeans(j.Target, kept, j.BaselineField(), train.Events)
	j.Criteria.Least = j.Criteria.Means.LeastLoss(kept, train.Events)
	j.Rows.Golden = slices.Clone(train.Events[:min(goldenEvents, len(train.Events))])
	if convex.KeepsDual(j) {
		j.Rows.RowIDs = convex.IdsOf(train.Events)
	}
	choose.KeepNumbers(j, train)
	train.Events = nil
}

// Stages runs the convex stage and, where it applies, the variational one.
func Stages(ctx context.Context, j *task.Task, warm *task.WarmStart) (*task.Candidate, *task.VariationalFit, error) {
	settings, err := convex.Settings(j)
	if err != nil {
		return nil, nil, err
	}
	settings.Tolerance = task.StreamTolerance
	fading := j.SelectWeights()
	j.Judge = func(m *solver.Model) float64 { return evaluate.Loss(j.Rows.Select_, j.Target, m, fading) }
	variational := j.Model.Train.Refit == "variational"
	k := j.Model.Train.VariationalBasis(j.Rows.Problem.X.NumRows())
	alone := j.Model.Train.ConvexAlone()
	if variational && !alone {
		settings.MaxBasis = k
	}
	if variational && warm != nil && warm.Lean && warm.Posterior != nil {
		// Where the convex stage cannot win (WarmStart.Lean): sweeps alone, unless they gain nothing.
		if best, fit, err := SweepAlone(ctx, j, warm, k); err != nil || best != nil {
			return best, fit, err
		}
	}
	var vectors *solver.Model // all vectors found, the candidate for the variational stage's basis
	best, err := convexStage(ctx, j, warm, &settings, k)
	if err != nil {
		return nil, nil, err
	}
	if j.Budget.Over(ctx) {
		return best, nil, nil
	}
	if !variational {
		best, err = convex.Finish(ctx, j, best, settings)
		return best, nil, err
	}
	// Vectors of the path's end start the sweeps, even where an earlier model of it is best: sweeps prune.
	if vectors = best.Result.Model; best.Path != nil && best.Path.NumBasis > vectors.NumBasis {
		vectors = best.Path
	}
	if alone {
		if vectors, err = convex.StartVectors(ctx, j, best.Model, warm, k, settings); err != nil {
			return nil, nil, err
		}
		if j.Budget.Over(ctx) {
			return best, nil, nil
		}
	}
	fit, err := variationalStage(ctx, j, warm, vectors, k, j.Model.Train.Sweeps, j.Budget)
	if err == nil && fit != nil && warm != nil && warm.Posterior != nil &&
		(fit.Loss > best.Loss || !gate.SelectDecides(j)) {
		fit, err = reset(ctx, j, fit, vectors, k)
	}
	if err == nil && (alone || fit == nil || !(fit.Loss <= best.Loss)) && !j.Budget.EndedInSweeps() {
		best, err = convex.Finish(ctx, j, best, settings)
	}
	return best, fit, err
}

// convexStage runs the algorithm that the model asks for, or Algorithm 1 from the warm start or from nothing. It sets
// the steps of a warm one, which leaves k vectors to a variational stage.
func convexStage(ctx context.Context, j *task.Task, warm *task.WarmStart, settings *solver.Settings,
	k int) (*task.Candidate, error) {
	switch a := convex.FitAlgorithm(j); {
	case a != nil:
		a, err := convex.OverBasis(ctx, j, a, warm, *settings)
		if err != nil {
			return nil, err
		}
		fading := j.SelectWeights()
		return convex.FitBy(ctx, j, a, warm, *settings, func(m *solver.Model) float64 { return j.SelectLoss(m, fading) })
	case j.Choices.Plain:
		return convex.LinearOnly(ctx, j, *settings)
	case warm != nil && (warm.MapWeights == nil || warm.Model.NumBasis > 0 || j.Vocab.Map != nil):
		// else maps are no longer asked for
		// A warm refit adds few vectors: the next one adds others.
		settings.MaxSteps = j.Model.Train.NewBasis
		if warm.Posterior != nil && !j.Model.Train.ConvexAlone() {
			settings.MaxSteps = max(0, k-warm.Posterior.NumBasis)
		}
		return convex.Resume(ctx, j, warm, *settings)
	}
	return convex.ColdPath(ctx, j, *settings)
}

// variationalStage runs the variational stage, from nothing without a warm start that has one, with basis vectors of
// the convex stage where it has room.
func variationalStage(ctx context.Context, j *task.Task, warm *task.WarmStart, vectors *solver.Model, k, sweeps int,
	b *task.Budget) (*task.VariationalFit, error) {
	prior := variational.PriorFor(j.Target.Likelihood, j.Rows.Problem)
	if j.Choices.Restarted {
		sweeps *= variational.RestartSweeps
	}
	sweep := func(s *posterior.State, b *task.Budget) (*task.VariationalFit, error) {
		variational.AddVectors(s, vectors, prior, k)
		return variational.Sweep(ctx, j, s,
			&task.Sweeping{Problem: j.Rows.Problem, Prior: prior, Limit: sweeps, Judge: j.Judge, Budget: b})
	}
	if warm == nil || warm.Posterior == nil {
		return sweep(variational.NewPosterior(j, vectors, prior, k), b)
	}
	stage := &task.Continuation{
		State:      warm.Posterior,
		Prior:      prior,
		Last:       warm.Precisions.Stage,
		Both:       warm.BothPrecisions,
		ByEvidence: !gate.SelectDecides(j),
		Sweep:      sweep,
		Losses:     func(m *solver.Model) []float64 { return choose.Losses(j, m) },
		Weight:     j.SelectWeights(),
		Budget:     b,
	}
	fit, began, compared, err := variational.Run(stage)
	j.Choices.Precisions = fitted.PrecisionChoice{Stage: began, Refits: warm.Precisions.Refits + 1}
	if compared {
		j.Choices.Precisions.Refits = 0
	}
	return fit, err
}

// reset runs the variational stage once more, from nothing, if it continued the last one and predicts worse than the
// convex stage, or the select rows cannot say: it may hold what is no longer true. The better of the two counts,
// without such rows by its evidence. One that the clock cuts short does not, so that the refit can be repeated
// without it.
func reset(ctx context.Context, j *task.Task, warm *task.VariationalFit, vectors *solver.Model,
	k int) (*task.VariationalFit, error) {
	if j.Model.LeavesOut(task.ChoiceRestart) {
		return warm, nil
	}
	if j.Choices.Restarted || j.Repeats != nil && !j.Repeats.Anew || j.Budget.EndedInSweeps() {
		return warm, nil
	}
	// Another budget: what the clock ends here is given up whole, so it must not be noted in the version.
	own := task.Budget{Deadline: j.Budget.Deadline}
	fit, err := variationalStage(ctx, j, nil, vectors, k, variational.RestartSweeps*j.Model.Train.Sweeps, &own)
	switch {
	case own.Cut != nil:
		j.Budget.EndIn(warm.Sweeps)
		return warm, nil
	case err != nil:
		return nil, err
	case fit == nil:
		return warm, nil
	case gate.SelectDecides(j) && fit.Loss >= warm.Loss, !gate.SelectDecides(j) && !(fit.Evidence > warm.Evidence):
		return warm, nil
	}
	return fit, nil
}
