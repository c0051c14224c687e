package fit

import (
	"context"
	"slices"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/refit"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/progress"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/report"
)

// Options say what to fit on which rows. Parts that have a file take no share of Data, the others keep their
// proportions.
type Options struct {
	Data   string         `required:"" placeholder:"FILE"              help:"Labelled events; - is standard input; gzip, zstd and bzip2 are detected."`
	Format dataset.Format `            placeholder:"FORMAT"            help:"{formatsOfFit}"                                                                                                       enum:",{formatNames}"  default:""`
	// Format was detected by the first line of --data: other files may have others
	Detected bool                 `                                                                                                                                                                                                                                           kong:"-"`
	Files    offline.TableFiles   `embed:""`
	Table    offline.TableOptions `                                                                                                                                                                                                                                                    embed:""`
	Valid    string               `            placeholder:"FILE"              help:"Events to choose λ and the number of basis vectors on, in place of a part of --data."`
	Test     string               `            placeholder:"FILE"              help:"Events to test the choice on, in place of a part of --data."`
	Split    dataset.Fractions    `                                            help:"Shares of --data to train, validate and test on; parts with a file take none."                                                                                   default:"0.5,0.25,0.25"`
	Store    string               `            placeholder:"DIR"               help:"Publish the model there and make it champion, unless it was interrupted."`
	Path     string               `            placeholder:"FILE.svg|FILE.png" help:"Print the regularisation path and plot it against basis vectors and seconds."`
	MaxSteps int                  `            placeholder:"N"                 help:"Most basis vectors to try for each λ."`
	Thorough bool                 `                                            help:"Run the whole convex path, polish and certify each strength, whatever wins on a share of the rows; --path does, too."`
	Strict   bool                 `                                            help:"Publish nothing and exit with code 1, after the summary, if a line of the files is no event."`

	// of a configuration or of ModelOf, with the AlgorithmFlags in it; Fit completes and resolves it
	Model       *config.Model `kong:"-"`
	SplitByTime bool          `kong:"-"` // train on the oldest events and test on the newest
	Seed        uint64        `kong:"-"` // of the split and of the training
	// per 10,000 rows of weight; empty takes that of the model, or several below λ_max
	Lambdas  []float64        `kong:"-"`
	OfMax    []bool           `kong:"-"` // those of Lambdas that are fractions of λ_max; nil for none
	Now      func() time.Time `kong:"-"`
	Progress *progress.Meter  `kong:"-"` // nil shows none
}

// RankingField is the field whose values are ranked for, unless a flag says otherwise.
const RankingField = "user"

// Run fits a model to a file: λ and k are chosen on the validation rows, and the summary has its quality on the test
// rows.
// An interrupted fit ends with the best model so far and status interrupted.
func Run(ctx context.Context, o Options, out *report.Emitter) error {
	began := o.Now()
	if o.Model.Schema.Task == config.Implicit {
		return offline.Usage(
			"--model",
			"fit takes events with labels, and those of task implicit are choices alone: backtest --store DIR learns and "+
				"publishes them",
		)
	}
	o.Model.Train.Seed = o.Seed
	if err := CheckFigure("--path", o.Path); err != nil {
		return err
	}
	parts, err := ReadParts(&o, out)
	if err != nil {
		return err
	}
	if err := Check(o.Model, fitFlags); err != nil {
		return err
	}
	versions, err := publish.New(o.Model, o.Store, o.Now, nil)
	if err != nil {
		return offline.StoreError(err, o.Store)
	}
	var emitErr error
	var path report.Path
	in := task.FitInput{
		Model:    o.Model,
		Train:    parts.train,
		Valid:    parts.valid,
		Tables:   parts.known,
		Lambdas:  o.Lambdas,
		OfMax:    o.OfMax,
		Workers:  o.Model.Train.Threads,
		MaxSteps: o.MaxSteps,
		Thorough: o.Thorough || o.Path != "",
		Group:    GroupBy(&o.Model.Schema, RankingField),
		OnStep: func(s report.Step) {
			if len(parts.valid) == 0 {
				s.Valid = nil
			}
			if o.Path != "" {
				path.Steps = append(path.Steps, s)
			}
			if emitErr == nil {
				emitErr = out.Emit("step", s)
			}
		},
	}
	summary := report.FitSummary{
		Status:  "interrupted",
		NTrain:  len(parts.train),
		NValid:  len(parts.valid),
		NTest:   len(parts.test),
		Seed:    o.Seed,
		Dropped: parts.drops,
		Absent:  parts.absent,
	}
	refused := offline.Strictly(o.Strict, parts.drops, out)
	o.Progress.Stage("comparing stages", "", 0)
	in.OnProgress = showStages(o.Progress)
	fit, err := refit.Fit(ctx, in)
	switch {
	case emitErr != nil:
		return emitErr
	case err != nil && !task.IsInterrupted(err):
		return &report.ExitError{Code: report.ExitUsage, Err: err, Path: o.Data}
	case err == nil:
		if err := summarize(ctx, &summary, in, fit, parts); err != nil {
			return err
		}
		if o.Store != "" && refused == nil && ctx.Err() == nil {
			fit.Champion.Watermark = parts.Watermark()
			v := &fit.Champion.Version
			v.TrainSeconds = report.Seconds(o.Now().Sub(began))
			if err := versions.Publish(ctx, fit.Champion); err != nil {
				return offline.StoreError(err, o.Store)
			}
			summary.Snapshot = &report.SnapshotRef{
				Store:         o.Store,
				Model:         o.Model.Name,
				Version:       v.Version,
				PayloadDigest: v.PayloadDigest,
			}
		}
	}
	if o.Path != "" {
		if err := writePath(o.Path, &path, out); err != nil {
			return err
		}
	}
	summary.Seconds = report.Seconds(o.Now().Sub(began))
	if err := out.Emit("summary", summary); err != nil {
		return err
	}
	return refused
}

// showStages returns what shows a fit's progress, stage by stage, on a meter.
func showStages(meter *progress.Meter) func(stage, unit string, done, most int) {
	shown := ""
	return func(stage, unit string, done, most int) {
		if stage != shown || done == 0 {
			meter.Stage(stage, unit, 0)
			shown = stage
		}
		meter.Set(int64(done), int64(most))
	}
}

// summarize fills in what the fit chose and how good it is.
func summarize(ctx context.Context, s *report.FitSummary, in task.FitInput, fit *refit.FitOutcome,
	parts *fitParts) error {
	ch := fit.Champion
	v := &ch.Version
	s.Status, s.Lambda, s.K, s.Units = v.Status, v.Lambda, v.K, fit.Units
	s.Objective, s.Form, s.Gap, s.GapRelative, s.GapKind = v.Objective, v.Form, v.Gap, v.GapRelative, v.GapKind
	s.GapLimit, s.FeatureMap = v.GapLimit, v.FeatureMap
	s.BasisGap, s.BasisGapRelative, s.NuclearNorm, s.Forms = v.BasisGap, v.BasisGapRelative, v.NuclearNorm, fit.Forms
	s.Features, s.Outputs, s.Sweeps, s.Evidence, s.HeldOutSweeps = v.Features, v.Outputs, v.Sweeps, v.Evidence,
		v.HeldOutSweeps
	if len(parts.valid) > 0 {
		s.Valid = fit.Valid
	}
	if s.NLearned = s.NTrain; v.HeldOutSweeps > 0 || v.Rows > int64(s.NTrain) {
		s.NLearned += s.NValid
	}
	if len(parts.test) == 0 {
		return nil
	}
	s.Test = evaluate.Metrics(ch.Target, ch.Vocabulary, ch.Model, parts.test, in.Group)
	if ch.Target.IsNumeric() {
		s.Baselines.GlobalMean = meanMetrics(ch.Target, parts.test, in.Group, func(ev *event.Event) float64 {
			global, _ := fit.Means(ev)
			return global
		})
		if in.Model.Evaluate.BaselineBy != "" {
			s.Baselines.ItemMean = meanMetrics(ch.Target, parts.test, in.Group, func(ev *event.Event) float64 {
				_, item := fit.Means(ev)
				return item
			})
		}
	}
	linear, err := linearMetrics(ctx, in, fit, parts.test)
	s.Baselines.Linear = linear
	return err
}

// meanMetrics are METRICS of a predictor of numbers.
func meanMetrics(t *encode.Target, events []event.Event, group func(*event.Event) string,
	predict func(*event.Event) float64) *report.Metrics {
	q := evaluate.NewQuality(t, group)
	for i := range events {
		q.AddNumber(&events[i], predict(&events[i]))
	}
	return q.Metrics()
}

// linearRidge is the ridge of the linear baseline where the model has no linear term: the default of train.linear.
const linearRidge = 0.5

// linearMetrics are METRICS of a linear model with the same loss: the start of the path if it has a linear term, else
// one that is fitted for this purpose. It is nil once ctx is done.
func linearMetrics(ctx context.Context, in task.FitInput, fit *refit.FitOutcome,
	test []event.Event) (*report.Metrics, error) {
	ch := fit.Champion
	if fit.Linear != nil && fit.Linear.Linear != nil {
		return evaluate.Metrics(ch.Target, ch.Vocabulary, fit.Linear, test, in.Group), nil
	}
	m := *in.Model
	m.Choose(config.ConditionalGradient, 2)
	m.Train.Kernel, m.Train.Augment, m.Train.Refit, m.Train.MaxBasis, m.Train.Linear = "anova", "false", "output", 0,
		linearRidge
	m.Resolve()
	m.Train.FeatureMap = "" // which is not linear
	// λ weighs the basis vectors only, and this model has none
	in.Model, in.OnStep, in.Lambdas, in.OfMax = &m, nil, []float64{1}, nil
	linear, err := refit.Fit(ctx, in)
	if task.IsInterrupted(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return evaluate.Metrics(linear.Champion.Target, linear.Champion.Vocabulary, linear.Champion.Model, test,
		in.Group), nil
}

// GroupBy returns the ranking group of numeric and binary labels: the name in a categorical field. It is nil for other
// tasks and without such a field.
func GroupBy(s *config.Schema, field string) func(*event.Event) string {
	f, task := slices.Index(s.Categorical, field), event.Task(s.Task)
	if f < 0 || !task.IsNumeric() && task != event.Binary {
		return nil
	}
	return func(ev *event.Event) string { return ev.Categorical[f] }
}
