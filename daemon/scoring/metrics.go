package scoring

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are those of all scorers of a process, by model.
type Metrics struct {
	records  *prometheus.CounterVec
	failures *prometheus.CounterVec
	lost     *prometheus.CounterVec
	lag      *prometheus.GaugeVec
	exact    *prometheus.GaugeVec
}

// The values of the label result.
const (
	resultScored   = "scored"
	resultRejected = "rejected"
)

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	f, labels := promauto.With(r), []string{"model"}
	return &Metrics{
		records: f.NewCounterVec(prometheus.CounterOpts{Name: "refitd_score_records_total",
			Help: "Offsets answered in score.topic: events that were scored, and records that are no events, which are " +
				"rejected."}, []string{"model", "result"}),
		failures: f.NewCounterVec(prometheus.CounterOpts{Name: "refitd_score_failures_total",
			Help: "Times that reading the events to score, or writing answers, failed; it is tried again."}, labels),
		lost: f.NewCounterVec(prometheus.CounterOpts{Name: "refitd_score_lost_offsets_total",
			Help: "Offsets that the brokers did not hold any more when they were to be scored: they have no answer."}, labels),
		lag: f.NewGaugeVec(prometheus.GaugeOpts{Name: "refitd_score_lag_records",
			Help: "Offsets between the ends of the logs and what the group of the scores has answered, of all its members."},
			labels),
		exact: f.NewGaugeVec(prometheus.GaugeOpts{Name: "refitd_score_exactly_once",
			Help: "1 while each offset is answered exactly once, in transactions; 0 while it is answered at least once."},
			labels),
	}
}

// add makes the counters of a model exist before there is something to count. What is a state rather than a count comes
// with the first session.
func (m *Metrics) add(model string) {
	m.records.WithLabelValues(model, resultScored)
	m.records.WithLabelValues(model, resultRejected)
	m.failures.WithLabelValues(model)
	m.lost.WithLabelValues(model)
}
