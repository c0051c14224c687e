package web

import (
	"strconv"
	"sync"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/snapshot"
)

// scorer is one loaded version. It is safe for concurrent use.
type scorer struct {
	model    *snapshot.Model
	manifest snapshot.Manifest
	header   string // the version, for the header
	// predictionBytes is what a prediction takes in an answer, without names that it does not know.
	predictionBytes int64
	absence         event.Absence
	decoders        sync.Pool
}

// decoding is the working memory of one request.
type decoding struct {
	decoder event.Decoder
	event   event.Event
	scratch snapshot.Scratch
	items   []snapshot.Item
}

func newScorer(m *snapshot.Model) *scorer {
	s := &scorer{model: m, manifest: m.Manifest()}
	s.header = strconv.FormatInt(s.manifest.Version, 10)
	schema := m.Schema()
	numbers := m.NumOutputs() + numProbabilities(schema, s.manifest.Link, m.NumOutputs()) + len(schema.Classes)
	s.predictionBytes = eventBytes + numberBytes*int64(numbers)
	fields := event.Schema{Task: event.Task(schema.Task), Label: schema.Label, Levels: schema.Levels, Classes: schema.Classes,
		Categorical: schema.Categorical, Multi: schema.Multi, Optional: schema.Optional}
	for _, f := range schema.Numeric {
		fields.Numeric = append(fields.Numeric, f.Name)
	}
	s.absence = fields.Absence()
	s.decoders.New = func() any {
		d := event.NewJSON(fields, event.DefaultLimits())
		d.RequireLabel = false
		return &decoding{decoder: d}
	}
	return s
}

func (s *scorer) identity() identity { return identityOf(&s.manifest) }

// decode reads an event as the daemon does. The result shares memory with d until the next call.
func (d *decoding) decode(value []byte) (snapshot.Input, *event.Rejection) {
	if r := d.decoder.Decode(&d.event, value, 0); r != nil {
		return snapshot.Input{}, r
	}
	return snapshot.Input{Categorical: d.event.Categorical, Numeric: d.event.Numeric, Multi: d.event.Multi}, nil
}
