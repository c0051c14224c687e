package web

import (
	"errors"
	"fmt"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/snapshot"
)

// history are labelled events of entities, oldest first, that a version is folded over for one request.
type history []jsontext.Value

// past is the history of a request.
type past struct {
	// History are events with their labels, as in the topic, oldest first: those of an entity that is asked about.
	History history `json:"history,omitzero"`
	// HistoryHeld is how many of these, the first, the version has learned from: they make the row that it has of the
	// entity as certain as it was.
	HistoryHeld int `json:"history_held,omitzero"`
}

// predictor is a version, or a version with a history.
type predictor interface {
	Predict(in *snapshot.Input) (snapshot.Prediction, error)
	Explain(in *snapshot.Input) (snapshot.Explanation, error)
	TopK(dst []snapshot.Item, q *snapshot.Query, s *snapshot.Scratch) ([]snapshot.Item, error)
}

// folded is how many events of the request's history the answer counts.
type folded struct {
	Folded int `json:"folded,omitzero"` // events of the history; absent without one
}

// atMost decodes lists of events and of histories, and ends at the first element beyond the limits.
func atMost(events int) jsonv2.Options {
	return jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(
		bounded[[]jsontext.Value](events,
			fmt.Sprintf(`"events" has more elements than the %d that serve.max_events allows`, events)),
		bounded[history](snapshot.MaxHistory,
			fmt.Sprintf(`"history" has more than %d elements: leave the oldest out`, snapshot.MaxHistory)),
	))
}

func bounded[T ~[]jsontext.Value](limit int, text string) *jsonv2.Unmarshalers {
	return jsonv2.UnmarshalFromFunc(func(in *jsontext.Decoder, list *T) error {
		if in.PeekKind() != '[' {
			return errors.ErrUnsupported // what is wrong, or null, is reported as for every type
		}
		if _, err := in.ReadToken(); err != nil {
			return err
		}
		*list = T{}
		for in.PeekKind() != ']' {
			if len(*list) == limit {
				return request.BadRequest("%s", text)
			}
			value, err := in.ReadValue()
			if err != nil {
				return err
			}
			*list = append(*list, value.Clone())
		}
		_, err := in.ReadToken()
		return err
	})
}

// over returns the version with a history, or the version itself without one. held is charged for what that takes.
func (s *scorer) over(of past, d *decoding, held *request.Inflight) (predictor, folded, error) {
	h := of.History
	if of.HistoryHeld < 0 || of.HistoryHeld > len(h) {
		return nil, folded{}, request.BadRequest(`"history_held" is %d: a whole number from 0 to %d, the events of "history"`,
			of.HistoryHeld, len(h))
	}
	if len(h) == 0 {
		return s.model, folded{}, nil
	}
	by := s.model.HistoryField()
	if by == "" {
		_, err := s.model.Fold(make([]snapshot.LabelledEvent, 1))
		return nil, folded{}, request.BadRequest(`"history": %v`, err)
	}
	field := slices.Index(s.model.Schema().Categorical, by)
	events, names := make([]snapshot.LabelledEvent, len(h)), make(map[string]bool)
	for i, value := range h {
		if err := held.Grow(request.EventBytes + request.NameCopies*int64(len(value))); err != nil {
			return nil, folded{}, err
		}
		if r := d.labelled.Decode(&d.event, value, 0); r != nil {
			return nil, folded{}, request.Rejected(fmt.Sprintf(`"history" element %d`, i), r)
		}
		events[i] = labelledEvent(&d.event)
		events[i].Held = i < of.HistoryHeld
		if name := d.event.Categorical[field]; !names[name] {
			names[name] = true
			if err := held.Grow(s.model.EntityBytes()); err != nil {
				return nil, folded{}, err
			}
		}
	}
	over, err := s.model.Fold(events)
	if errors.Is(err, snapshot.ErrInput) {
		return nil, folded{}, request.BadRequest(`"history": %v`, err)
	}
	return over, folded{len(h)}, err
}

// labelledEvent copies an event whose memory is used again.
func labelledEvent(ev *event.Event) snapshot.LabelledEvent {
	e := snapshot.LabelledEvent{
		Input:   snapshot.Input{Categorical: slices.Clone(ev.Categorical), Numeric: slices.Clone(ev.Numeric)},
		Label:   ev.Label,
		Classes: slices.Clone(ev.Classes),
	}
	for _, names := range ev.Multi {
		e.Multi = append(e.Multi, slices.Clone(names))
	}
	return e
}
