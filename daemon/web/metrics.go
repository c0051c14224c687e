package web

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/refitd/refitd/daemon/durations"
	"github.com/refitd/refitd/daemon/web/request"
)

// metrics are those of the requests.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	scored   *prometheus.CounterVec
	unseen   *prometheus.CounterVec
	absent   *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer, b *request.Budget, p *request.Places) *metrics {
	f := promauto.With(r)
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "refitd_http_inflight_bytes",
		Help: "Memory that requests with a body hold of web.max_inflight_bytes: bodies, what is decoded from them, answers."},
		func() float64 { return float64(b.InUse()) })
	f.NewGaugeFunc(
		prometheus.GaugeOpts{
			Name: "refitd_http_connections",
			Help: "Connections of the HTTP listener, idle ones included.",
		},
		func() float64 { return float64(p.Len()) },
	)
	return &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{Name: "refitd_http_requests_total",
			Help: "HTTP requests answered, by status code, those that authentication refused left out."}, []string{"code"}),
		seconds: f.NewHistogramVec(durations.Options(
			"refitd_score_duration_seconds",
			"Time of requests for scores, top lists, explanations and inference, from the first byte of the body to the answer.",
			prometheus.ExponentialBuckets(0.00005, 2, 16),
		), []string{"model"}),
		scored: f.NewCounterVec(prometheus.CounterOpts{Name: "refitd_scored_events_total",
			Help: "Events scored over HTTP."}, []string{"model"}),
		unseen: f.NewCounterVec(prometheus.CounterOpts{Name: "refitd_scored_unseen_names_total",
			Help: "Names in events scored over HTTP that the version did not know."}, []string{"model"}),
		absent: f.NewCounterVec(prometheus.CounterOpts{Name: "refitd_scored_absent_fields_total",
			Help: "Fields that events scored over HTTP lacked: they counted nothing."}, []string{"model"}),
	}
}

// newConnectionMetrics returns the counter of connections that had to go.
func newConnectionMetrics(r prometheus.Registerer) prometheus.Counter {
	return promauto.With(r).NewCounter(prometheus.CounterOpts{Name: "refitd_http_connections_closed_total",
		Help: "Connections closed while they waited for their clients, because there were web.max_connections and others " +
			"came."})
}

// scrape answers with the metrics in Prometheus' format or another one that the client asks for. Few scrapes are
// answered at a time.
func (s *Server) scrape(w http.ResponseWriter, r *http.Request) error {
	s.scrapes.ServeHTTP(w, r)
	return nil
}

// add makes the series of a model exist before its first request.
func (m *metrics) add(model string) {
	m.seconds.WithLabelValues(model)
	m.scored.WithLabelValues(model)
	m.unseen.WithLabelValues(model)
	m.absent.WithLabelValues(model)
}
