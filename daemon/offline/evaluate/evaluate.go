package evaluate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/fit"
	"github.com/refitd/refitd/daemon/progress"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// timedRows is how many rows show whether a file has times. Chosen by hand: a file has them everywhere or nowhere.
const timedRows = 1000

// Options say which version to evaluate on which events. An empty Group is user if there is one.
type Options struct {
	Snapshot offline.SnapshotRef  `embed:""`
	Data     string               `         required:"" placeholder:"FILE"       help:"Labelled events; - is standard input; gzip, zstd and bzip2 are detected."`
	Format   dataset.Format       `                     placeholder:"FORMAT"     help:"{formats}"                                                                         enum:",{formatNames}"  default:""`
	Table    offline.TableOptions `embed:""`
	Group    string               `                     placeholder:"user"       help:"Field that rankings are made for."`
	Time     string               `                     placeholder:"FIELD"      help:"Field with the event time, by which later events are not taken for learned ones."`
	TimeUnit string               `                     placeholder:"ms"         help:"Unit of --time: s, ms, us or ns."                                                  enum:"s,ms,us,ns"                          default:"ms"`
	Rank     string               `                     placeholder:"FIELD"      help:"Events are choices, without a label: rank the names of this field for each group."`
	Seen     string               `                     placeholder:"FILE"       help:"Earlier choices, of the same format, which --rank leaves out of what it ranks."`
	Require  []Requirement        `                     placeholder:"rmse<=0.95" help:"Bound on a metric by <=, >=, < or >; a missed one is exit code 1. Repeatable."                                                             sep:"none"`
	Strict   bool                 `                                              help:"Exit with code 1, after the summary, if a line of the file is no event."`
	Now      func() time.Time     `                                                                                                                                                                                                          kong:"-"`
	// nil shows none
	Progress *progress.Meter `                                                                                                                                                                                                          kong:"-"`
}

// Run scores labelled events with a version, read by the snapshot library as a consumer would, and compares them with
// their labels.
// A requirement that is missed is exit code 1, after the summary.
func Run(o Options, out *report.Emitter) error {
	began := o.Now()
	version, err := o.Snapshot.Open()
	if err != nil {
		return err
	}
	o.Table.OfVersion = true
	m := offline.ModelOf(version)
	target, err := encode.NewTarget(m, nil)
	if err != nil {
		return &report.ExitError{
			Code: report.ExitState,
			Err:  fmt.Errorf("offline: version %d: %w", version.Manifest().Version, err),
			Path: o.Snapshot.Store,
		}
	}
	if o.Group != "" && !slices.Contains(m.Schema.Categorical, o.Group) {
		return &report.ExitError{Code: report.ExitUsage, Key: "--group",
			Err: fmt.Errorf("offline: --group %s is not a categorical field of the model: it has %q", o.Group,
				m.Schema.Categorical)}
	}
	if o.Group == "" {
		o.Group = fit.RankingField
	}
	if o.Rank != "" {
		m.Schema.Task, m.Schema.Label = config.Implicit, ""
	} else if o.Seen != "" {
		return offline.Usage("--seen", "--seen is for --rank FIELD")
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
	if err := o.withTime(&m.Schema); err != nil {
		return err
	}
	set, err := offline.ReadEvents(m, o.Data, o.Format, o.Table, o.Progress)
	if err == nil {
		err = offline.Derive(m, set)
	}
	if err != nil {
		return err
	}
	drops, err := offline.Dropped(&set.Skipped, o.Data, nil, out)
	if err != nil {
		return err
	}
	lacking := absent(m, version, set)
	manifest := version.Manifest()
	summary := report.EvalSummary{
		Model:         manifest.Model,
		Version:       manifest.Version,
		PayloadDigest: manifest.PayloadDigest,
		Rejected:      set.Skipped.Lines,
		Dropped:       drops,
		Absent:        lacking,
	}
	var all *report.Metrics
	if o.Rank != "" {
		if all, summary.Popularity, err = evalRanking(&o, seenFormat, m, version, set); err != nil {
			return err
		}
		summary.MaybeLearned = maybeLearned(version, set)
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
	return offline.Strictly(o.Strict, drops, out)
}

// withTime lets events have the time of --time, of --config.file where the file of events has it, or of MovieLens
// files: a version does not say which field has it, unless features are made of it.
func (o *Options) withTime(s *config.Schema) error {
	switch {
	case o.Time != "" && s.Time != "" && o.Time != s.Time:
		return offline.Usage("--time", "--time is %s, but the version has features of the time in %s: leave --time out",
			o.Time, s.Time)
	case s.Time != "":
	case o.Time != "":
		s.Time, s.TimeUnit = o.Time, cmp.Or(o.TimeUnit, s.TimeUnit)
	case o.Format == dataset.MovieLens && o.Data != dataset.Stdin:
		timed, _, err := fit.LooksOf(o.Data)
		if err != nil {
			return err
		}
		if timed {
			s.Time = "ts"
		}
	case o.Snapshot.Time != "" && o.Data != dataset.Stdin && hasTimes(o.Data, o.Format, o.Snapshot.Time):
		s.Time, s.TimeUnit = o.Snapshot.Time, o.Snapshot.TimeUnit
	}
	return nil
}

// hasTimes reports whether each of the first rows of a file has a value in a column.
func hasTimes(path string, format dataset.Format, column string) bool {
	profile, err := dataset.ReadProfile(path, format, timedRows)
	if err != nil {
		return false // reading the events says why
	}
	for _, c := range profile.Columns {
		if c.Name == column {
			return c.Present == profile.Rows
		}
	}
	return false
}

// absent counts the events that lack an optional field, after the tables of the version have filled in what they know.
func absent(m *config.Model, version *snapshot.Model, set *dataset.Set) report.Absent {
	lacking := report.Absent{}
	if version.Manifest().Tables == nil {
		offline.Absent(m, set, lacking)
		return lacking
	}
	for i := range set.Examples {
		in := InputOf(&set.Examples[i].Event)
		if p, err := version.Predict(&in); err == nil { // else its number is too large, as its loss shows
			for _, field := range p.Absent {
				lacking[field]++
			}
		}
	}
	return lacking
}

// predictions compares the prediction of each event with its label.
func (o *Options) predictions(summary *report.EvalSummary, m *config.Model, version *snapshot.Model,
	target *encode.Target, set *dataset.Set) *report.Metrics {
	e := NewEvaluation(version, target, fit.GroupBy(&m.Schema, o.Group))
	later := laterThan(version, set)
	o.Progress.Stage("scoring", "events", int64(len(set.Examples)))
	for i := range set.Examples {
		o.Progress.Add(1)
		ev := &set.Examples[i].Event
		if knows := e.Add(ev); knows && !later(ev) {
			summary.MaybeLearned++
		}
	}
	summary.Seen, summary.Unseen = e.seen.Metrics(), e.unseen.Metrics()
	return e.All.Metrics()
}

// evaluation scores events and keeps the errors on all of them, on those whose every name the model knows, and on the
// others.
type evaluation struct {
	version           *snapshot.Model
	target            *encode.Target
	All, seen, unseen *evaluate.Quality
	scratch           snapshot.Scratch
	outputs, targets  []float64
}

func NewEvaluation(version *snapshot.Model, target *encode.Target, group func(*event.Event) string) *evaluation {
	return &evaluation{
		version: version,
		target:  target,
		All:     evaluate.NewQuality(target, group),
		seen:    evaluate.NewQuality(target, group),
		unseen:  evaluate.NewQuality(target, group),
		outputs: make([]float64, version.NumOutputs()),
		targets: make([]float64, target.Outputs()),
	}
}

// Add scores an event and reports whether the model knows all its names.
func (e *evaluation) Add(ev *event.Event) (knows bool) {
	in := InputOf(ev)
	part := e.seen
	if knows = e.version.Score(e.outputs, &in, &e.scratch) == 0; !knows {
		part = e.unseen
	}
	e.target.Encode(e.targets, ev) // the decoder took the classes of the version only
	e.All.Add(ev, e.outputs, e.targets)
	part.Add(ev, e.outputs, e.targets)
	return knows
}

// laterThan returns what reports whether an event is later than all that a version has learned from. Where the file or
// the version has no event times, nothing shows that.
func laterThan(version *snapshot.Model, set *dataset.Set) func(*event.Event) bool {
	watermark := version.Position().Watermark
	if !set.HasTime || watermark.IsZero() {
		return func(*event.Event) bool { return false }
	}
	return func(ev *event.Event) bool { return ev.Time > watermark.UnixMilli() }
}

// maybeLearned counts the choices that a version may have learned from, as predictions does of events with labels.
func maybeLearned(version *snapshot.Model, set *dataset.Set) (n int64) {
	outputs, later := make([]float64, version.NumOutputs()), laterThan(version, set)
	var scratch snapshot.Scratch
	for i := range set.Examples {
		ev := &set.Examples[i].Event
		in := InputOf(ev)
		if version.Score(outputs, &in, &scratch) == 0 && !later(ev) {
			n++
		}
	}
	return n
}

// InputOf returns the features of an event; it shares their memory.
func InputOf(ev *event.Event) snapshot.Input {
	return snapshot.Input{Categorical: ev.Categorical, Numeric: ev.Numeric, Multi: ev.Multi}
}

// unmet returns an error that lists the requirements which metrics do not meet, nil if all are met. err is a usage
// error: a metric that this model does not have.
func unmet(required []Requirement, m *report.Metrics) (missed, err error) {
	var texts []string
	for _, r := range required {
		value := r.metric.Value(m)
		if value == nil {
			return nil, &report.ExitError{Code: report.ExitUsage, Key: "--require",
				Err: fmt.Errorf("offline: --require %s: this model has no %s, it has %s", r, r.metric.Name,
					strings.Join(metricNames(m), ", "))}
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
