package web

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/daemon/web/tensor"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// scorer is one loaded version. It is safe for concurrent use.
type scorer struct {
	model    *snapshot.Model
	manifest snapshot.Manifest
	header   string // the version, for the header: its number, or live
	// inPlaceOfLive is why it answers in place of the live model; empty where it was asked for.
	inPlaceOfLive string
	// predictionBytes is what a prediction takes in an answer, without names that it does not know.
	predictionBytes int64
	absence         event.Absence
	derive          func(*event.Event) // nil where derived fields are not filled
	decoders        *sync.Pool
	learned         *atomic.Pointer[belief] // by the model, once it was asked for
}

// decoding is the working memory of one request.
type decoding struct {
	decoder  event.Decoder
	labelled event.Decoder // of events with labels
	derive   func(*event.Event)
	event    event.Event
	scratch  snapshot.Scratch
	items    []snapshot.Item
}

func newScorer(m *snapshot.Model, derive func(*snapshot.Schema) func(*event.Event)) *scorer {
	s := &scorer{model: m, manifest: m.Manifest(), decoders: new(sync.Pool), learned: new(atomic.Pointer[belief])}
	s.header = strconv.FormatInt(s.manifest.Version, 10)
	schema := m.Schema()
	numbers := m.NumOutputs() + tensor.NumProbabilities(schema, s.manifest.Link, m.NumOutputs()) + len(schema.Classes)
	s.predictionBytes = request.EventBytes + request.NumberBytes*int64(numbers)
	if schema.Task == format.Multiclass {
		for _, name := range schema.Classes { // ranked
			s.predictionBytes += request.NameBytes + request.NameCopies*int64(len(name))
		}
	}
	fields := event.Schema{
		Task:        event.Task(schema.Task),
		Label:       schema.Label,
		Levels:      schema.Levels,
		Classes:     schema.Classes,
		Positive:    schema.Positive,
		Negative:    schema.Negative,
		Categorical: schema.Categorical,
		Multi:       schema.Multi,
		Optional:    schema.Optional,
	}
	for _, f := range schema.Numeric {
		fields.Numeric = append(fields.Numeric, f.Name)
	}
	s.absence = fields.Absence()
	if derive != nil && len(schema.Derived) > 0 {
		s.derive = derive(schema)
	}
	for _, d := range schema.Derived {
		if s.derive != nil && d.Time != "" {
			fields.Time, fields.TimeUnit = d.Time, d.TimeUnit
		}
	}
	s.decoders.New = func() any {
		d := event.NewJSON(fields, event.DefaultLimits())
		d.RequireLabel = false
		// What is derived of a history's events does not depend on the current time: they have it, or lack it.
		timeless := fields
		timeless.Time = ""
		return &decoding{decoder: d, labelled: event.NewJSON(timeless, event.DefaultLimits()), derive: s.derive}
	}
	return s
}

// after returns the scorer of a model with more deltas of the same version, which changes nothing but the model.
func (s *scorer) after(m *snapshot.Model) *scorer {
	next := *s
	next.model, next.learned = m, new(atomic.Pointer[belief])
	return &next
}

// decode reads an event as the daemon does, and fills the derived fields that it lacks. Those of time follow from the
// current time, unless the event or its record has one. recordTime is negative without a record. The result shares
// memory with d until the next call.
func (d *decoding) decode(value []byte, recordTime int64) (snapshot.Input, *event.Rejection) {
	if r := d.decoder.Decode(&d.event, value, recordTime); r != nil {
		return snapshot.Input{}, r
	}
	if d.derive != nil {
		if d.event.Time < 0 {
			d.event.Time = time.Now().UnixMilli()
		}
		d.derive(&d.event)
	}
	return snapshot.Input{Categorical: d.event.Categorical, Numeric: d.event.Numeric, Multi: d.event.Multi}, nil
}

// fill fills the derived fields that rows lack, of which none has a time.
func (s *scorer) fill(rows []snapshot.Input) {
	if s.derive == nil {
		return
	}
	now := time.Now().UnixMilli()
	for i := range rows {
		s.derive(&event.Event{Time: now, Categorical: rows[i].Categorical, Multi: rows[i].Multi})
	}
}
