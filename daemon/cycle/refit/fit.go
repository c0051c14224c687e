package refit

import (
	"context"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/choose"
	"github.com/refitd/refitd/daemon/cycle/refit/convex"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/refit/variational"
	"github.com/refitd/refitd/daemon/cycle/vectors"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/solver"
)

// FitOutcome is the chosen model and what it was chosen from.
type FitOutcome struct {
	Champion *fitted.Fitted
	Units    int              // non-zero output weights
	Forms    []report.FitForm // compared on the validation events, none where there was nothing to compare
	Linear   *solver.Model    // before any basis vector, on the champion's vocabulary
	// of the model that was chosen, before it learned from the validation events; nil without any
	Valid *report.Metrics
	Means func(ev *event.Event) (global, item float64)
}

// Fit fits one model offline, from nothing: Algorithm 1 for every λ, every k on its path scored on the validation
// events, then the variational stage where the configuration asks for it, kept if it scores better there. The path is
// left out where the variational stage wins on a share of the rows (race), or the polynomial of all products of few
// numbers (QuadraticStage). A polynomial or a model of the variational stage learns from the validation events, too,
// once they have chosen it.
func Fit(ctx context.Context, in task.FitInput) (*FitOutcome, error) {
	schema := in.Model.Schema.Event()
	j := &task.Task{
		Rough:   !in.Thorough,
		Carries: !in.Thorough && len(in.Lambdas) == 0,
		Model:   in.Model,
		Schema:  &schema,
		Process: task.Process{Workers: in.Workers, Budget: new(task.Budget)},
		Choices: task.Choices{
			Given: -1,
		},
		Rows: task.Rows{
			Sample: &encode.Sample{},
		},
	}
	j.Rows.Sample.SetTables(in.Tables)
	var err error
	if j.Target, err = encode.NewTarget(in.Model, encode.ClassesOf(in.Train)); err != nil {
		return nil, err
	}
	// No sample store here: weights are scaled, and outliers of them cut off, by the training events alone.
	weights := task.EventWeights(in.Train)
	if weights != nil {
		heaviest := task.HeaviestOf(in.Train)
		j.Rows.Sample.HeldOutWeights = task.ScaledWeights(in.Valid, task.MeanWeight(in.Train, heaviest), heaviest)
	}
	j.Vocab = encode.BuildVocabulary(&schema, in.Train, in.Model.Train.Augment == "true", in.Model.Train.MaxFeatures,
		nil, nil)
	j.Rows.Vectors = vectors.Of(in.Tables)
	knowVectors(j)
	fillVectors(j)
	encodeTrain(j, in.Train, weights)
	j.Rows.Select_, _ = encode.Encode(j.Vocab, j.Target, in.Valid, nil)
	j.Bounded(j.Rows.Train)
	j.Bounded(j.Rows.Select_)
	// There is no gate: what validation events choose is what comes out.
	j.Rows.Gate, j.Judge = &encode.Encoded{}, j.ValidLoss()
	if in.OnProgress != nil {
		j.Progress = &task.FitProgress{Report: in.OnProgress}
	}
	if err := j.Rows.Problem.Validate(); err != nil {
		return nil, err
	}
	settings, err := convex.Settings(j)
	if err != nil {
		return nil, err
	}
	if in.MaxSteps > 0 {
		settings.MaxSteps = in.MaxSteps
	}
	j.Choices.MainOnly, _ = variational.ChooseInteractions(j, nil)
	unit := convex.LambdaUnit(j.Rows.Problem)
	if slices.Contains(in.OfMax, true) {
		if in.Lambdas, err = fractionsOfMax(ctx, j, &in, settings); err != nil {
			return nil, err
		}
	}
	var linear *solver.Model
	// Steps of several λ interleave; linear is the last model without basis vectors of any.
	onStep := func(c *task.Candidate) {
		stepped(j.Progress, c)
		if c.Step.K == 0 && convex.FitAlgorithm(j) == nil { // the linear model of another is another loss's
			linear = c.Model
		}
		if in.OnStep != nil {
			step := stepReport(c, unit)
			step.Valid = evaluate.MetricsOf(j.Rows.Select_, j.Target, c.Model, in.Group)
			in.OnStep(step)
		}
	}
	best, fit, forms, err := fitStages(ctx, j, &in, settings, onStep)
	if err != nil {
		return nil, err
	}
	variational.TakeVectors(j, fit, j.Judge)
	// A polynomial has all products already: maps of products are left out of the comparison.
	j.Choices.Whole = best.Quadratic
	if err := chooseMap(ctx, j, nil); err != nil && !task.IsInterrupted(err) {
		return nil, err
	}
	ch := challenger(ctx, j, best, fit, choose.Mapped(ctx, j, best.Model, nil), nil)
	measure(j, ch)
	ch.Version.Decision, ch.Version.Reason = "promoted", "fitted offline"
	out := &FitOutcome{Champion: ch, Linear: linear,
		Forms: convex.MarkChosen(forms, best, int64(j.Rows.Problem.X.NumRows()))}
	if len(in.Valid) > 0 {
		out.Valid = evaluate.MetricsOf(j.Rows.Select_, j.Target, ch.Model, in.Group)
	}
	if best.Quadratic {
		convex.LearnValidWhole(ctx, j, ch, best, &in)
	} else if err := learnValid(ctx, j, ch, fit, out); err != nil {
		return nil, err
	}
	for _, v := range ch.Model.Weights {
		if v != 0 {
			out.Units++
		}
	}
	out.Means = meansBy(ch.Means, j.BaselineField())
	return out, nil
}

// meansBy returns the baselines of an event: the mean of all, and that of its name in a field, -1 for none.
func meansBy(means *fitted.BaselineMeans, field int) func(ev *event.Event) (global, item float64) {
	return func(ev *event.Event) (global, item float64) {
		item = means.Global
		if field >= 0 {
			if v, ok := means.ByName[ev.Categorical[field]]; ok {
				item = v
			}
		}
		return means.Global, item
	}
}

// stepReport describes a step; unit is that of its λ.
func stepReport(c *task.Candidate, unit float64) report.Step {
	step := report.Step{Lambda: report.Number(c.Lambda / unit), K: c.Step.K, Objective: report.Number(c.Step.Objective),
		Gap: report.Some(c.Step.Gap), GapKind: string(solver.Estimated), Seconds: report.Number(c.Step.Seconds)}
	if c.Step.Nu > 0 {
		step.Nu = report.Some(c.Step.Nu)
	}
	if c.Step.Gap >= c.Step.Objective {
		step.Gap, step.GapKind = nil, "" // unknown, as for all steps of an algorithm without a gap
	}
	return step
}

// learnValid lets a chosen model of the variational stage learn from the validation rows, too, as LearnHeldOut does in
// a stream.
func learnValid(ctx context.Context, j *task.Task, ch *fitted.Fitted, fit *task.VariationalFit, out *FitOutcome) error {
	if ch.Version.Sweeps == 0 || len(j.Rows.Select_.Events) == 0 {
		return nil
	}
	j.Stages.Swept, j.Criteria.MeansOfAll = fit, j.Criteria.Means // baselines stay those of the training rows
	if err := variational.LearnHeldOut(ctx, j, ch, fit.Sweeps); err != nil {
		return err
	}
	if out.Linear != nil {
		out.Linear = convex.MapModel(out.Linear, j.Vocab, ch.Vocabulary)
	}
	return nil
}

// offlineSweeps bounds the variational sweeps of an offline fit; the validation events stop it earlier. Chosen by
// hand.
const offlineSweeps = 40
