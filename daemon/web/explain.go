package web

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/refitd/refitd/daemon/report"
)

// term is what some features of an event add to the outputs.
type term struct {
	Features     []string        `json:"features"`
	Contribution []report.Number `json:"contribution"`
}

// explain takes the prediction of one event apart.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) {
	s.withVersion(w, r, func(v *scorer) (any, error) {
		var ask struct {
			Event jsontext.Value `json:"event"`
		}
		if err := readJSON(r, &ask); err != nil {
			return nil, err
		}
		d := v.decoders.Get().(*decoding)
		defer v.decoders.Put(d)
		in, reason := d.decode(ask.Event)
		if reason != "" {
			return nil, badRequest(`"event": %s`, reason)
		}
		e, err := v.model.Explain(&in)
		if err != nil {
			return nil, err
		}
		s.counted(v, 1, len(e.Unseen))
		out := struct {
			identity
			prediction
			Terms []term `json:"terms"`
		}{v.identity(), predictionOf(&e.Prediction), []term{}}
		for _, t := range e.Terms {
			features := t.Features
			if features == nil {
				features = []string{}
			}
			out.Terms = append(out.Terms, term{features, numbers(t.Contribution)})
		}
		return out, nil
	})
}
