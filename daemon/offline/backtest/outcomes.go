package backtest

import (
	"math"

	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/sketch"
)

// outcomes are those of --outcomes that were not played yet.
type outcomes struct {
	topic  string // "" without
	rest   []dataset.Example
	offset int64
	newest int64 // time of an event or an outcome, milliseconds
}

// defaultOutcomes is the topic of outcomes of a model that names none.
const defaultOutcomes = "backtest_outcomes"

// read reads the events, and with --outcomes what came of them; nil without.
func (o *Options) read() (events, of *dataset.Set, err error) {
	if o.Outcomes == "" {
		events, err = offline.ReadEvents(o.Model, o.Data, o.Format, o.Table, o.Progress)
		return events, nil, err
	}
	if in := &o.Model.Input.Outcomes; len(in.Topics) == 0 {
		m := *o.Model
		m.Input.Outcomes.Topics = []string{defaultOutcomes}
		o.Model = &m
	}
	return offline.ReadJoined(o.Model, o.Data, o.Outcomes, o.Format, o.Table, o.Progress)
}

// expect has the outcomes of a file played; nil for none. They count as those of the first topic.
func (b *backtest) expect(of *dataset.Set) error {
	if of == nil {
		return nil
	}
	b.outcomes = outcomes{topic: b.Model.Input.Outcomes.Topics[0], rest: of.Examples, newest: sketch.NoTime}
	return b.store.Begin(b.outcomes.topic, 0, 0)
}

// feed plays the outcomes from before an event that comes now, in milliseconds.
func (o *outcomes) feed(g *ingest.Ingest, now int64) error {
	if o.topic == "" {
		return nil
	}
	n := 0
	for ; n < len(o.rest) && o.rest[n].Time < now; n++ {
		if err := g.FeedOutcome(o.topic, o.offset, &o.rest[n].Event); err != nil {
			return err
		}
		o.newest = max(o.newest, o.rest[n].Time)
		o.offset++
	}
	if o.rest = o.rest[n:]; now < math.MaxInt64 {
		o.newest = max(o.newest, now)
	}
	return nil
}

// end plays what is left. Events whose window is not over by the newest time of both files stay open.
func (o *outcomes) end(g *ingest.Ingest) error {
	if o.topic == "" {
		return nil
	}
	if err := o.feed(g, math.MaxInt64); err != nil {
		return err
	}
	g.EndOutcomes(o.newest)
	return nil
}
