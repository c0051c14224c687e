package deadletter

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are those of all senders of a process, by model.
type Metrics struct {
	pending  *prometheus.GaugeVec
	sent     *prometheus.CounterVec
	failures *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	f := promauto.With(r)
	labels := []string{"model"}
	return &Metrics{
		pending: f.NewGaugeVec(prometheus.GaugeOpts{Name: "refitd_dead_letters_pending",
			Help: "Rejected records that wait to be sent to the dead-letter topic."}, labels),
		sent: f.NewCounterVec(prometheus.CounterOpts{Name: "refitd_dead_letters_sent_total",
			Help: "Rejected records that the dead-letter topic has acknowledged; after a crash some are sent, and counted, " +
				"again."}, labels),
		failures: f.NewCounterVec(prometheus.CounterOpts{Name: "refitd_dead_letter_failures_total",
			Help: "Attempts to send to the dead-letter topic that failed; the records wait for the next one."}, labels),
	}
}
