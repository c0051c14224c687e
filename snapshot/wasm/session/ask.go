package session

import (
	"fmt"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/answer"
	"github.com/refitd/refitd/snapshot/format/where"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/scorer"
)

// predictAsk asks for the predictions of events, which have no label.
type predictAsk struct {
	Handle int64            `json:"handle"`
	Events []map[string]any `json:"events"`
}

// predict predicts a list of events, in their order.
func (s *Session) predict(ask *predictAsk, _ [][]byte) (any, error) {
	o, err := s.of(ask.Handle)
	if err != nil {
		return nil, err
	}
	out := make([]answer.Answer, len(ask.Events))
	for i, e := range ask.Events {
		in, err := o.model.Schema().InputFromMap(e)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
		p, err := o.predictor.Predict(&in)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
		out[i] = p.Answer()
	}
	return out, nil
}

// topAsk asks for the best names of a field.
type topAsk struct {
	Handle  int64          `json:"handle"`
	Event   map[string]any `json:"event"`
	Over    string         `json:"over"`
	K       int            `json:"k"`
	Exclude any            `json:"exclude"` // a list of texts or whole numbers
	Where   map[string]any `json:"where"`
	Class   string         `json:"class"`
}

// topItem is a name of a top list.
type topItem struct {
	Name       string        `json:"name"`
	Prediction format.Number `json:"prediction"` // with that name in the field
}

// topK ranks the names of a field.
func (s *Session) topK(ask *topAsk, _ [][]byte) (any, error) {
	o, err := s.of(ask.Handle)
	if err != nil {
		return nil, err
	}
	if ask.Event == nil {
		ask.Event = make(map[string]any)
	}
	ask.Event[ask.Over] = "-" // what it is does not matter, but that it is there
	in, err := o.model.Schema().InputFromMap(ask.Event)
	if err != nil {
		return nil, err
	}
	where, err := where.FromMap(ask.Where)
	if err != nil {
		return nil, err
	}
	exclude, err := format.NamesOf(ask.Exclude)
	if err != nil {
		return nil, fmt.Errorf("%w: exclude takes %w", disk.ErrInput, err)
	}
	q := format.Query{Input: in, Over: ask.Over, K: ask.K, Class: ask.Class, Where: where, Exclude: exclude}
	items, err := o.predictor.TopK(nil, &q, &o.scratch)
	if err != nil {
		return nil, err
	}
	out := make([]topItem, len(items))
	for i, item := range items {
		out[i] = topItem{item.Name, format.Number(item.Value)}
	}
	return out, nil
}

// explainAsk asks what makes a prediction.
type explainAsk struct {
	Handle int64          `json:"handle"`
	Event  map[string]any `json:"event"`
}

// term is what some features of an event add to the outputs.
type term struct {
	Features     []string        `json:"features"` // names such as user=u1; none for the bias
	Contribution []format.Number `json:"contribution"`
}

// explanation is a prediction with its terms, the strongest first.
type explanation struct {
	answer.Answer
	Terms []term `json:"terms"`
}

// explain takes a prediction apart.
func (s *Session) explain(ask *explainAsk, _ [][]byte) (any, error) {
	o, err := s.of(ask.Handle)
	if err != nil {
		return nil, err
	}
	in, err := o.model.Schema().InputFromMap(ask.Event)
	if err != nil {
		return nil, err
	}
	e, err := o.predictor.Explain(&in)
	if err != nil {
		return nil, err
	}
	out := explanation{Answer: e.Answer(), Terms: make([]term, len(e.Terms))}
	for i, t := range e.Terms {
		out.Terms[i] = term{answer.List(t.Features), format.Numbers(t.Contribution)}
	}
	return out, nil
}

// foldAsk asks for a version that knows a history: events with labels, oldest first.
type foldAsk struct {
	Handle  int64            `json:"handle"`
	History []map[string]any `json:"history"`
	Weights []float64        `json:"weights"` // of the events; none is 1 each
	Held    int              `json:"held"`    // how many of them, the first, the version has learned from
	Field   string           `json:"field"`   // whose names have the history; empty is the first that may
}

// fold returns a handle of the version with a history.
func (s *Session) fold(ask *foldAsk, _ [][]byte) (any, error) {
	o, err := s.of(ask.Handle)
	if err != nil {
		return nil, err
	}
	n := len(ask.History)
	if ask.Held < 0 || ask.Held > n || ask.Weights != nil && len(ask.Weights) != n {
		return nil, fmt.Errorf("%w: held is %d, with %d weights, for a history of %d events", disk.ErrInput, ask.Held,
			len(ask.Weights), n)
	}
	events := make([]format.LabelledEvent, n)
	for i, e := range ask.History {
		if events[i], err = o.model.Schema().LabelledFromMap(e); err != nil {
			return nil, fmt.Errorf("history %d: %w", i, err)
		}
		if events[i].Held = i < ask.Held; ask.Weights != nil {
			events[i].Weight = ask.Weights[i]
		}
	}
	over := new(scorer.Overlay)
	if err := o.model.FoldInto(over, ask.Field, events); err != nil {
		return nil, err
	}
	return s.describe(o.model, over), nil
}
