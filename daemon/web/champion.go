package web

import (
	"errors"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/snapshot"
)

// Prediction is what a version says of one event, as POST …/score answers it.
type Prediction = prediction

// Answered names what answered and says how old it is, as in every answer over HTTP.
type Answered = answered

// Champion scores single events with the version that consumers had when it was made, and the deltas that they had. It
// is for one goroutine.
type Champion struct {
	scorer   *scorer
	decoding *decoding
}

// Champion returns what scores with the version of a model that consumers have now: last, if that still does, nil
// without a champion. No model has one before Serve runs.
func (s *Server) Champion(model string, last *Champion) *Champion {
	cache := s.caches[model]
	if cache == nil {
		return nil
	}
	now := cache.champion()
	switch {
	case now == nil:
		return nil
	case last != nil && last.scorer == now:
		return last
	case last != nil && last.scorer.manifest.Digest == now.manifest.Digest: // with more deltas
		return &Champion{now, last.decoding}
	}
	return &Champion{now, now.decoders.Get().(*decoding)}
}

// Published returns the version of a model that consumers have now, with its deltas. It is nil without a champion,
// and before Serve runs.
func (s *Server) Published(model string) *snapshot.Model {
	if cache := s.caches[model]; cache != nil {
		if now := cache.champion(); now != nil {
			return now.model
		}
	}
	return nil
}

// Answered says what scores now.
func (c *Champion) Answered() Answered { return c.scorer.answered() }

// Schema returns the fields of the version. It must not be changed.
func (c *Champion) Schema() *snapshot.Schema { return c.scorer.model.Schema() }

// PredictionBytes is the memory of a prediction and its text, without names of the event.
func (c *Champion) PredictionBytes() int64 { return c.scorer.predictionBytes }

// Scored is an event that was scored.
type Scored struct {
	Prediction
	// what was scored, derived fields included; it shares memory with the Champion until its next call
	Input snapshot.Input
}

// Score predicts an event as it is in a topic, whose label may be missing. recordTime is the time stamp of the record
// in milliseconds, negative if it has none.
func (c *Champion) Score(value []byte, recordTime int64) (Scored, *event.Rejection, error) {
	in, rejection := c.decoding.decode(value, recordTime)
	if rejection != nil {
		return Scored{}, rejection, nil
	}
	p, err := c.scorer.model.Predict(&in)
	if errors.Is(err, snapshot.ErrInput) {
		return Scored{}, &event.Rejection{
			Reason:   event.NumberRange,
			Expected: "numbers that can be scored",
			Got:      "larger ones",
		}, nil
	}
	if err != nil {
		return Scored{}, nil, err
	}
	return Scored{predictionOf(&p), in}, nil, nil
}
