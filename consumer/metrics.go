package consumer

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	lag, high, certExpiry              *prometheus.GaugeVec
	halted, paused                     prometheus.Gauge
	fetchErrors, fingerprints, records *prometheus.CounterVec
	delivered, control, aborted, holes prometheus.Counter // of records
	fetches, fetchBytes, crcErrors     prometheus.Counter
	commits, commitErrors              prometheus.Counter
	stalls, foreign, confirmations     prometheus.Counter
	refused, missing                   *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, topics []string) *metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	partition := []string{"topic", "partition"}
	m := &metrics{
		lag: f.NewGaugeVec(prometheus.GaugeOpts{Name: "refitd_consumer_lag_records",
			Help: "Offsets between the end of the log and the next one to be applied."}, partition),
		high: f.NewGaugeVec(prometheus.GaugeOpts{Name: "refitd_consumer_high_watermark",
			Help: "End of the log at the last fetch."}, partition),
		fetches:    counter("refitd_consumer_fetches_total", "Fetch requests that were answered."),
		fetchBytes: counter("refitd_consumer_fetch_bytes_total", "Bytes of record sets fetched."),
		fetchErrors: f.NewCounterVec(prometheus.CounterOpts{Name: "refitd_consumer_fetch_errors_total",
			Help: "Fetches that failed: the whole request (connection) or one partition of it (partition)."}, []string{"scope"}),
		crcErrors: counter("refitd_consumer_crc_errors_total",
			"Record batches that were refused because their bytes are damaged."),
		fingerprints: f.NewCounterVec(prometheus.CounterOpts{Name: "refitd_consumer_fingerprints_total",
			Help: "Looks at the last applied record before reading continued: it was there (match), another one was " +
				"(mismatch), or it was compacted " +
				"away or is below the log start (skipped)."}, []string{"result"}),
		confirmations: counter(
			"refitd_consumer_confirmations_total",
			"Questions on a second connection about answers that could lose or double records: holes, batches out of order, "+
				"a log start or end that is not where it should be, transactions without their end.",
		),
		refused: f.NewCounterVec(prometheus.CounterOpts{Name: "refitd_consumer_answers_refused_total",
			Help: "Answers that a second one on another connection contradicted, and that were asked for again, by what was " +
				"odd in them."}, []string{"reason"}),
		missing: f.NewCounterVec(prometheus.CounterOpts{Name: "refitd_consumer_missing_offsets_total",
			Help: "Offsets read over that the log has no record for, of topics that are not compacted or of which " +
				"cleanup.policy cannot be read (unknown)."},
			[]string{"topic", "cleanup_policy"}),
		records: f.NewCounterVec(prometheus.CounterOpts{Name: "refitd_consumer_records_total",
			Help: "Offsets read, by what became of them."}, []string{"fate"}),
		halted: f.NewGauge(
			prometheus.GaugeOpts{
				Name: "refitd_consumer_halted_partitions",
				Help: "Partitions that wait for an operator.",
			},
		),
		paused: f.NewGauge(prometheus.GaugeOpts{Name: "refitd_consumer_paused_partitions",
			Help: "Partitions that wait until what they write to has room again."}),
		stalls: counter("refitd_consumer_stalls_total",
			"Times the watchdog rebuilt the connections for a partition without progress."),
		commits: counter("refitd_consumer_commits_total", "Commits of offsets for lag tools."),
		commitErrors: counter("refitd_consumer_commit_errors_total",
			"Commits of offsets for lag tools that failed; nothing is lost by it."),
		foreign: counter("refitd_consumer_foreign_commits_total",
			"Times the group showed an offset above ours, which another program committed; it is not read from."),
		certExpiry: f.NewGaugeVec(prometheus.GaugeOpts{Name: "refitd_consumer_cert_expiry_seconds",
			Help: "Unix time at which the certificate of the last TLS connection ends, the broker's or ours."},
			[]string{"side"}),
	}
	m.delivered, m.control = m.records.WithLabelValues("delivered"), m.records.WithLabelValues("control")
	m.aborted, m.holes = m.records.WithLabelValues("aborted"), m.records.WithLabelValues("hole")
	m.fetchErrors.WithLabelValues("connection")
	m.fetchErrors.WithLabelValues("partition")
	for _, reason := range []string{refusedBatch, refusedStart, refusedEnd, refusedFingerprint,
		refusedAborted} {
		m.refused.WithLabelValues(reason)
	}
	for _, topic := range topics {
		m.missing.WithLabelValues(topic, policyDelete)
		m.missing.WithLabelValues(topic, policyUnknown)
	}
	for _, result := range []string{"match", "mismatch", "skipped"} {
		m.fingerprints.WithLabelValues(result)
	}
	return m
}

func (m *metrics) partition(tp TopicPartition) (lag, high prometheus.Gauge) {
	number := strconv.Itoa(int(tp.Partition))
	return m.lag.WithLabelValues(tp.Topic, number), m.high.WithLabelValues(tp.Topic, number)
}

// applied counts the offsets of a batch that the sink has stored.
func (m *metrics) applied(t *tally) {
	m.delivered.Add(float64(t.fates[Delivered]))
	m.control.Add(float64(t.fates[Control]))
	m.aborted.Add(float64(t.fates[Aborted]))
	m.holes.Add(float64(t.holes()))
}
