package fit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/solver"
)

// ModelOf returns a model for a fit without a configuration file: the defaults, with the schema that the format
// implies. Ratings are ordinal with five levels, or ten where they have half stars, LIBSVM rows multi-class, unless
// task says otherwise. What only the rows show (numeric columns, classes, levels) is left open; Fit fills it in. An
// empty name is "fit". Nothing is resolved yet.
func ModelOf(name string, format dataset.Format, task, path string) (*config.Model, error) {
	m := config.DefaultModel()
	m.Name = cmp.Or(name, "fit")
	s := &m.Schema
	switch format {
	case dataset.MovieLens:
		s.Task, s.Label, s.Categorical = cmp.Or(task, string(event.Ordinal)), "rating", []string{"user", "item"}
		timed, halves, err := LooksOf(path)
		if err != nil {
			return nil, err
		}
		if s.Task == string(event.Ordinal) {
			if s.Levels = 5; halves {
				s.Levels = 10 // which count in halves
			}
		}
		if timed {
			s.Time = "ts"
		}
	case dataset.LIBSVM:
		s.Task, s.Label = cmp.Or(task, string(event.Multiclass)), "label"
		if s.Task == string(event.Ordinal) {
			s.Levels = mostLevels
		}
	default:
		return nil, &report.ExitError{Code: report.ExitUsage, Key: "--config.file",
			Err: fmt.Errorf(
				"offline: --format %s does not say which fields are features: name a model with --config.file", format)}
	}
	return &m, nil
}

// mostLevels is the largest number of levels that a configuration may have.
const mostLevels = 100

// LooksOf reports whether the first rating of a MovieLens file has a time, and whether half a star is among its first
// ten thousand ratings.
func LooksOf(path string) (timed, halves bool, err error) {
	if path == dataset.Stdin {
		return false, false, &report.ExitError{Code: report.ExitUsage, Key: "--config.file",
			Err: errors.New(
				"offline: ratings from standard input are read once: name a model with --config.file, which says whether they " +
					"have times",
			)}
	}
	n := 0
	_, err = dataset.ScanRecords(
		path,
		dataset.MovieLens,
		dataset.Fields{Key: "user"},
		nil,
		func(r dataset.Record) error {
			var of struct {
				Rating float64 `json:"rating"`
			}
			if n++; n == 1 {
				timed = r.HasTime
			}
			if halves = json.Unmarshal(r.Value, &of) == nil && of.Rating != math.Trunc(of.Rating); halves ||
				n == 10_000 {
				return dataset.ErrStop
			}
			return nil
		},
	)
	if err != nil {
		return false, false, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--data", Path: path}
	}
	return timed, halves, nil
}

// maxFoundClasses bounds the classes that are taken from the labels: beyond it they are rather numbers.
const maxFoundClasses = 1000

// complete fills in what the schema leaves open from the rows: the numeric columns of the first set, levels and classes
// of all.
func complete(s *config.Schema, format dataset.Format, sets ...*dataset.Set) error {
	if format == dataset.LIBSVM && len(s.Numeric) == 0 {
		s.Numeric = offline.ColumnNames(sets[0].NumFeatures)
		if s.Task == string(event.Ordinal) {
			top := 0.0
			for _, set := range sets {
				for i := range set.Examples {
					top = math.Max(top, set.Examples[i].Label)
				}
			}
			s.Levels = max(2, int(top))
		}
	}
	if event.Task(s.Task).HasClasses() && len(s.Classes) == 0 {
		s.Classes = offline.ClassesOf(sets...)
		switch n := len(s.Classes); {
		case n == 1:
			return &report.ExitError{Code: report.ExitUsage, Key: "--data", Err: fmt.Errorf(
				"offline: every label is %q, and a model of classes needs at least two: give a file with more of them, or list "+
					"all in schema.classes of "+
					"a configuration",
				s.Classes[0],
			)}
		case n > maxFoundClasses:
			return &report.ExitError{Code: report.ExitUsage, Key: "--task", Err: fmt.Errorf(
				"offline: the labels have %d different values, more than %d classes, for which a refit takes %d MiB and more: "+
					"use --task regression, or "+
					"list at most %d in schema.classes of a configuration",
				n,
				maxFoundClasses,
				(solver.ClassFootprint(n)+1<<20-1)>>20,
				config.MaxClasses,
			)}
		}
	}
	return nil
}

// algorithmFlags are AlgorithmFlags by the configuration keys that they set.
var algorithmFlags = map[string]string{
	"train.loss": "--loss", "train.algorithm": "--algorithm", "train.degree": "--degree", "train.top_k": "--top-k",
	"train.cost":   "--cost",
	"train.moreau": "--moreau", "train.features": "--features",
}

// fitFlags are the other flags of fit.
var fitFlags = map[string]string{
	"name": "--model", "schema.task": "--task", "train.kernel": "--kernel", "train.penalty": "--penalty",
	"train.linear": "--linear", "train.lambda": "--lambda", "train.augment": "--augment",
	"train.max_basis": "--max-basis", "train.refit": "--refit", "train.solver": "--solver", "train.threads": "--threads",
}

// Check resolves the automatic settings and refuses what does not go together, by the names of the algorithm's flags
// and of others that the command has.
func Check(m *config.Model, others map[string]string) error {
	named := func(key string) string { return cmp.Or(algorithmFlags[key], others[key], key) }
	m.Resolve()
	problems := m.Validate()
	if len(problems) == 0 {
		return nil
	}
	var flags []string // in what is proposed, too: "train.kernel: anova" is "--kernel anova"
	for _, names := range []map[string]string{algorithmFlags, others} {
		for key, flag := range names {
			if strings.Contains(key, ".") {
				flags = append(flags, key+": ", flag+" ", key, flag)
			}
		}
	}
	instead := strings.NewReplacer(flags...)
	texts := make([]string, len(problems))
	for i, p := range problems {
		texts[i] = fmt.Sprintf("%s %s", named(p.Key), instead.Replace(p.Message))
	}
	return &report.ExitError{
		Code: report.ExitUsage,
		Err:  errors.New(strings.Join(texts, "\n")),
		Key:  named(problems[0].Key),
	}
}
