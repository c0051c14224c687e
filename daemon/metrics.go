package daemon

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/deadletter"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
)

// metrics are what the daemon tells Prometheus about its models; the consumer adds its own.
type metrics struct {
	events      *prometheus.CounterVec
	rejected    *prometheus.CounterVec
	fates       *prometheus.CounterVec
	watermark   *prometheus.GaugeVec
	sampleRows  *prometheus.GaugeVec
	sampleBytes *prometheus.GaugeVec
	freeBytes   *prometheus.GaugeVec
	rollbacks   *prometheus.CounterVec

	progressive *prometheus.GaugeVec
	resets      *prometheus.GaugeVec

	trainSeconds *prometheus.HistogramVec
	trainGap     *prometheus.GaugeVec
	trainSuccess *prometheus.GaugeVec
	trainFailed  *prometheus.CounterVec
	decisions    *prometheus.CounterVec
	published    *prometheus.CounterVec
	features     *prometheus.GaugeVec
	snapshotInfo *prometheus.GaugeVec
	snapshotTime *prometheus.GaugeVec
	dataTime     *prometheus.GaugeVec

	letters   *deadletter.Metrics
	announced *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: "refitd_" + name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return f.NewGaugeVec(prometheus.GaugeOpts{Name: "refitd_" + name, Help: help}, labels)
	}
	m := &metrics{
		events:      counter("events_total", "Events applied to the state.", "model", "topic"),
		rejected:    counter("events_rejected_total", "Records that are not valid events, by reason.", "model", "reason"),
		fates:       counter("records_skipped_total", "Offsets that hold no event: transaction markers, aborted records, holes of compaction.", "model", "fate"),
		watermark:   gauge("event_time_watermark_timestamp_seconds", "Newest event time applied.", "model"),
		sampleRows:  gauge("sample_rows", "Rows of the sample, by role: train, select and gate.", "model", "role"),
		sampleBytes: gauge("sample_bytes", "Bytes of the sample's rows.", "model"),
		freeBytes:   gauge("storage_free_bytes", "Free space of the file system that holds the state.", "model"),
		rollbacks:   counter("state_rollback_offsets_total", "Offsets that were applied once and, because the state had lost them at its start, are read again.", "model"),
		progressive: gauge("progressive_loss", "Window loss of predictions made before the event was learned from: RMSE for numbers, error rate for classes.", "model", "role"),
		resets:      gauge("fold_in_resets", "Times the fold-in started again because it had become worse than the champion alone, since the start.", "model"),
		trainSeconds: f.NewHistogramVec(prometheus.HistogramOpts{Name: "refitd_train_duration_seconds", Help: "Time of refits, from sample to judgement.",
			Buckets: prometheus.ExponentialBuckets(0.05, 2, 14)}, []string{"model"}),
		trainGap:     gauge("train_gap_ratio", "Optimality gap of the champion's convex stage over its objective.", "model"),
		trainSuccess: gauge("train_last_success_timestamp_seconds", "When the last refit ended with a model.", "model"),
		trainFailed:  counter("train_failures_total", "Refits that ended without a model.", "model"),
		decisions:    counter("gate_decisions_total", "Refits by the gate's decision: promoted or kept.", "model", "decision"),
		published:    counter("publish_total", "Versions written to the store, by result: success or failure.", "model", "result"),
		features:     gauge("vocabulary_features", "Features of the champion.", "model"),
		snapshotInfo: gauge("snapshot_info", "The version that consumers have: always 1.", "model", "version"),
		snapshotTime: gauge("snapshot_published_timestamp_seconds", "When the version that consumers have was published.", "model"),
		dataTime:     gauge("snapshot_data_watermark_timestamp_seconds", "Newest event time behind the version that consumers have.", "model"),
		letters:      deadletter.NewMetrics(r),
		announced:    counter("announcements_total", "Attempts to announce a champion in publish.topic, success or failure.", "model", "result"),
	}
	return m
}

// add makes the series of a model exist before the first event.
func (m *metrics) add(model string) {
	for _, r := range consumer.Reasons {
		m.rejected.WithLabelValues(model, string(r))
	}
	for _, f := range []string{"control", "aborted", "hole"} {
		m.fates.WithLabelValues(model, f)
	}
	for _, d := range []string{"promoted", "kept"} {
		m.decisions.WithLabelValues(model, d)
	}
	for _, r := range []string{"success", "failure"} {
		m.published.WithLabelValues(model, r)
		m.announced.WithLabelValues(model, r)
	}
	m.trainFailed.WithLabelValues(model)
}

// applied counts a stored batch.
func (m *metrics) applied(model string, c ingest.Counts) {
	m.events.WithLabelValues(model, c.Topic).Add(float64(c.Applied))
	for reason, n := range c.Rejected {
		m.rejected.WithLabelValues(model, string(reason)).Add(float64(n))
	}
	m.fates.WithLabelValues(model, "control").Add(float64(c.Control))
	m.fates.WithLabelValues(model, "aborted").Add(float64(c.Aborted))
	m.fates.WithLabelValues(model, "hole").Add(float64(c.Holes))
}

// observe refreshes what is read off the cycle.
func (m *metrics) observe(model string, c *cycle.Cycle) {
	p := c.Progressive()
	set := func(role string, x *report.Metrics) {
		switch {
		case x == nil:
		case x.RMSE != nil:
			m.progressive.WithLabelValues(model, role).Set(float64(*x.RMSE))
		case x.Accuracy != nil:
			m.progressive.WithLabelValues(model, role).Set(1 - float64(*x.Accuracy))
		}
	}
	b := p.Baselines
	for role, x := range map[string]*report.Metrics{"published": p.Window.Published, "live": p.Window.Live, "global_mean": b.GlobalMean,
		"item_mean": b.ItemMean, "sgd_bias": b.SGDBias, "majority": b.Majority, "last_label": b.LastLabel} {
		set(role, x)
	}
	m.resets.WithLabelValues(model).Set(float64(c.Resets()))
}

// live records the version that consumers have from now on.
func (m *metrics) live(model string, ch *cycle.Champion, now float64) {
	m.snapshotInfo.DeletePartialMatch(prometheus.Labels{"model": model})
	m.snapshotInfo.WithLabelValues(model, strconv.FormatInt(ch.Version.Version, 10)).Set(1)
	m.snapshotTime.WithLabelValues(model).Set(now)
	m.dataTime.WithLabelValues(model).Set(float64(ch.Watermark) / 1000)
	m.features.WithLabelValues(model).Set(float64(ch.Vocabulary.NumColumns()))
	if g := ch.Version.GapRelative; g != nil {
		m.trainGap.WithLabelValues(model).Set(float64(*g))
	}
}
