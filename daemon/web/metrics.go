package web

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are what the surface tells of its requests.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	scored   *prometheus.CounterVec
	unseen   *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{Name: "refitd_http_requests_total",
			Help: "HTTP requests answered, by status code, those that authentication refused left out."}, []string{"code"}),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{Name: "refitd_score_duration_seconds",
			Help:    "Time of requests for scores, top lists, explanations and inference, from the first byte of the body to the answer.",
			Buckets: prometheus.ExponentialBuckets(0.00005, 2, 16)}, []string{"model"}),
		scored: f.NewCounterVec(prometheus.CounterOpts{Name: "refitd_scored_events_total",
			Help: "Events scored over HTTP."}, []string{"model"}),
		unseen: f.NewCounterVec(prometheus.CounterOpts{Name: "refitd_scored_unseen_names_total",
			Help: "Names in events scored over HTTP that the version did not know."}, []string{"model"}),
	}
}

// scrape answers with the metrics in Prometheus' format or another one that the client asks for. Few scrapes are answered at a time.
func (s *Server) scrape(w http.ResponseWriter, r *http.Request) error {
	s.scrapes.ServeHTTP(w, r)
	return nil
}

// add makes the series of a model exist before its first request.
func (m *metrics) add(model string) {
	m.seconds.WithLabelValues(model)
	m.scored.WithLabelValues(model)
	m.unseen.WithLabelValues(model)
}
