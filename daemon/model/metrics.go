package model

import (
	"math"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/drift"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/guard"
	"github.com/refitd/refitd/daemon/deadletter"
	"github.com/refitd/refitd/daemon/durations"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/scoring"
	"github.com/refitd/refitd/daemon/shard"
)

// Metrics count what the models do; a collector shows what they are at the moment of a scrape, and the
// consumer adds its own. configs/metrics.json lists all of them. No label has a value that a producer can choose.
type Metrics struct {
	events    *prometheus.CounterVec
	rejected  *prometheus.CounterVec
	unlearned *prometheus.CounterVec
	absent    *prometheus.CounterVec
	passed    *prometheus.CounterVec
	bounded   *prometheus.CounterVec
	wrongUnit *prometheus.CounterVec
	fates     *prometheus.CounterVec
	watermark *prometheus.GaugeVec
	rollbacks *prometheus.CounterVec

	trainSeconds    *prometheus.HistogramVec
	trainIterations *prometheus.GaugeVec
	trainGap        *prometheus.GaugeVec
	trainBasisGap   *prometheus.GaugeVec
	trainEvidence   *prometheus.GaugeVec
	trainHeldOut    *prometheus.GaugeVec
	trainSuccess    *prometheus.GaugeVec
	trainEnded      *prometheus.CounterVec
	trainFailed     *prometheus.CounterVec
	decisions       *prometheus.CounterVec
	published       *prometheus.CounterVec
	deltas          *prometheus.CounterVec
	deltaRows       *prometheus.CounterVec
	deltaBytes      *prometheus.CounterVec
	deltaSeconds    *prometheus.HistogramVec
	features        *prometheus.GaugeVec
	dropped         *prometheus.CounterVec
	drift           *prometheus.CounterVec
	heldBack        *prometheus.CounterVec
	snapshotInfo    *prometheus.GaugeVec
	snapshotVersion *prometheus.GaugeVec
	snapshotTime    *prometheus.GaugeVec
	expires         *prometheus.GaugeVec
	renewed         *prometheus.GaugeVec
	untrusted       *prometheus.CounterVec
	dataTime        *prometheus.GaugeVec

	deadLetters *deadletter.Metrics
	announced   *prometheus.CounterVec

	notices             *prometheus.CounterVec
	noticesPending      *prometheus.GaugeVec
	deltasSent          *prometheus.CounterVec
	scores              *scoring.Metrics
	rowsSent, bytesSent *prometheus.CounterVec // of shards
	teamDropped         *prometheus.CounterVec // of what they send
	takeovers           *prometheus.CounterVec // of trainers

	// Of members of a team that learns between refits.
	liveForwarded, liveThinned, liveBytes, liveLearned *prometheus.CounterVec

	liveShare *prometheus.GaugeVec
}

// The values of labels that are known beforehand.
var (
	skippedFates  = []string{"control", "aborted", "hole"}
	results       = []string{"success", "failure"}
	refitStatuses = []string{"converged", "basis_limit", "time_budget", "interrupted", "stalled"}
)

// NewMetrics registers the metrics of all models.
func NewMetrics(r prometheus.Registerer) *Metrics {
	f := promauto.With(r)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(
			prometheus.CounterOpts{Name: "refitd_" + name, Help: help},
			append([]string{"model"}, labels...),
		)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return f.NewGaugeVec(
			prometheus.GaugeOpts{Name: "refitd_" + name, Help: help},
			append([]string{"model"}, labels...),
		)
	}
	return &Metrics{
		events: counter("events_total", "Events applied to the state.", "topic"),
		rejected: counter(
			"events_rejected_total",
			"Records that are not valid events, by reason and the field that it is about.",
			"reason",
			"field",
		),
		absent: counter("events_absent_fields_total", "Events applied that lack an optional field.", "field"),
		unlearned: counter(
			"events_unlearned_total",
			"Events on which scoring or learning panicked: they are applied, and in the next refit, but not in the live model.",
		),
		passed: counter("events_passed_total",
			"Events that a catch-up stored without live learning (train.catch_up): refits learn from the sample of them."),
		bounded: counter(
			"event_times_bounded_total",
			"Events whose time was ahead of this machine's clock by more than input.max_future_skew: they were given the "+
				"newest time before them.",
		),
		wrongUnit: counter("event_times_wrong_unit_total",
			"Events whose time is a day of 1970 by schema.time_unit, and one of our days by another unit."),
		fates: counter(
			"records_skipped_total",
			"Offsets that hold no event: transaction markers, aborted records, holes of compaction.",
			"fate",
		),
		watermark: gauge("event_time_watermark_timestamp_seconds", "Newest event time applied."),
		rollbacks: counter(
			"state_rollback_offsets_total",
			"Offsets that were applied once and, because the state had lost them at its start, are read again.",
		),
		trainSeconds: f.NewHistogramVec(
			durations.Options("refitd_train_duration_seconds", "Time of refits, from sample to judgement.",
				prometheus.ExponentialBuckets(0.05, 2, 14)),
			[]string{"model"},
		),
		trainIterations: gauge(
			"train_iterations",
			"Iterations of the last refit, by stage: stochastic epochs, FISTA iterations, variational sweeps.",
			"stage",
		),
		trainGap: gauge(
			"train_gap_ratio",
			"Gap of the last refit to the optimum over all basis vectors, over its objective; NaN where its model is "+
				"variational.",
		),
		trainBasisGap: gauge(
			"train_basis_gap_ratio",
			"Gap of the last refit to the optimum over its basis vectors, over its objective; NaN where variational or by "+
				"line search.",
		),
		trainEvidence: gauge(
			"train_evidence",
			"Lower bound of the log evidence of the last refit; NaN where its model is not variational.",
		),
		trainHeldOut: gauge(
			"train_held_out_loss",
			"Loss of the last refit on the held-out rows that judge it; NaN without any.",
		),
		trainSuccess: gauge("train_last_success_timestamp_seconds", "When the last refit ended with a model."),
		trainEnded:   counter("train_refits_total", "Refits that ended with a model, by why they ended.", "status"),
		trainFailed:  counter("train_failures_total", "Refits that ended without a model."),
		decisions: counter(
			"gate_decisions_total",
			"Refits by the gate's decision and its reason.",
			"decision",
			"reason",
		),
		published: counter(
			"publish_total",
			"Versions written to the store, by result: success or failure.",
			"result",
		),
		deltas: counter(
			"deltas_published_total",
			"Deltas written to the store, by result: success or failure.",
			"result",
		),
		deltaRows:  counter("delta_rows_total", "Rows of the deltas that were written."),
		deltaBytes: counter("delta_bytes_total", "Bytes of the deltas that were written."),
		deltaSeconds: f.NewHistogramVec(durations.Options("refitd_delta_seconds",
			"Time from when a delta is taken until it is in the store: its events are stored before it.",
			prometheus.ExponentialBuckets(0.001, 2, 14)), []string{"model"}),
		features: gauge("dictionary_features", "Features in the vocabulary of the version that consumers have."),
		drift: counter(
			"drift_alarms_total",
			"Alarms of the drift detector, by the categorical field whose known names change, or (loss).",
			"group",
		),
		heldBack: counter(
			"updates_held_back_total",
			"Updates and deltas that were not published: worse than the refit that they start from, by reason.",
			"reason",
		),
		dropped: counter(
			"dictionary_dropped_total",
			"Names of the sample that refits left out of the vocabulary because it has no room for them (train.max_features).",
		),
		snapshotInfo:    gauge("snapshot_info", "The version that consumers have, and no other: always 1.", "version"),
		snapshotVersion: gauge("snapshot_version", "The number of the version that consumers have."),
		snapshotTime: gauge(
			"snapshot_published_timestamp_seconds",
			"When the version that consumers have was published.",
		),
		expires: gauge(
			"snapshot_expires_timestamp_seconds",
			"When consumers refuse the version they have (publish.expires_after).",
		),
		dataTime: gauge(
			"snapshot_data_watermark_timestamp_seconds",
			"Newest event time behind the version that consumers have.",
		),
		renewed: gauge(
			"snapshot_renewed_timestamp_seconds",
			"When the daemon last renewed or published it (publish.renew_every).",
		),
		untrusted: counter(
			"snapshot_untrusted_total",
			"Versions and aliases found in the store that none of our keys signed (publish.signing_key_file, "+
				"publish.trusted_keys).",
		),
		deadLetters: deadletter.NewMetrics(r),
		deltasSent: counter(
			"delta_announcements_total",
			"Attempts to put deltas into publish.deltas.topic, success or failure.",
			"result",
		),
		announced: counter(
			"announcements_total",
			"Attempts to announce a champion in publish.topic, success or failure.",
			"result",
		),
		notices: counter(
			"notices_total",
			"Attempts to deliver a notice to notify.url: success, failure; dropped are those that there was no room for.",
			"result",
		),
		noticesPending: gauge("notices_pending", "Notices that wait to be delivered to notify.url."),
		scores:         scoring.NewMetrics(r),
		teamDropped: counter(
			"shard_records_dropped_total",
			"Records of shard.topic and shard.live_topic that cannot be true, or that there was no room for, by why they "+
				"were dropped.",
			"reason",
		),
		rowsSent: counter("shard_rows_sent_total",
			"Changes of the sample that this shard has written to shard.topic: rows, rows taken out, checkpoints."),
		takeovers: counter(
			"trainer_takeovers_total",
			"Times this trainer has become the one that trains (shard.standby).",
		),
		liveForwarded: counter(
			"shard_live_forwarded_events_total",
			"Events that this shard has written to shard.live_topic.",
		),
		liveThinned: counter("shard_live_thinned_events_total",
			"Events that this shard has left out of shard.live_topic: there were too many."),
		liveShare: gauge("shard_live_share",
			"Share of the events of the last batch that this shard has written to shard.live_topic: 1 is all."),
		liveBytes: counter("shard_live_forwarded_bytes_total",
			"Bytes that this shard has written to shard.live_topic, before compression."),
		liveLearned: counter(
			"shard_live_learned_events_total",
			"Events of shard.live_topic that this trainer has learned.",
		),
		bytesSent: counter(
			"shard_sent_bytes_total",
			"Bytes of what this shard has written to shard.topic, before compression.",
		),
	}
}

// add makes the series of a model exist before there is something to count, so that the first increase is seen as one.
func (m *Metrics) add(c *config.Model) {
	model := c.Name
	for _, topic := range c.Input.Topics {
		m.events.WithLabelValues(model, topic)
	}
	schema := c.Schema.Event()
	for _, cause := range schema.Causes() {
		m.rejected.WithLabelValues(model, string(cause.Reason), cause.Field)
	}
	if mapping := c.Mapping(); mapping != nil {
		for _, cause := range mapping.Causes() {
			m.rejected.WithLabelValues(model, string(cause.Reason), cause.Field)
		}
	}
	for _, f := range c.Schema.Optional {
		m.absent.WithLabelValues(model, f)
	}
	for _, f := range skippedFates {
		m.fates.WithLabelValues(model, f)
	}
	for cause, decision := range fitted.Causes {
		m.decisions.WithLabelValues(model, decision, string(cause))
	}
	for _, group := range drift.DriftGroups(c) {
		m.drift.WithLabelValues(model, group)
	}
	for _, reason := range guard.HeldBackReasons {
		m.heldBack.WithLabelValues(model, string(reason))
	}
	m.deltaRows.WithLabelValues(model)
	m.deltaBytes.WithLabelValues(model)
	m.deltaSeconds.WithLabelValues(model)
	for _, r := range results {
		m.published.WithLabelValues(model, r)
		m.deltas.WithLabelValues(model, r)
		m.announced.WithLabelValues(model, r)
		m.notices.WithLabelValues(model, r)
		m.deltasSent.WithLabelValues(model, r)
	}
	m.noticesPending.WithLabelValues(model)
	for _, s := range refitStatuses {
		m.trainEnded.WithLabelValues(model, s)
	}
	m.rowsSent.WithLabelValues(model)
	for _, reason := range shard.DroppedReasons {
		m.teamDropped.WithLabelValues(model, reason)
	}
	m.takeovers.WithLabelValues(model)
	m.bytesSent.WithLabelValues(model)
	m.liveForwarded.WithLabelValues(model)
	m.liveThinned.WithLabelValues(model)
	m.liveBytes.WithLabelValues(model)
	m.liveLearned.WithLabelValues(model)
	m.unlearned.WithLabelValues(model)
	m.passed.WithLabelValues(model)
	m.bounded.WithLabelValues(model)
	m.wrongUnit.WithLabelValues(model)
	m.untrusted.WithLabelValues(model)
	m.trainSeconds.WithLabelValues(model)
	m.trainFailed.WithLabelValues(model)
	m.dropped.WithLabelValues(model)
}

// applied counts a stored batch.
func (m *Metrics) applied(model string, c ingest.Counts) {
	if c.Watermark > 0 { // before the counts: a scrape in between shows no events without a time
		m.watermark.WithLabelValues(model).Set(float64(c.Watermark) / 1000)
	}
	m.events.WithLabelValues(model, c.Topic).Add(float64(c.Applied))
	m.unlearned.WithLabelValues(model).Add(float64(c.Unlearned))
	m.passed.WithLabelValues(model).Add(float64(c.Passed))
	m.bounded.WithLabelValues(model).Add(float64(c.Bounded))
	m.wrongUnit.WithLabelValues(model).Add(float64(c.WrongUnit))
	for field, n := range c.Absent {
		m.absent.WithLabelValues(model, field).Add(float64(n))
	}
	for cause, n := range c.Rejected {
		m.rejected.WithLabelValues(model, string(cause.Reason), cause.Field).Add(float64(n))
	}
	m.fates.WithLabelValues(model, "control").Add(float64(c.Control))
	m.fates.WithLabelValues(model, "aborted").Add(float64(c.Aborted))
	m.fates.WithLabelValues(model, "hole").Add(float64(c.Holes))
}

// trained records a refit that ended with a model.
func (m *Metrics) trained(v *report.Version, took time.Duration, traceID string) {
	durations.Observe(m.trainSeconds.WithLabelValues(v.Model), took, prometheus.Labels{"trace_id": traceID})
	m.trainSuccess.WithLabelValues(v.Model).SetToCurrentTime()
	m.trainEnded.WithLabelValues(v.Model, v.Status).Inc()
	for stage, n := range map[string]int{"epochs": v.StochasticEpochs, "fista": v.FISTAIterations, "sweeps": v.Sweeps} {
		m.trainIterations.WithLabelValues(v.Model, stage).Set(float64(n))
	}
	set(m.trainGap, v.Model, v.GapRelative)
	basisGap := v.BasisGapRelative
	if v.BySteps() { // no refit was to close it
		basisGap = nil
	}
	set(m.trainBasisGap, v.Model, basisGap)
	set(m.trainEvidence, v.Model, v.Evidence)
	var loss *report.Number
	if v.Gate != nil {
		loss = v.Gate.Loss
	}
	set(m.trainHeldOut, v.Model, loss)
}

// set sets the series of a model to a figure of its last refit, NaN where that has none: the one of a refit before is
// not shown.
func set(of *prometheus.GaugeVec, model string, v *report.Number) {
	if v == nil {
		of.WithLabelValues(model).Set(math.NaN())
		return
	}
	of.WithLabelValues(model).Set(float64(*v))
}

// judged counts a decision of the gate.
func (m *Metrics) judged(ch *fitted.Fitted) {
	m.decisions.WithLabelValues(ch.Version.Model, ch.Version.Decision, string(ch.Cause)).Inc()
}

// live records the version that consumers have from now on. The zero time as expiry is never.
func (m *Metrics) live(model string, ch *fitted.Fitted, published, expires time.Time) {
	m.snapshotInfo.DeletePartialMatch(prometheus.Labels{"model": model})
	m.snapshotInfo.WithLabelValues(model, strconv.FormatInt(ch.Version.Version, 10)).Set(1)
	m.snapshotVersion.WithLabelValues(model).Set(float64(ch.Version.Version))
	m.snapshotTime.WithLabelValues(model).Set(seconds(published))
	m.renew(model, published, expires)
	m.dataTime.WithLabelValues(model).Set(float64(ch.Watermark) / 1000)
	m.features.WithLabelValues(model).Set(float64(ch.Vocabulary.NumColumns()))
}

// renew records until when consumers may use the version they have. The zero time as expiry is never.
func (m *Metrics) renew(model string, renewed, expires time.Time) {
	m.renewed.WithLabelValues(model).Set(seconds(renewed))
	if expires.IsZero() {
		m.expires.DeleteLabelValues(model)
	} else {
		m.expires.WithLabelValues(model).Set(seconds(expires))
	}
}

// seconds is a time as metrics have it.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
