package offline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/progress"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// EvalOptions say which version to evaluate on which events. An empty Group is user if there is one.
type EvalOptions struct {
	Snapshot SnapshotRef      `embed:""`
	Data     string           `required:"" placeholder:"FILE" help:"Labelled events; - is standard input; gzip, zstd and bzip2 are detected."`
	Format   dataset.Format   `enum:",movielens,jsonl,libsvm,csv,parquet" default:"" placeholder:"FORMAT" help:"${formats}"`
	Table    TableOptions     `embed:""`
	Group    string           `placeholder:"user" help:"Field that rankings are made for."`
	Rank     string           `placeholder:"FIELD" help:"Events are choices, without a label: rank the names of this field for each group."`
	Seen     string           `placeholder:"FILE" help:"Earlier choices, of the same format, which --rank leaves out of what it ranks."`
	Require  []Requirement    `sep:"none" placeholder:"rmse<=0.95" help:"Bound on a metric by <=, >=, < or >; a missed one is exit code 1. Repeatable."`
	Strict   bool             `help:"Exit with code 1, after the summary, if a line of the file is no event."`
	Now      func() time.Time `kong:"-"`
	Progress *progress.Meter  `kong:"-"` // nil shows none
}

// Eval scores labelled events with a version, read by the snapshot library as a consumer would, and compares them with their labels.
// A requirement that is missed is exit code 1, after the summary.
func Eval(o EvalOptions, out *report.Emitter) error {
	began := o.Now()
	version, err := o.Snapshot.open()
	if err != nil {
		return err
	}
	o.Table.OfVersion = true
	m := modelOf(version)
	target, err := cycle.NewTarget(m, nil)
	if err != nil {
		return &report.ExitError{Code: report.ExitState, Err: fmt.Errorf("offline: version %d: %w", version.Manifest().Version, err), Path: o.Snapshot.Store}
	}
	if o.Group != "" && !slices.Contains(m.Schema.Categorical, o.Group) {
		return &report.ExitError{Code: report.ExitUsage, Key: "--group",
			Err: fmt.Errorf("offline: --group %s is not a categorical field of the model: it has %q", o.Group, m.Schema.Categorical)}
	}
	if o.Group == "" {
		o.Group = rankingField
	}
	if o.Rank != "" {
		m.Schema.Task, m.Schema.Label = config.Implicit, ""
	} else if o.Seen != "" {
		return usage("--seen", "--seen is for --rank FIELD")
	}
	seenFormat := o.Format
	if o.Format, err = o.Table.FormatOf(o.Format, o.Data); err != nil {
		return err
	}
	if o.Seen != "" {
		if seenFormat, err = o.Table.FormatOf(seenFormat, o.Seen); err != nil {
			return err
		}
	}
	set, err := ReadEvents(m, o.Data, o.Format, o.Table, o.Progress)
	if err == nil {
		err = derive(m, set)
	}
	if err != nil {
		return err
	}
	drops, err := dropped(&set.Skipped, o.Data, nil, out)
	if err != nil {
		return err
	}
	lacking := report.Absent{}
	absent(m, set, lacking)
	manifest := version.Manifest()
	summary := report.EvalSummary{Model: manifest.Model, Version: manifest.Version, PayloadDigest: manifest.PayloadDigest, Rejected: set.Skipped.Lines,
		Dropped: drops, Absent: lacking}
	var all *report.Metrics
	if o.Rank != "" {
		if all, summary.Popularity, err = evalRanking(&o, seenFormat, m, version, set); err != nil {
			return err
		}
	} else {
		all = o.predictions(&summary, m, version, target, set)
	}
	summary.Metrics = *all
	missed, err := unmet(o.Require, all)
	if err != nil {
		return err
	}
	summary.Seconds = report.Seconds(o.Now().Sub(began))
	err = out.Emit("summary", summary)
	switch {
	case err != nil:
		return err
	case missed != nil:
		return &report.ExitError{Code: report.ExitNo, Err: missed, Key: "--require", Reported: out.IsJSON()}
	}
	return strictly(o.Strict, drops, out)
}

// predictions compares the prediction of each event with its label.
func (o *EvalOptions) predictions(summary *report.EvalSummary, m *config.Model, version *snapshot.Model, target *cycle.Target,
	set *dataset.Set) *report.Metrics {
	e := newEvaluation(version, target, groupBy(&m.Schema, o.Group))
	o.Progress.Stage("scoring", "events", int64(len(set.Examples)))
	for i := range set.Examples {
		o.Progress.Add(1)
		e.add(&set.Examples[i].Event)
	}
	summary.Seen, summary.Unseen = e.seen.Metrics(), e.unseen.Metrics()
	return e.all.Metrics()
}

// evaluation scores events and keeps the errors on all of them, on those whose every name the model knows, and on the others.
type evaluation struct {
	version           *snapshot.Model
	target            *cycle.Target
	all, seen, unseen *cycle.Quality
	scratch           snapshot.Scratch
	outputs, targets  []float64
}

func newEvaluation(version *snapshot.Model, target *cycle.Target, group func(*event.Event) string) *evaluation {
	return &evaluation{version: version, target: target, all: cycle.NewQuality(target, group), seen: cycle.NewQuality(target, group),
		unseen: cycle.NewQuality(target, group), outputs: make([]float64, version.NumOutputs()), targets: make([]float64, target.Outputs())}
}

func (e *evaluation) add(ev *event.Event) {
	in := inputOf(ev)
	part := e.seen
	if e.version.Score(e.outputs, &in, &e.scratch) > 0 {
		part = e.unseen
	}
	e.target.Encode(e.targets, ev) // the decoder took the classes of the version only
	e.all.Add(ev, e.outputs, e.targets)
	part.Add(ev, e.outputs, e.targets)
}

// inputOf returns the features of an event; it shares their memory.
func inputOf(ev *event.Event) snapshot.Input {
	return snapshot.Input{Categorical: ev.Categorical, Numeric: ev.Numeric, Multi: ev.Multi}
}

// unmet returns an error that lists the requirements which metrics do not meet, nil if there are none. err is a usage error: a metric
// that this model does not have.
func unmet(required []Requirement, m *report.Metrics) (missed, err error) {
	var texts []string
	for _, r := range required {
		value := r.metric.Value(m)
		if value == nil {
			return nil, &report.ExitError{Code: report.ExitUsage, Key: "--require",
				Err: fmt.Errorf("offline: --require %s: this model has no %s, it has %s", r, r.metric.Name, strings.Join(metricNames(m), ", "))}
		}
		if !r.isMetBy(float64(*value)) {
			texts = append(texts, fmt.Sprintf("required %s, but %s is %g", r, r.metric.Name, float64(*value)))
		}
	}
	if texts == nil {
		return nil, nil
	}
	return errors.New(strings.Join(texts, "; ")), nil
}
