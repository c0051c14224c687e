package ingest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"unicode/utf8"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/sketch"
)

// Labels that come later. A model with input.outcomes reads two kinds of topics with one ledger: of events, which have
// no label, and of outcomes, which have the key of an event, a time and a value. Both are applied in the transactions
// of the store, whose sample is that of the join: see package sketch, join.go. An event is stored with the label 0,
// which nothing reads. Its label is made of its outcomes where rows are read (labels.go), so that what came first, or
// came twice, decides nothing, and the rule by which outcomes make a label can change.
//
// A record without a value whose key is the key of an event takes back the outcomes of that event that came before it
// in its partition.

// outcomeDecoder reads the records of outcomes. It belongs to one reader.
type outcomeDecoder struct {
	config *config.Outcomes
	decode event.Decoder // of values alone, or
	mapped *event.Mapped // where the key is elsewhere in the record
	event  event.Event   // the last one
	maxID  int           // bytes of a key
	valued bool          // whether outcomes have a value in a field
	accept func(value float64) bool
}

// newOutcomeDecoder returns the decoder of a model's outcomes, nil if it has none.
func newOutcomeDecoder(m *config.Model, schemas *formats.Schemas) *outcomeDecoder {
	o := &m.Input.Outcomes
	if !o.IsSet() {
		return nil
	}
	of := m.OutcomeModel()
	d := &outcomeDecoder{config: o, maxID: int(of.Input.MaxIDBytes), valued: o.Label != "", accept: m.AcceptsReward}
	if d.mapped = formats.NewOutcomeDecoder(of, schemas); d.mapped == nil {
		d.decode = formats.NewJSONDecoder(of)
	}
	return d
}

// read decodes one outcome of a topic into what is applied of it: identity, time and value.
func (d *outcomeDecoder) read(to *sketch.Record, topic string, from *consumer.Record) (*event.Rejection, *event.Wait) {
	*to = sketch.Record{Offset: from.Offset, Fate: sketch.Applied, CRC: from.CRC, Weight: 1}
	if from.Value == nil && len(from.Key) > 0 {
		return d.takeBack(to, from), nil
	}
	var rejection *event.Rejection
	var wait *event.Wait
	if d.mapped != nil {
		rejection, wait = d.mapped.DecodeRecord(&d.event,
			&event.Record{Value: from.Value, Key: from.Key, Headers: from.Headers, Time: from.Timestamp})
	} else {
		rejection = d.decode.Decode(&d.event, from.Value, from.Timestamp)
	}
	if rejection != nil || wait != nil {
		return rejection, wait
	}
	return d.take(to, topic, &d.event), nil
}

// take fills in what is applied of a decoded outcome.
func (d *outcomeDecoder) take(to *sketch.Record, topic string, ev *event.Event) *event.Rejection {
	to.Identity, to.Time, to.Value = []byte(ev.Categorical[0]), ev.Time, d.config.ValueOf(topic)
	if d.valued {
		if to.Value = ev.Numeric[0]; !d.accept(to.Value) {
			return &event.Rejection{Reason: event.LabelRange, Field: d.config.Label, Expected: "a label of the task",
				Got: "another number"}
		}
	}
	if len(to.Identity) == 0 {
		return &event.Rejection{Reason: event.IDEmpty, Field: d.config.Key.Outcome, Expected: "the key of an event",
			Got: "an empty one"}
	}
	return nil
}

// takeBack reads a tombstone: the key of the record is that of the event, as text or as a string of JSON.
func (d *outcomeDecoder) takeBack(to *sketch.Record, from *consumer.Record) *event.Rejection {
	key := bytes.Clone(from.Key)
	if key[0] == '"' {
		var text string
		if json.Unmarshal(key, &text) == nil {
			key = []byte(text)
		}
	}
	if len(key) == 0 || len(key) > d.maxID || !utf8.Valid(key) {
		return &event.Rejection{Reason: event.NullValue}
	}
	to.Identity, to.Time, to.TakesBack = key, from.Timestamp, true
	return nil
}

// tryOutcome decodes one record of outcomes, or rejects it if that panics.
func (r *reader) tryOutcome(to *sketch.Record, p *sketch.Part, from *consumer.Record) (rejection *event.Rejection,
	wait *event.Wait) {
	g := r.ingest
	defer func() {
		if v := recover(); v != nil {
			wait, rejection = nil, &event.Rejection{Reason: event.Panicked}
			g.panicked(p, from.Offset, v)
		}
	}()
	if rejection, wait = r.outcomes.read(to, p.Topic, from); rejection != nil || wait != nil {
		return rejection, wait
	}
	for _, field := range g.forgotten {
		to.Forgotten = to.Forgotten || field == g.model.Schema.Identity &&
			g.store.Forgets(p.Topic, p.Partition, from.Offset, field, to.Identity)
	}
	return nil, nil
}

// FeedOutcome takes one decoded outcome, an event of config.OutcomeModel, as the next offset of a topic of outcomes,
// as a backtest does, and stores it.
func (g *Ingest) FeedOutcome(topic string, offset int64, ev *event.Event) error {
	j, err := g.queue.next()
	if err != nil {
		return err
	}
	j.start(topic, 0, 0, offset, offset+1, 1)
	j.part.Outcomes, j.counts.Outcomes = true, true
	j.fed, j.part.Records = true, j.part.Records[:1]
	r := &j.part.Records[0]
	*r = sketch.Record{Offset: offset, Fate: sketch.Applied, Weight: 1}
	if rejection := g.readers[0].outcomes.take(r, topic, ev); rejection != nil {
		*r = sketch.Record{Offset: offset, Fate: sketch.Rejected, Reason: string(rejection.Reason), Quiet: true}
	}
	g.store.Classify(&j.part)
	return cmp.Or(g.learn(j, &decoded{events: make([]event.Event, 1)}), g.Flush())
}

// EndOutcomes says that nothing comes any more up to a time: labels that are final by then are learned and judged.
func (g *Ingest) EndOutcomes(at int64) {
	g.open.events = max(g.open.events, at)
	for topic := range g.open.outcomes {
		g.open.noteTime(topic, at)
	}
	g.observe(g.open.close(nil, rows.Position{}), func(int, any) {})
}
