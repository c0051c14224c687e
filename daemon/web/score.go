package web

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/refitd/refitd/daemon/durations"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/daemon/web/tensor"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Limits bound what one request may ask of a model.
type Limits struct {
	MaxEvents int // events of a score request, rows of an inference request
	MaxItems  int // k of a top list
}

// DefaultLimits are 1,000 events and 1,000 items.
func DefaultLimits() Limits { return Limits{MaxEvents: 1000, MaxItems: 1000} }

// prediction is what a version says of one event.
type prediction struct {
	Prediction    any             `json:"prediction"`        // a number, a class or a list of classes
	Classes       []string        `json:"classes,omitempty"` // the names of a binary label, in the order of probabilities
	Outputs       []report.Number `json:"outputs"`           // raw, in the order of the manifest
	Probabilities []report.Number `json:"probabilities"`     // of the classes or levels; null where the link has none
	Ranked        []string        `json:"ranked,omitempty"`  // the classes of a multiclass label, best first
	// names such as user=u9 that the version does not know: they count nothing
	Unseen []string `json:"unseen"`
	Absent []string `json:"absent"` // optional fields that the event lacks: they count nothing
}

// predictionOf returns answer.Answer, under the name that the API has for it.
func predictionOf(p *snapshot.Prediction) prediction { return prediction(p.Answer()) }

// chosen returns the version that the path names: by number, by alias, the live model, or the champion.
func (s *Server) chosen(r *http.Request) (*scorer, error) {
	cache, err := s.cached(r)
	if err != nil {
		return nil, err
	}
	switch r.PathValue("version") {
	case "":
	case liveVersion:
		return cache.live()
	default:
		v, err := versionOf(r)
		if err != nil {
			return nil, err
		}
		return cache.version(v)
	}
	return cache.alias(cmp.Or(r.PathValue("alias"), pointer.Champion))
}

// withVersion answers a request with what ask makes of it and of the version it is for.
func (s *Server) withVersion(w http.ResponseWriter, r *http.Request, ask func(v *scorer) (any, error)) error {
	began := time.Now()
	v, err := s.chosen(r)
	if err != nil {
		return err
	}
	w.Header().Set(versionHeader, v.header)
	body, err := ask(v)
	if err != nil {
		return err
	}
	defer func() {
		durations.Observe(s.metrics.seconds.WithLabelValues(v.manifest.Model), time.Since(began),
			prometheus.Labels{"version": v.header, "trace_id": traceOf(r)})
	}()
	status, text := request.Encoded(http.StatusOK, body)
	if with, ok := body.(interface{ tail() []byte }); ok && status == http.StatusOK && len(with.tail()) > 0 {
		tensor.Send(w, text, with.tail())
		return nil
	}
	request.InflightOf(r).Shrink(int64(len(text))) // a client that takes its time holds no more than that
	request.Send(w, status, text)
	return nil
}

// traceOf returns the trace that a request belongs to by its traceparent header (W3C Trace Context), "" if it has none
// or nobody keeps it.
func traceOf(r *http.Request) string {
	of := trace.SpanContextFromContext(
		propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
	if !of.IsSampled() {
		return ""
	}
	return of.TraceID().String()
}

// scoreRequest asks for predictions.
type scoreRequest struct {
	// as in the topic, without a label; other fields are ignored, derived ones that it lacks are filled
	Events []jsontext.Value `json:"events"`
	past
}

// scoreAnswer has a prediction for each event, in their order.
type scoreAnswer struct {
	answered
	folded
	Predictions []prediction `json:"predictions"` // in the order of the events
}

// score predicts a list of events. One that cannot be scored fails the request, with its place and the reason.
func (s *Server) score(w http.ResponseWriter, r *http.Request) error {
	return s.withVersion(w, r, func(v *scorer) (any, error) {
		var ask scoreRequest
		if err := request.ReadJSON(r, &ask, atMost(s.Limits(v.manifest.Model).MaxEvents)); err != nil {
			return nil, err
		}
		if ask.Events == nil {
			return nil, request.BadRequest(`"events" is missing: a list of events`)
		}
		held := request.InflightOf(r)
		if err := held.Grow(int64(len(ask.Events)) * v.predictionBytes); err != nil {
			return nil, err
		}
		d := v.decoders.Get().(*decoding)
		defer v.decoders.Put(d)
		over, folded, err := v.over(ask.past, d, held)
		if err != nil {
			return nil, err
		}
		out := scoreAnswer{v.answered(), folded, make([]prediction, len(ask.Events))}
		unseen, absent := 0, 0
		for i, value := range ask.Events {
			in, rejection := d.decode(value, -1)
			if rejection != nil {
				return nil, request.Rejected(fmt.Sprintf(`"events" element %d`, i), rejection)
			}
			p, err := over.Predict(&in)
			if err != nil {
				return nil, err
			}
			if err := held.GrowForNames(p.Unseen, p.Absent); err != nil {
				return nil, err
			}
			unseen, absent = unseen+len(p.Unseen), absent+len(p.Absent)
			out.Predictions[i] = predictionOf(&p)
		}
		s.counted(v, len(ask.Events), unseen, absent)
		return out, nil
	})
}

// counted counts scored events, their unseen names and the fields that they lack.
func (s *Server) counted(v *scorer, events, unseen, absent int) {
	s.metrics.absent.WithLabelValues(v.manifest.Model).Add(float64(absent))
	s.metrics.scored.WithLabelValues(v.manifest.Model).Add(float64(events))
	s.metrics.unseen.WithLabelValues(v.manifest.Model).Add(float64(unseen))
}
