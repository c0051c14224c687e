package fit

import (
	"errors"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
)

// fitParts are the events of a fit. Those to validate and test on are in the order of their file, which breaks ties in
// rankings.
type fitParts struct {
	train, valid, test []event.Event
	known              *tables.Set      // rows of tables, joined to all; nil without tables
	drops              []report.Dropped // of all files
	absent             report.Absent    // of all files
	timed              bool             // all events have a time
}

// ReadParts reads the files of a fit, completes the schema of its model and splits --data into the parts that have no
// file.
func ReadParts(o *Options, out *report.Emitter) (*fitParts, error) {
	files := o.files()
	sets, drops, err := readFiles(o, files, out)
	if err != nil {
		return nil, err
	}
	if o.Format == dataset.LIBSVM && len(o.Model.Schema.Numeric) == 0 { // every column becomes a field
		if err := offline.IsDense(len(sets[0].Examples), sets[0].NumFeatures, o.Data); err != nil {
			return nil, err
		}
	}
	if err := complete(&o.Model.Schema, o.Format, sets...); err != nil {
		return nil, err
	}
	if o.Format == dataset.LIBSVM {
		for i, set := range sets {
			if err := offline.FillNumeric(set, &o.Model.Schema, files[i].path); err != nil {
				return nil, err
			}
		}
	}
	if err := offline.Derive(o.Model, sets...); err != nil {
		return nil, err
	}
	known, err := o.Files.Join(o.Model, sets...)
	if err != nil {
		return nil, err
	}
	lacking, timed := report.Absent{}, true
	for _, set := range sets {
		offline.Absent(o.Model, set, lacking)
		timed = timed && set.HasTime
	}
	split, err := splitSet(sets[0], o)
	if err != nil {
		return nil, err
	}
	rest := sets[1:]
	p := &fitParts{
		known:  known,
		train:  pick(sets[0], split.Train),
		valid:  pick(sets[0], split.Valid),
		test:   pick(sets[0], split.Test),
		drops:  drops,
		absent: lacking,
		timed:  timed,
	}
	if o.Valid != "" {
		p.valid, rest = all(rest[0]), rest[1:]
	}
	if o.Test != "" {
		p.test = all(rest[0])
	}
	if len(p.train) == 0 {
		return nil, &report.ExitError{
			Code: report.ExitUsage,
			Key:  "--split",
			Path: o.Data,
			Err:  errors.New("offline: the split leaves no rows to train on"),
		}
	}
	return p, nil
}

// fitFile is a file of a fit, and the flag that names it.
type fitFile struct{ flag, path string }

// files returns the files of a fit, that of --data first.
func (o *Options) files() []fitFile {
	files := []fitFile{{"--data", o.Data}}
	if o.Valid != "" {
		files = append(files, fitFile{"--valid", o.Valid})
	}
	if o.Test != "" {
		files = append(files, fitFile{"--test", o.Test})
	}
	return files
}

// readFiles reads the files of a fit, and returns what was passed over in them as well.
func readFiles(o *Options, files []fitFile, out *report.Emitter) ([]*dataset.Set, []report.Dropped, error) {
	sets := make([]*dataset.Set, len(files))
	drops := []report.Dropped{}
	for i, f := range files {
		var err error
		format := o.Format
		if i > 0 && o.Detected && format != dataset.LIBSVM {
			if format, err = o.Table.FormatOf("", f.path); err != nil {
				return nil, nil, err
			}
		}
		if sets[i], err = offline.ReadSet(o.Model, f.path, format, o.Table, f.flag, o.Progress); err != nil {
			return nil, nil, err
		}
		of, err := offline.Dropped(&sets[i].Skipped, f.path, nil, out)
		if err != nil {
			return nil, nil, err
		}
		drops = append(drops, of...)
	}
	return sets, drops, nil
}

// Watermark returns the newest time of the events that a fit may learn from, 0 where that is not known.
func (p *fitParts) Watermark() (newest int64) {
	if !p.timed {
		return 0
	}
	for _, part := range [][]event.Event{p.train, p.valid} {
		for i := range part {
			newest = max(newest, part[i].Time)
		}
	}
	return newest
}

// splitSet splits the examples of --data by the shares of the parts that have no file.
func splitSet(set *dataset.Set, o *Options) (dataset.Parts, error) {
	f := o.Split
	if o.Valid != "" {
		f.Valid = 0
	}
	if o.Test != "" {
		f.Test = 0
	}
	total := f.Train + f.Valid + f.Test
	f = dataset.Fractions{Train: f.Train / total, Valid: f.Valid / total, Test: f.Test / total}
	var parts dataset.Parts
	switch {
	case !o.SplitByTime:
		parts = dataset.SplitRandom(len(set.Examples), f, o.Seed)
	case !set.HasTime:
		return parts, &report.ExitError{Code: report.ExitUsage, Key: "--split-by", Path: o.Data,
			Err: errors.New(
				"offline: --split-by time needs an event time in every line, and the file has none: use --split-by random",
			)}
	default:
		times := make([]int64, len(set.Examples))
		for i := range times {
			times[i] = set.Examples[i].Time
		}
		parts = dataset.SplitTime(times, f)
	}
	slices.Sort(parts.Valid)
	slices.Sort(parts.Test)
	return parts, nil
}

// pick returns the events of the examples at the given indices.
func pick(set *dataset.Set, indices []int) []event.Event {
	events := make([]event.Event, len(indices))
	for e, i := range indices {
		events[e] = set.Examples[i].Event
	}
	return events
}

// all returns the events of a set.
func all(set *dataset.Set) []event.Event {
	events := make([]event.Event, len(set.Examples))
	for i := range events {
		events[i] = set.Examples[i].Event
	}
	return events
}
