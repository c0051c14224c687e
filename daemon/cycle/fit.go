package cycle

import (
	"context"
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/solver"
)

// FitInput is an offline fit: λ and k are chosen on the validation events.
type FitInput struct {
	Model   *config.Model
	Train   []event.Event
	Valid   []event.Event
	Lambdas []float64 // per 10,000 rows; empty chooses them from λ_max
	Workers int
	// MaxSteps bounds the basis vectors tried per λ; 0 does not.
	MaxSteps int
	// Thorough runs the convex path over all rows even where the variational stage is better on a share of them, every λ from nothing and to its end, and
	// polishes and certifies the model of every λ rather than that of the chosen one.
	Thorough bool
	// OnStep, if not nil, sees every step of every λ.
	OnStep func(report.Step)
	// OnProgress, if not nil, hears how far a stage is: so many of its units of at most so many, as it may end earlier; 0 if that is not known.
	OnProgress func(stage, unit string, done, most int)
	Group      func(*event.Event) string // ranking group, or nil
}

// FitOutcome is the chosen model and what it was chosen from.
type FitOutcome struct {
	Champion *Champion
	Units    int              // non-zero output weights
	Forms    []report.FitForm // compared on the validation events, none where there was nothing to compare
	Linear   *solver.Model    // before any basis vector, on the champion's vocabulary
	Valid    *report.Metrics  // of the model that was chosen, before it learned from the validation events; nil without any
	Means    func(ev *event.Event) (global, item float64)
}

// Fit fits one model offline, from nothing: Algorithm 1 for every λ, every k on its path scored on the validation events, then the
// variational stage where the configuration asks for it, kept if it scores better there. The path is left out where the variational stage wins on a
// share of the rows (race), or the polynomial of all products of few numbers (quadraticStage). A polynomial or a model of the variational stage
// learns from the validation events, too, once they have chosen it.
func Fit(ctx context.Context, in FitInput) (*FitOutcome, error) {
	schema := in.Model.Schema.Event()
	j := &refitJob{given: -1, rough: !in.Thorough, carries: !in.Thorough && len(in.Lambdas) == 0, model: in.Model, schema: &schema, workers: in.Workers,
		sample: &Sample{}}
	var err error
	if j.target, err = NewTarget(in.Model, classesOf(in.Train)); err != nil {
		return nil, err
	}
	weights := eventWeights(in.Train)
	if weights != nil {
		heaviest := heaviestOf(in.Train)
		j.sample.HeldOutWeights = scaledWeights(in.Valid, meanWeight(in.Train, heaviest), heaviest)
	}
	j.vocab = buildVocabulary(&schema, in.Train, in.Model.Train.Augment == "true", in.Model.Train.MaxFeatures, nil, nil)
	j.encodeTrain(in.Train, weights)
	j.select_, _ = encode(j.vocab, j.target, in.Valid, nil)
	j.bounded(j.train)
	j.bounded(j.select_)
	j.gate, j.judge = &encoded{}, j.validLoss()
	if in.OnProgress != nil {
		j.progress = &fitProgress{tell: in.OnProgress}
	}
	if err := j.problem.Validate(); err != nil {
		return nil, err
	}
	settings, err := j.settings()
	if err != nil {
		return nil, err
	}
	if in.MaxSteps > 0 {
		settings.MaxSteps = in.MaxSteps
	}
	j.relate(nil)
	unit := lambdaUnit(j.problem)
	var linear *solver.Model
	onStep := func(c *candidate) {
		j.progress.stepped(c)
		if c.step.K == 0 && j.another() == nil { // the linear model of another is another loss's
			linear = c.model
		}
		if in.OnStep != nil {
			var nu *report.Number
			if c.step.Nu > 0 {
				nu = report.Some(c.step.Nu)
			}
			gap, kind := report.Some(c.step.Gap), string(solver.Estimated)
			if c.step.Gap >= c.step.Objective {
				gap, kind = nil, "" // nothing is known, as of all steps of an algorithm without a gap
			}
			in.OnStep(report.Step{Lambda: report.Number(c.lambda / unit), K: c.step.K, Objective: report.Number(c.step.Objective),
				Gap: gap, GapKind: kind, Nu: nu,
				Valid: j.select_.metrics(j.target, c.model, in.Group), Seconds: report.Number(c.step.Seconds)})
		}
	}
	best, fit, err := j.fitStages(ctx, &in, settings, onStep)
	if err != nil {
		return nil, err
	}
	j.whole = best.quadratic
	if err := j.chooseForm(ctx, nil); err != nil && !IsInterrupted(err) {
		return nil, err
	}
	ch := j.challenger(ctx, best, fit, j.mapped(ctx, best.model, nil), nil)
	ch.Version.Decision, ch.Version.Reason = "promoted", "fitted offline"
	out := &FitOutcome{Champion: ch, Linear: linear, Forms: j.chosenForm(best)}
	if len(in.Valid) > 0 {
		out.Valid = j.select_.metrics(j.target, ch.Model, in.Group)
	}
	if best.quadratic {
		j.learnValidWhole(ctx, ch, best, &in)
	} else if err := j.learnValid(ctx, ch, fit, out); err != nil {
		return nil, err
	}
	for _, v := range ch.Model.Weights {
		if v != 0 {
			out.Units++
		}
	}
	baseline, means := j.baselineField(), ch.means
	out.Means = func(ev *event.Event) (global, item float64) {
		item = means.global
		if baseline >= 0 {
			if v, ok := means.byName[ev.Categorical[baseline]]; ok {
				item = v
			}
		}
		return means.global, item
	}
	return out, nil
}

// learnValid lets a chosen model of the variational stage learn from the validation rows, too, as learnHeldOut does in a stream.
func (j *refitJob) learnValid(ctx context.Context, ch *Champion, fit *variationalFit, out *FitOutcome) error {
	if ch.Version.Sweeps == 0 || len(j.select_.events) == 0 {
		return nil
	}
	j.swept, j.meansOfAll = fit, j.means // baselines stay those of the training rows
	if err := j.learnHeldOut(ctx, ch, fit.sweeps); err != nil {
		return err
	}
	if out.Linear != nil {
		out.Linear = mapModel(out.Linear, j.vocab, ch.Vocabulary)
	}
	return nil
}

// offlineSweeps bounds the variational sweeps of an offline fit; the validation events stop it earlier.
const offlineSweeps = 40

// validLoss returns what an offline fit chooses by: the error rate for classes, with the loss to break ties, and the squared error for numbers.
func (j *refitJob) validLoss() func(*solver.Model) float64 {
	weights := j.selectWeights()
	return func(model *solver.Model) float64 {
		loss := j.selectLoss(model, weights)
		if j.target.IsNumeric() || math.IsNaN(loss) {
			return loss
		}
		errors := weightedSum{weights: weights}
		for i, wrong := range j.errors(model) {
			errors.add(i, wrong)
		}
		return errors.mean() + 1e-6*loss/(1+loss)
	}
}

// eventWeights returns the weights of events scaled to mean 1, nil if all are equal.
func eventWeights(events []event.Event) []float64 {
	for i := range events {
		if events[i].Weight != events[0].Weight {
			heaviest := heaviestOf(events)
			return scaledWeights(events, meanWeight(events, heaviest), heaviest)
		}
	}
	return nil
}

// heaviestOf returns what the weight of an event counts as at most.
func heaviestOf(events []event.Event) float64 {
	weights := make([]float64, len(events))
	for i := range events {
		weights[i] = events[i].Weight
	}
	return (&Sample{WeightLimit: WeightLimit(weights, nil)}).heaviest()
}

func meanWeight(events []event.Event, heaviest float64) float64 {
	total := 0.0
	for i := range events {
		total += min(events[i].Weight, heaviest)
	}
	return total / float64(len(events))
}

// scaledWeights returns the weights of events over a unit.
func scaledWeights(events []event.Event, unit, heaviest float64) []float64 {
	w := make([]float64, len(events))
	for i := range events {
		w[i] = min(events[i].Weight, heaviest) / unit
	}
	return w
}
