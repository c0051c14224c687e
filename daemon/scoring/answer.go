package scoring

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web"
)

// Answer is the value of a record of the topic of scores: what a version says of the event at an offset, or why that is
// none. Members are added over time and never renamed.
type Answer struct {
	Topic     string `json:"topic"` // of the event
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	// Timestamp is that of the event's record; null if it has none.
	Timestamp *time.Time `json:"timestamp"`
	Scored    time.Time  `json:"scored"` // when, by the daemon's clock
	web.Answered
	*Score
	Error *Failure `json:"error,omitempty"` // instead of a score
}

// Score is what a version says of an event.
type Score struct {
	FeaturesDigest string `json:"features_digest"` // of what was scored, see FeaturesDigest
	// Propensity is the field score.propensity of the event; null if there is no such key, or the event lacks the
	// field.
	Propensity *report.Number `json:"propensity"`
	web.Prediction
}

// Failure says why the record at an offset could not be scored.
type Failure struct {
	Reason   event.Reason `json:"reason"`             // one of the reasons of rejections
	Field    string       `json:"field,omitempty"`    // of the schema that the reason is about, or score.propensity
	Expected string       `json:"expected,omitempty"` // what may be there
	Got      string       `json:"got,omitempty"`      // the kind of what was there
}

// maxAnswer bounds the value of an answer, bytes: below the largest batch that brokers take by default, with its key
// and framing.
const maxAnswer = 900 << 10

// answerer scores records with one version. It is for one goroutine.
type answerer struct {
	champion   *web.Champion
	propensity string // field; empty for none
}

// answer returns the value for a record, and whether the event in it was scored.
func (a *answerer) answer(r *kgo.Record) (value []byte, scored bool, err error) {
	out := Answer{
		Topic:     r.Topic,
		Partition: r.Partition,
		Offset:    r.Offset,
		Scored:    time.Now().UTC(),
		Answered:  a.champion.Answered(),
	}
	stamp := int64(-1)
	if !r.Timestamp.IsZero() && r.Timestamp.UnixMilli() >= 0 {
		stamp = r.Timestamp.UnixMilli()
		at := r.Timestamp.UTC()
		out.Timestamp = &at
	}
	score, rejection, err := a.contained(r.Value, stamp)
	if err != nil {
		return nil, false, err
	}
	if rejection != nil {
		out.Error = &Failure{rejection.Reason, rejection.Field, rejection.Expected, rejection.Got}
	}
	out.Score = score
	if value, err = json.Marshal(out); err != nil {
		return nil, false, fmt.Errorf("scoring: %w", err)
	}
	if len(value) > maxAnswer {
		out.Score, out.Error = nil, &Failure{
			event.TooLarge,
			"",
			fmt.Sprintf("an answer of at most %d bytes", maxAnswer),
			"a larger one",
		}
		value, err = json.Marshal(out)
	}
	return value, out.Score != nil, err
}

// contained scores the value of a record. A panic is a bug, and of this record alone: it is answered as one.
func (a *answerer) contained(value []byte, stamp int64) (score *Score, rejection *event.Rejection, err error) {
	defer func() {
		if recover() != nil {
			score, rejection, err = nil, &event.Rejection{Reason: event.Panicked}, nil
		}
	}()
	return a.score(value, stamp)
}

func (a *answerer) score(value []byte, stamp int64) (*Score, *event.Rejection, error) {
	scored, rejection, err := a.champion.Score(value, stamp)
	if rejection != nil || err != nil {
		return nil, rejection, err
	}
	out := &Score{Prediction: scored.Prediction}
	if a.propensity != "" {
		if out.Propensity, rejection = propensityOf(value, a.propensity); rejection != nil {
			return nil, rejection, nil
		}
	}
	out.FeaturesDigest, err = FeaturesDigest(a.champion.Schema(), &scored.Input)
	return out, nil, err
}
