package backtest

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// outcomes are those of the files of --outcomes that were not played yet.
type outcomes struct {
	of     []played
	newest int64 // time of an event or an outcome, milliseconds
}

// played are outcomes of one topic, by time.
type played struct {
	topic   string
	rest    []dataset.Example
	offset  int64
	dropped []report.Dropped // lines of the file that are no outcomes
}

// defaultOutcomes is the topic of outcomes of a model that names none.
const defaultOutcomes = "backtest_outcomes"

// read reads the events, and with --outcomes what came of them; nil without.
func (o *Options) read(out *report.Emitter) (events *dataset.Set, of []played, err error) {
	if len(o.Outcomes) == 0 {
		events, err = offline.ReadEvents(o.Model, o.Data, o.Format, o.Table, o.Progress)
		return events, nil, err
	}
	if in := &o.Model.Input.Outcomes; len(in.Topics) == 0 {
		m := *o.Model
		m.Input.Outcomes.Topics = []string{defaultOutcomes}
		o.Model = &m
	}
	topics := o.Model.Input.Outcomes.Topics
	if events, err = offline.ReadShown(o.Model, o.Data, o.Format, o.Table, o.Progress); err != nil {
		return nil, nil, err
	}
	known := make(map[string]bool, len(events.Examples))
	for i := range events.Examples {
		known[events.Examples[i].Identity] = true
	}
	for _, file := range o.Outcomes {
		topic, path, named := strings.Cut(file, "=")
		if !named || !slices.Contains(topics, topic) {
			topic, path = topics[0], file
			if len(topics) > 1 {
				return nil, nil, offline.Usage("--outcomes", "--outcomes %s: the model has the topics of outcomes %s: write "+
					"TOPIC=FILE", file, strings.Join(topics, ", "))
			}
		}
		if slices.ContainsFunc(of, func(p played) bool { return p.topic == topic }) {
			return nil, nil, offline.Usage("--outcomes", "--outcomes %s: a topic has one file", file)
		}
		set, err := offline.ReadOutcomes(o.Model, path, o.Progress)
		if err != nil {
			return nil, nil, err
		}
		drops, err := offline.Dropped(&set.Skipped, path, nil, out)
		if err != nil {
			return nil, nil, err
		}
		if !slices.ContainsFunc(set.Examples, func(e dataset.Example) bool { return known[e.Categorical[0]] }) {
			return nil, nil, &report.ExitError{Code: report.ExitUsage, Key: "--outcomes", Path: path, Err: fmt.Errorf(
				"offline: no outcome names an event: the first is of %.60q, the first event is %.60q",
				set.Examples[0].Categorical[0], events.Examples[0].Identity)}
		}
		of = append(of, played{topic: topic, rest: set.Examples, dropped: drops})
	}
	return events, of, nil
}

// expect has the outcomes of files played.
func (b *backtest) expect(of []played) error {
	b.outcomes = outcomes{of: of, newest: sketch.NoTime}
	for i := range of {
		if err := b.store.Begin(of[i].topic, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// feed plays the outcomes from before an event that comes now, in milliseconds.
func (o *outcomes) feed(g *ingest.Ingest, now int64) error {
	for {
		var next *played
		for i := range o.of {
			p := &o.of[i]
			if len(p.rest) > 0 && p.rest[0].Time < now && (next == nil || p.rest[0].Time < next.rest[0].Time) {
				next = p
			}
		}
		if next == nil {
			break
		}
		if err := g.FeedOutcome(next.topic, next.offset, &next.rest[0].Event); err != nil {
			return err
		}
		o.newest = max(o.newest, next.rest[0].Time)
		next.rest, next.offset = next.rest[1:], next.offset+1
	}
	if now < math.MaxInt64 {
		o.newest = max(o.newest, now)
	}
	return nil
}

// end plays what is left. Events whose window is not over by the newest time of all files stay open.
func (o *outcomes) end(g *ingest.Ingest) error {
	if len(o.of) == 0 {
		return nil
	}
	if err := o.feed(g, math.MaxInt64); err != nil {
		return err
	}
	g.EndOutcomes(o.newest)
	return nil
}
