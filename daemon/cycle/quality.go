package cycle

import (
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/quality"
	"github.com/refitd/refitd/daemon/report"
)

// Quality accumulates METRICS of one predictor over labelled events.
type Quality struct {
	target  *Target
	group   func(*event.Event) string
	errors  *quality.Accumulator
	ranking *quality.Ranking
}

// NewQuality returns an empty one. Group, if not nil, gives the ranking group of every event, for numeric labels only.
func NewQuality(t *Target, group func(*event.Event) string) *Quality {
	errors := quality.NewClassAccumulator()
	if t.IsNumeric() {
		errors = quality.NewNumberAccumulator(t.Low, t.High)
	}
	return &Quality{t, group, errors, quality.NewRanking()}
}

// Add adds the outputs for one event and what was to be predicted (Target.Encode).
func (q *Quality) Add(ev *event.Event, outputs, targets []float64) {
	loss := q.target.Loss.Eval(nil, outputs, targets)
	if !q.target.IsNumeric() {
		q.errors.AddClass(loss, q.target.Correct(outputs, targets))
		return
	}
	value := q.target.Value(outputs)
	q.errors.AddNumber(loss, value, ev.Label)
	if q.group != nil {
		q.ranking.Add(q.group(ev), value, ev.Label)
	}
}

// Metrics returns what has been accumulated.
func (q *Quality) Metrics() *report.Metrics {
	m := q.errors.Metrics()
	q.ranking.AddTo(&m)
	return &m
}
