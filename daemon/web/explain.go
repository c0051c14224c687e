package web

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format/answer"
	models "github.com/refitd/refitd/snapshot/scorer"
)

// term is what some features of an event add to the outputs.
type term struct {
	Features     []string        `json:"features"`     // names such as user=u1; none for the bias
	Contribution []report.Number `json:"contribution"` // to each output
}

// explainRequest asks what makes a prediction.
type explainRequest struct {
	Event jsontext.Value `json:"event"` // as in the topic, without a label
	past
}

// explainAnswer is a prediction with its terms.
type explainAnswer struct {
	answered
	folded
	prediction
	Terms []term `json:"terms"` // they add up to the outputs
}

// explain takes the prediction of one event apart.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) error {
	return s.withVersion(w, r, func(v *scorer) (any, error) {
		var ask explainRequest
		if err := request.ReadJSON(r, &ask, atMost(0)); err != nil {
			return nil, err
		}
		d := v.decoders.Get().(*decoding)
		defer v.decoders.Put(d)
		over, folded, err := v.over(ask.past, d, request.InflightOf(r))
		if err != nil {
			return nil, err
		}
		in, rejection := d.decode(ask.Event, -1)
		if rejection != nil {
			return nil, request.Rejected(`"event"`, rejection)
		}
		if err := request.InflightOf(r).Grow(explanationBytes(&in, &v.manifest)); err != nil {
			return nil, err
		}
		e, err := over.Explain(&in)
		if err != nil {
			return nil, err
		}
		s.counted(v, 1, len(e.Unseen), len(e.Absent))
		out := explainAnswer{v.answered(), folded, predictionOf(&e.Prediction), []term{}}
		for _, t := range e.Terms {
			out.Terms = append(out.Terms, term{answer.List(t.Features), report.Numbers(t.Contribution)})
		}
		return out, nil
	})
}

// explanationBytes is what the terms of an event take at most: one for each pair of its features, of a kernel of degree
// 3 for each triple, with their names.
func explanationBytes(in *snapshot.Input, m *snapshot.Manifest) int64 {
	features, text := int64(len(in.Numeric)), int64(0)
	for _, list := range append([][]string{in.Categorical}, in.Multi...) {
		features += int64(len(list))
		for _, name := range list {
			text += int64(len(name))
		}
	}
	each := 4*request.NameBytes + request.NumberBytes*int64(m.NumOutputs)
	if m.Degree == 3 && m.NumBasis > 0 {
		features = min(features+1, models.MaxTripled) // with the constant
		return request.EventBytes + features*(features+1)*(features+2)/6*(each+2*request.NameBytes) +
			request.NameCopies*features*features*text
	}
	features = min(features, snapshot.MaxExplained)
	return request.EventBytes + features*(features+1)/2*each + request.NameCopies*features*text
}
