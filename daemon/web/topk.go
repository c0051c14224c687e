package web

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	jsonv2 "github.com/go-json-experiment/json"

	eventdata "github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/snapshot"
)

// topRequest asks for the names of a categorical field that are predicted best with the rest of an event.
type topRequest struct {
	Event   jsontext.Value `json:"event"`            // what it has in the field Over does not matter
	Over    string         `json:"over"`             // categorical field whose names are ranked
	K       int            `json:"k,omitzero"`       // how many, 10 unless said otherwise
	Exclude []request.Name `json:"exclude,omitzero"` // names to leave out: strings or whole numbers, as in events
	// conditions on what tables say of the names: a name, true or false, a list of them, or {"min": …, "max": …}
	Where map[string]any `json:"where,omitzero"`
	// of multiclass and multilabel models: the name of the class to rank by
	Class request.Name `json:"class,omitzero"`
	// asks for the event's vector, too, for inner products with those of names elsewhere (publish.vectors)
	QueryVector bool `json:"query_vector,omitzero"`
	past
	// ExcludeHistory leaves out the names that events of the history have in the field Over: what was seen already.
	ExcludeHistory bool `json:"exclude_history,omitzero"`
}

// topItem is a name of a top list.
type topItem struct {
	Name       string        `json:"name"`       // of the field
	Prediction report.Number `json:"prediction"` // with that name in the field
}

// topAnswer is a top list.
type topAnswer struct {
	answered
	folded
	Items       []topItem `json:"items"`                  // best first
	QueryVector []float64 `json:"query_vector,omitempty"` // the event's, where query_vector asks for it
}

// topk ranks the names of a field.
func (s *Server) topk(w http.ResponseWriter, r *http.Request) error {
	return s.withVersion(w, r, func(v *scorer) (any, error) {
		ask := topRequest{K: defaultItems}
		if err := request.ReadJSON(r, &ask, atMost(0)); err != nil {
			return nil, err
		}
		if err := ask.check(v.model.Schema(), s.Limits(v.manifest.Model).MaxItems); err != nil {
			return nil, err
		}
		where, err := snapshot.WhereFromMap(ask.Where)
		if err != nil {
			return nil, err
		}
		event, err := withField(ask.Event, ask.Over)
		if err != nil {
			return nil, err
		}
		d := v.decoders.Get().(*decoding)
		defer v.decoders.Put(d)
		held := request.InflightOf(r)
		over, folded, err := v.over(ask.past, d, held)
		if err != nil {
			return nil, err
		}
		if fold := v.manifest.FoldIn; folded.Folded > 0 && fold != nil && fold.Fields[0].Name == ask.Over {
			return nil, request.BadRequest(`"over" is %q, whose names the history is of: rank over another field`, ask.Over)
		}
		query := snapshot.Query{Over: ask.Over, K: ask.K, Exclude: ask.excluded(v.model.Schema(), d),
			Class: string(ask.Class), Where: where}
		in, rejection := d.decode(event, -1)
		if rejection != nil {
			return nil, request.Rejected(`"event"`, rejection)
		}
		if err := held.Grow(int64(ask.K) * (request.NameBytes + request.NumberBytes)); err != nil {
			return nil, err
		}
		query.Input = in
		if d.items, err = over.TopK(d.items[:0], &query, &d.scratch); err != nil {
			return nil, err
		}
		out := topAnswer{answered: v.answered(), folded: folded}
		if ask.QueryVector {
			if err := out.queryVector(v.model, &in, &ask, d); err != nil {
				return nil, err
			}
		}
		if err := out.list(d.items, held); err != nil {
			return nil, err
		}
		s.counted(v, 1, 0, v.absent(d))
		return out, nil
	})
}

// absent returns how many optional fields the decoded event lacks.
func (v *scorer) absent(d *decoding) (n int) {
	v.absence.Each(&d.event, func(string) { n++ })
	return n
}

// list adds names, whose bytes held grows by.
func (t *topAnswer) list(items []snapshot.Item, held *request.Inflight) error {
	t.Items = make([]topItem, len(items))
	for i, item := range items {
		if err := held.Grow(request.NameCopies * int64(len(item.Name))); err != nil {
			return err
		}
		t.Items[i] = topItem{item.Name, report.Number(item.Value)}
	}
	return nil
}

// queryVector adds the vector of an event.
func (t *topAnswer) queryVector(m *snapshot.Model, in *snapshot.Input, ask *topRequest, d *decoding) error {
	if len(ask.History) > 0 {
		return request.BadRequest(`"query_vector" goes without a history: vectors of names are those of the version`)
	}
	vectors, err := m.Vectors(ask.Over, string(ask.Class))
	if err != nil {
		return err
	}
	t.QueryVector, _, err = vectors.Query(nil, in, &d.scratch)
	return err
}

// check returns what is wrong with a request, whose list may have maxItems names.
func (t *topRequest) check(schema *snapshot.Schema, maxItems int) error {
	class := string(t.Class)
	switch {
	case !slices.Contains(schema.Categorical, t.Over):
		return request.BadRequest(`"over" is %q: one of the categorical fields %q`, t.Over, schema.Categorical)
	case t.K < 1 || t.K > maxItems:
		return request.BadRequest(`"k" is %d: a whole number from 1 to %d (serve.max_items)`, t.K, maxItems)
	case class != "" && !slices.Contains(schema.Classes, class):
		return request.BadRequest(`"class" is %q: one of %q`, class, schema.Classes)
	case class == "" && len(schema.Classes) > 0:
		return request.BadRequest(`"class" is missing: one of %q`, schema.Classes)
	}
	return nil
}

// excluded returns the names that are left out. d has decoded all events of the history before.
func (t *topRequest) excluded(schema *snapshot.Schema, d *decoding) []string {
	exclude := make([]string, 0, len(t.Exclude))
	for _, n := range t.Exclude {
		exclude = append(exclude, string(n))
	}
	if !t.ExcludeHistory {
		return exclude
	}
	field := slices.Index(schema.Categorical, t.Over)
	for _, value := range t.History {
		if r := d.labelled.Decode(&d.event, value, 0); r == nil {
			exclude = append(exclude, d.event.Categorical[field])
		}
	}
	return exclude
}

// defaultItems is k where a request does not say.
const defaultItems = 10

// withField returns an event whose categorical field name is there, whatever it had: the decoder asks for every field.
func withField(event jsontext.Value, name string) ([]byte, error) {
	if len(event) > eventdata.DefaultLimits().MaxEventBytes {
		return event, nil // which the decoder refuses
	}
	var fields map[string]jsontext.Value
	if err := jsonv2.Unmarshal(event, &fields, eventdata.HalfPairs); err != nil || fields == nil {
		return nil, request.BadRequest(`"event" is not an object`)
	}
	fields[name] = jsontext.Value(`"-"`)
	b, err := jsonv2.Marshal(fields, eventdata.HalfPairs)
	if err != nil {
		return nil, fmt.Errorf("web: event: %w", err)
	}
	return b, nil
}
