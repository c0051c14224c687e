package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline/fit"
	"github.com/refitd/refitd/daemon/report"
)

// fitCmd is fit. Flags that are not given leave the configuration, or the defaults, as they are.
type fitCmd struct {
	fit.Options
	fit.AlgorithmFlags

	ConfigFile string `name:"config.file" placeholder:"FILE" help:"Configuration file with the model; else the format says what is predicted."`
	Model      string `                   placeholder:"NAME" help:"Model of the configuration, and its name in --store."`

	Task     string         `enum:",{tasks}"                             default:"" placeholder:"TASK"       help:"What the label is: {tasksText}. Default: ordinal or, for libsvm, multiclass."`
	Kernel   string         `enum:",auto,anova,homogeneous"              default:"" placeholder:"KERNEL"     help:"anova (distinct features) or homogeneous; default by fields."`
	Augment  bool           `                                                                                help:"Add a constant feature, which gives a homogeneous kernel linear terms."`
	Penalty  string         `enum:",l1,l1l2,l1linf"                      default:"" placeholder:"l1linf"     help:"Penalty on the output weights: l1, l1l2 or l1linf."`
	Lambda   string         `                                                       placeholder:"auto|X,Y,…" help:"Strengths of the penalty to try, per 10,000 rows of weight, or as 0.1max a fraction of the least that leaves no interactions; auto (default) tries several."`
	MaxBasis *int           `                                                       placeholder:"20"         help:"Largest number of basis vectors."`
	Refit    string         `enum:",auto,{refits}"                       default:"" placeholder:"REFIT"      help:"{refitsText}, the default where it applies."`
	Solver   string         `enum:",hybrid,fista,stochastic,svrg,newton" default:"" placeholder:"hybrid"     help:"Solver: hybrid, fista, stochastic, svrg or newton."`
	Linear   *config.Linear `                                                       placeholder:"ridge:0.5"  help:"Linear term: ridge:STRENGTH or none."`

	SplitBy string  `enum:"random,time" default:"random" help:"How to split: random, or time (test on the newest)."`
	Seed    *uint64 `                                    help:"Seed of the split and of the training."                                   placeholder:"1"`
	Threads *int    `                                    help:"Threads; by default one for each processor. Results do not depend on it." placeholder:"N"`
}

// vars replaces what the tags of flags refer to: the tasks and losses that there are. Variables of kong would cost
// each start of the program 20 ms: it looks for them in each other, once for each flag.
func vars() *strings.Replacer {
	var tasks []string
	for _, t := range event.Tasks {
		tasks = append(tasks, string(t))
	}
	losses := config.Losses()
	text := func(names []string) string {
		last := len(names) - 1
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
	algorithms, refits := config.Algorithms(), config.Refits()
	formats := text(dataset.FormatNames(false)) + "; without, the first line decides."
	return strings.NewReplacer(
		"{formats}", formats,
		"{formatsOfFit}", formats+" All but movielens and libsvm need --config.file.",
		"{formatNames}", strings.Join(dataset.FormatNames(false), ","),
		"{replayFormats}", strings.Join(dataset.FormatNames(true), ","),
		"{formatsOfReplay}", formats+" Or half-stars, as levels 1 to 10, or lines.",
		"{algorithms}", strings.Join(algorithms, ","), "{algorithmsText}", text(algorithms),
		"{refits}", strings.Join(refits, ","), "{refitsText}", text(refits),
		"{tasks}", strings.Join(tasks, ","), "{tasksText}", text(tasks),
		"{losses}", strings.Join(losses, ","), "{lossesText}", text(losses))
}

// Run fits the model, prints a line for each step, or each strength of an algorithm whose final models alone count, and
// the summary.
func (c *fitCmd) Run(a *app) error {
	var err error
	c.Detected = c.Format == ""
	if c.Format, err = c.Table.FormatOf(c.Format, c.Data); err != nil {
		return err
	}
	o := c.Options
	o.SplitByTime, o.Now = c.SplitBy == "time", time.Now
	if o.Model, err = c.model(); err != nil {
		return err
	}
	if o.Lambdas, o.OfMax, err = c.lambdas(o.Model); err != nil {
		return err
	}
	if c.MaxSteps < 0 {
		return &report.ExitError{
			Code: report.ExitUsage,
			Err:  fmt.Errorf("--max-steps is %d: give a positive number", c.MaxSteps),
			Key:  "--max-steps",
		}
	}
	if c.Store != "" && c.Model == "" && c.ConfigFile == "" {
		return &report.ExitError{
			Code: report.ExitUsage,
			Err:  errors.New("--store needs --model: the name to publish under"),
			Key:  "--model",
		}
	}
	o.Seed = o.Model.Train.Seed
	if c.Seed != nil {
		o.Seed = *c.Seed
	}
	o.Progress = a.progress("fit")
	defer o.Progress.Stop()
	return fit.Run(a.ctx, o, a.out)
}

// model returns the model of the configuration, or the one that the format implies, with the flags in it.
func (c *fitCmd) model() (*config.Model, error) {
	var m *config.Model
	if c.ConfigFile == "" {
		var err error
		if m, err = fit.ModelOf(c.Model, c.Format, c.Task, c.Data); err != nil {
			return nil, err
		}
	} else {
		if c.Task != "" {
			return nil, &report.ExitError{Code: report.ExitUsage, Err: errors.New(
				"--task cannot be combined with --config.file, whose schema says it"), Key: "--task"}
		}
		configured, err := loadModel(c.ConfigFile, c.Model, config.Exceptions{Classes: true, Offline: true, Listen: true})
		if err != nil {
			return nil, err
		}
		m = configured
	}
	c.Apply(m) // before the other flags: a choice makes what follows from it automatic again
	t := &m.Train
	if c.Kernel != "" {
		if c.Kernel != config.Auto && t.Algorithm == config.FrankWolfeSVM && t.Features != config.BasisFeatures {
			return nil, &report.ExitError{Code: report.ExitUsage, Key: "--kernel", Err: fmt.Errorf(
				"--kernel is %s: leave it out, or add --features basis, whose basis vectors have a kernel: %s of the features "+
					"themselves is linear",
				c.Kernel,
				t.Algorithm,
			)}
		}
		t.Kernel, t.Augment, t.Refit = c.Kernel, config.Switch(config.Auto), config.Auto // they follow from the kernel
	}
	if c.Augment {
		t.Augment = "true"
	}
	for _, f := range []struct {
		to    *string
		value string
	}{{&t.Penalty, c.Penalty}, {&t.Refit, c.Refit}, {&t.Solver, c.Solver}} {
		if f.value != "" {
			*f.to = f.value
		}
	}
	if c.MaxBasis != nil {
		t.MaxBasis = *c.MaxBasis
	}
	if c.Threads != nil {
		t.Threads = *c.Threads
	}
	if c.Linear != nil {
		t.Linear = *c.Linear
	}
	return m, nil
}

// lambdas returns the strengths of --lambda, and which of them are fractions of λ_max. auto empties the model's.
func (c *fitCmd) lambdas(m *config.Model) (list []float64, ofMax []bool, err error) {
	switch c.Lambda {
	case "":
		return nil, nil, nil
	case config.Auto:
		m.Train.Lambda = 0
		return nil, nil, nil
	}
	refuse := func(format string, args ...any) error {
		return &report.ExitError{Code: report.ExitUsage, Key: "--lambda",
			Err: fmt.Errorf("--lambda %s: %w", c.Lambda, fmt.Errorf(format, args...))}
	}
	for text := range strings.SplitSeq(c.Lambda, ",") {
		number, fraction := strings.CutSuffix(strings.TrimSpace(text), "max")
		v, err := strconv.ParseFloat(number, 64)
		switch {
		case err != nil || !(v > 0) || math.IsInf(v, 0):
			return nil, nil, refuse("%q is not a positive number: write auto, numbers such as 1,3,10, or 0.1max", text)
		case fraction && m.Train.Algorithm == config.FrankWolfeSVM:
			return nil, nil, refuse("%s has no largest strength: write numbers such as 1,3,10", m.Train.Algorithm)
		}
		list, ofMax = append(list, v), append(ofMax, fraction)
	}
	return list, ofMax, nil
}

// loadModel returns a model of a configuration file, which the caller may change.
func loadModel(path, name string, allow config.Exceptions) (*config.Model, error) {
	conf, err := loadConfig(path, allow)
	if err != nil {
		return nil, err
	}
	return modelOf(conf, name)
}

// modelOf returns a model of a configuration, or of one alone if name is empty. The error has exit code 2.
func modelOf(conf *config.Config, name string) (*config.Model, error) {
	m, err := conf.Model(name)
	if err != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--model", Path: conf.File()}
	}
	return m, nil
}
