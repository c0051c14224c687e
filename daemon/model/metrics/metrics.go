package metrics

import (
	"math"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/refitd/refitd/consumer/event"
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
	reading
	training
	publishing
	sharing
	outcomes
}

// reading are the metrics that count what becomes of records.
type reading struct {
	events      *prometheus.CounterVec
	formats     *prometheus.CounterVec
	rejected    *prometheus.CounterVec
	unlearned   *prometheus.CounterVec
	absent      *prometheus.CounterVec
	passed      *prometheus.CounterVec
	bounded     *prometheus.CounterVec
	wrongUnit   *prometheus.CounterVec
	fates       *prometheus.CounterVec
	watermark   *prometheus.GaugeVec
	Rollbacks   *prometheus.CounterVec
	Unknown     *prometheus.CounterVec
	DeadLetters *deadletter.Metrics
	Scores      *scoring.Metrics
}

// training are the metrics that show refits and what they are judged by.
type training struct {
	trainSeconds    *prometheus.HistogramVec
	trainIterations *prometheus.GaugeVec
	trainGap        *prometheus.GaugeVec
	trainBasisGap   *prometheus.GaugeVec
	trainEvidence   *prometheus.GaugeVec
	trainHeldOut    *prometheus.GaugeVec
	trainSuccess    *prometheus.GaugeVec
	trainEnded      *prometheus.CounterVec
	TrainFailed     *prometheus.CounterVec
	decisions       *prometheus.CounterVec
	dropped         *prometheus.CounterVec
	formerDropped   *prometheus.CounterVec // under its name of release 0.1, which goes with 0.3
	Drift           *prometheus.CounterVec
}

// publishing are the metrics that show what consumers get.
type publishing struct {
	Published       *prometheus.CounterVec
	Deltas          *prometheus.CounterVec
	DeltaRows       *prometheus.CounterVec
	DeltaBytes      *prometheus.CounterVec
	DeltaSeconds    *prometheus.HistogramVec
	features        *prometheus.GaugeVec
	formerFeatures  *prometheus.GaugeVec // as formerDropped
	HeldBack        *prometheus.CounterVec
	snapshotInfo    *prometheus.GaugeVec
	snapshotVersion *prometheus.GaugeVec
	snapshotTime    *prometheus.GaugeVec
	expires         *prometheus.GaugeVec
	renewed         *prometheus.GaugeVec
	Untrusted       *prometheus.CounterVec
	dataTime        *prometheus.GaugeVec
	Announced       *prometheus.CounterVec
	DeltasSent      *prometheus.CounterVec
	Notices         *prometheus.CounterVec
	NoticesPending  *prometheus.GaugeVec
	Vectors         *prometheus.CounterVec
	VectorRows      *prometheus.CounterVec
}

// sharing are the metrics that count what shards and trainers send each other.
type sharing struct {
	RowsSent      *prometheus.CounterVec
	BytesSent     *prometheus.CounterVec
	TeamDropped   *prometheus.CounterVec
	Takeovers     *prometheus.CounterVec
	LiveForwarded *prometheus.CounterVec
	LiveThinned   *prometheus.CounterVec
	LiveBytes     *prometheus.CounterVec
	LiveLearned   *prometheus.CounterVec
	LiveShare     *prometheus.GaugeVec
}

// The values of labels that are known beforehand.
var (
	skippedFates  = []string{"control", "aborted", "hole"}
	results       = []string{"success", "failure"}
	refitStatuses = []string{"converged", "basis_limit", "time_budget", "interrupted", "stalled"}
)

// registrar registers metrics whose first label is the model.
type registrar struct{ promauto.Factory }

func (r registrar) counter(name, help string, labels ...string) *prometheus.CounterVec {
	return r.NewCounterVec(prometheus.CounterOpts{Name: "refitd_" + name, Help: help},
		append([]string{"model"}, labels...))
}

func (r registrar) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return r.NewGaugeVec(prometheus.GaugeOpts{Name: "refitd_" + name, Help: help}, append([]string{"model"}, labels...))
}

// DroppedNames counts names that a refit of a model left out of the vocabulary.
func (t *training) DroppedNames(model string, names int64) {
	t.dropped.WithLabelValues(model).Add(float64(names))
	t.formerDropped.WithLabelValues(model).Add(float64(names))
}

// New registers the metrics of all models.
func New(r prometheus.Registerer) *Metrics {
	f := registrar{promauto.With(r)}
	m := &Metrics{newReading(f), newTraining(f), newPublishing(f), newSharing(f), newOutcomes(f)}
	m.DeadLetters, m.Scores = deadletter.NewMetrics(r), scoring.NewMetrics(r)
	return m
}

func newReading(f registrar) reading {
	return reading{
		events:  f.counter("events_total", "Events applied to the state.", "topic"),
		formats: f.counter("events_by_format_total", "Events applied to the state, by the format of their values.", "format"),
		rejected: f.counter("events_rejected_total",
			"Records that are not valid events, by reason and the field that it is about.", "reason", "field"),
		unlearned: f.counter(
			"events_unlearned_total",
			"Events on which scoring or learning panicked: they are applied, and in the next refit, but not in the live model.",
		),
		passed: f.counter("events_passed_total",
			"Events that a catch-up stored without live learning (train.catch_up): refits learn from the sample of them."),
		absent: f.counter("events_absent_fields_total", "Events applied that lack an optional field.", "field"),
		bounded: f.counter(
			"event_times_bounded_total",
			"Events whose time was ahead of this machine's clock by more than input.max_future_skew: they were given the "+
				"newest time before them.",
		),
		wrongUnit: f.counter("event_times_wrong_unit_total",
			"Events whose time is a day of 1970 by schema.time_unit, and one of our days by another unit."),
		fates: f.counter("records_skipped_total",
			"Offsets that hold no event: transaction markers, aborted records, holes of compaction.", "fate"),
		watermark: f.gauge("event_time_watermark_timestamp_seconds", "Newest event time applied."),
		Unknown: f.counter("state_unknown_parts_total",
			"Parts of the state that another build has written and this one does not know: losses, or what is kept of a refit."),
		Rollbacks: f.counter("state_rollback_offsets_total",
			"Offsets that were applied once and, because the state had lost them at its start, are read again."),
	}
}

func newTraining(f registrar) training {
	return training{
		trainSeconds: f.NewHistogramVec(
			durations.Options("refitd_train_duration_seconds", "Time of refits, from sample to judgement.",
				prometheus.ExponentialBuckets(0.05, 2, 14)),
			[]string{"model"},
		),
		trainIterations: f.gauge("train_iterations",
			"Iterations of the last refit, by stage: stochastic epochs, FISTA iterations, variational sweeps.",
			"stage"),
		trainGap: f.gauge(
			"train_gap_ratio",
			"Gap of the last refit to the optimum over all basis vectors, over its objective; NaN where its model is "+
				"variational.",
		),
		trainBasisGap: f.gauge(
			"train_basis_gap_ratio",
			"Gap of the last refit to the optimum over its basis vectors, over its objective; NaN where variational or by "+
				"line search.",
		),
		trainEvidence: f.gauge("train_evidence",
			"Lower bound of the log evidence of the last refit; NaN where its model is not variational."),
		trainHeldOut: f.gauge("train_held_out_loss",
			"Loss of the last refit on the held-out rows that judge it; NaN without any."),
		trainSuccess: f.gauge("train_last_success_timestamp_seconds", "When the last refit ended with a model."),
		trainEnded:   f.counter("train_refits_total", "Refits that ended with a model, by why they ended.", "status"),
		TrainFailed:  f.counter("train_failures_total", "Refits that ended without a model."),
		decisions: f.counter("gate_decisions_total", "Refits by the gate's decision and its reason.", "decision",
			"reason"),
		dropped: f.counter(
			"vocabulary_dropped_total",
			"Names of the sample that refits left out of the vocabulary because it has no room for them (train.max_features).",
		),
		formerDropped: f.counter("dictionary_dropped_total", "Former name of refitd_vocabulary_dropped_total."),
		Drift: f.counter("drift_alarms_total",
			"Alarms of the drift detector, by the categorical field whose known names change, or (loss).", "group"),
	}
}

func newPublishing(f registrar) publishing {
	return publishing{
		Published: f.counter("publish_total", "Versions written to the store, by result: success or failure.",
			"result"),
		Deltas: f.counter("deltas_published_total", "Deltas written to the store, by result: success or failure.",
			"result"),
		DeltaRows:  f.counter("delta_rows_total", "Rows of the deltas that were written."),
		DeltaBytes: f.counter("delta_bytes_total", "Bytes of the deltas that were written."),
		DeltaSeconds: f.NewHistogramVec(durations.Options("refitd_delta_seconds",
			"Time from when a delta is taken until it is in the store: its events are stored before it.",
			prometheus.ExponentialBuckets(0.001, 2, 14)), []string{"model"}),
		features:       f.gauge("vocabulary_features", "Features in the vocabulary of the version that consumers have."),
		formerFeatures: f.gauge("dictionary_features", "Former name of refitd_vocabulary_features."),
		HeldBack: f.counter("updates_held_back_total",
			"Updates and deltas that were not published: worse than the refit that they start from, by reason.",
			"reason"),
		snapshotInfo:    f.gauge("snapshot_info", "The version that consumers have, and no other: always 1.", "version"),
		snapshotVersion: f.gauge("snapshot_version", "The number of the version that consumers have."),
		snapshotTime: f.gauge("snapshot_published_timestamp_seconds",
			"When the version that consumers have was published."),
		expires: f.gauge("snapshot_expires_timestamp_seconds",
			"When consumers refuse the version they have (publish.expires_after)."),
		renewed: f.gauge("snapshot_renewed_timestamp_seconds",
			"When the daemon last renewed or published it (publish.renew_every)."),
		Untrusted: f.counter(
			"snapshot_untrusted_total",
			"Versions and aliases found in the store that none of our keys signed (publish.signing_key_file, "+
				"publish.trusted_keys).",
		),
		dataTime: f.gauge("snapshot_data_watermark_timestamp_seconds",
			"Newest event time behind the version that consumers have."),
		Announced: f.counter("announcements_total",
			"Attempts to announce a champion in publish.topic, success or failure.", "result"),
		DeltasSent: f.counter("delta_announcements_total",
			"Attempts to put deltas into publish.deltas.topic, success or failure.", "result"),
		Notices: f.counter(
			"notices_total",
			"Attempts to deliver a notice to notify.url: success, failure; dropped are those that there was no room for.",
			"result",
		),
		Vectors: f.counter("vectors_total",
			"Attempts to write what changed to the table of publish.vectors, success or failure.", "result"),
		VectorRows:     f.counter("vector_rows_total", "Rows written to the table of publish.vectors."),
		NoticesPending: f.gauge("notices_pending", "Notices that wait to be delivered to notify.url."),
	}
}

func newSharing(f registrar) sharing {
	return sharing{
		RowsSent: f.counter("shard_rows_sent_total",
			"Changes of the sample that this shard has written to shard.topic: rows, rows taken out, checkpoints."),
		BytesSent: f.counter("shard_sent_bytes_total",
			"Bytes of what this shard has written to shard.topic, before compression."),
		TeamDropped: f.counter(
			"shard_records_dropped_total",
			"Records of shard.topic and shard.live_topic that cannot be true, or that there was no room for, by why they "+
				"were dropped.",
			"reason",
		),
		Takeovers: f.counter("trainer_takeovers_total",
			"Times this trainer has become the one that trains (shard.standby)."),
		LiveForwarded: f.counter("shard_live_forwarded_events_total",
			"Events that this shard has written to shard.live_topic."),
		LiveThinned: f.counter("shard_live_thinned_events_total",
			"Events that this shard has left out of shard.live_topic: there were too many."),
		LiveBytes: f.counter("shard_live_forwarded_bytes_total",
			"Bytes that this shard has written to shard.live_topic, before compression."),
		LiveLearned: f.counter("shard_live_learned_events_total",
			"Events of shard.live_topic that this trainer has learned."),
		LiveShare: f.gauge("shard_live_share",
			"Share of the events of the last batch that this shard has written to shard.live_topic: 1 is all."),
	}
}

// Add makes the series of a model exist before there is something to count, so that the first increase is seen as one.
func (m *Metrics) Add(c *config.Model) {
	model := c.Name
	for _, topic := range c.AllTopics() {
		if !c.Input.Outcomes.Has(topic) {
			m.events.WithLabelValues(model, topic)
		}
	}
	m.addOutcomes(c)
	for _, format := range c.Input.Formats() {
		m.formats.WithLabelValues(model, format)
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
	for _, cause := range event.FormatCauses(c.Input.Format) {
		m.rejected.WithLabelValues(model, string(cause.Reason), cause.Field)
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
		m.Drift.WithLabelValues(model, group)
	}
	for _, reason := range guard.HeldBackReasons {
		m.HeldBack.WithLabelValues(model, string(reason))
	}
	m.Unknown.WithLabelValues(model)
	m.DeltaRows.WithLabelValues(model)
	m.DeltaBytes.WithLabelValues(model)
	m.DeltaSeconds.WithLabelValues(model)
	for _, r := range results {
		m.Published.WithLabelValues(model, r)
		m.Deltas.WithLabelValues(model, r)
		m.Announced.WithLabelValues(model, r)
		m.Notices.WithLabelValues(model, r)
		m.Vectors.WithLabelValues(model, r)
		m.DeltasSent.WithLabelValues(model, r)
	}
	m.NoticesPending.WithLabelValues(model)
	m.VectorRows.WithLabelValues(model)
	for _, s := range refitStatuses {
		m.trainEnded.WithLabelValues(model, s)
	}
	m.RowsSent.WithLabelValues(model)
	for _, reason := range shard.DroppedReasons {
		m.TeamDropped.WithLabelValues(model, reason)
	}
	m.Takeovers.WithLabelValues(model)
	m.BytesSent.WithLabelValues(model)
	m.LiveForwarded.WithLabelValues(model)
	m.LiveThinned.WithLabelValues(model)
	m.LiveBytes.WithLabelValues(model)
	m.LiveLearned.WithLabelValues(model)
	m.unlearned.WithLabelValues(model)
	m.passed.WithLabelValues(model)
	m.bounded.WithLabelValues(model)
	m.wrongUnit.WithLabelValues(model)
	m.Untrusted.WithLabelValues(model)
	m.trainSeconds.WithLabelValues(model)
	m.TrainFailed.WithLabelValues(model)
	m.DroppedNames(model, 0)
}

// Unlearned counts events on which learning panicked.
func (m *Metrics) Unlearned(model string, events int) {
	m.unlearned.WithLabelValues(model).Add(float64(events))
}

// Applied counts a stored batch.
func (m *Metrics) Applied(model string, c ingest.Counts) {
	if c.Watermark > 0 && !c.Outcomes { // before the counts: a scrape in between shows no events without a time
		m.watermark.WithLabelValues(model).Set(float64(c.Watermark) / 1000)
	}
	if c.Outcomes {
		m.outcomesApplied.WithLabelValues(model, c.Topic).Add(float64(c.Applied))
		m.openEvents.WithLabelValues(model).Set(float64(c.Open))
	} else {
		m.events.WithLabelValues(model, c.Topic).Add(float64(c.Applied))
	}
	if c.Dropped > 0 {
		m.openDropped.WithLabelValues(model).Add(float64(c.Dropped))
	}
	for format, n := range c.Formats {
		m.formats.WithLabelValues(model, format).Add(float64(n))
	}
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

// Trained records a refit that ended with a model.
func (m *Metrics) Trained(v *report.Version, took time.Duration, traceID string) {
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

// Judged counts a decision of the gate.
func (m *Metrics) Judged(ch *fitted.Fitted) {
	m.decisions.WithLabelValues(ch.Version.Model, ch.Version.Decision, string(ch.Cause)).Inc()
}

// Live records the version that consumers have from now on. The zero time as expiry is never.
func (m *Metrics) Live(model string, ch *fitted.Fitted, published, expires time.Time) {
	m.snapshotInfo.DeletePartialMatch(prometheus.Labels{"model": model})
	m.snapshotInfo.WithLabelValues(model, strconv.FormatInt(ch.Version.Version, 10)).Set(1)
	m.snapshotVersion.WithLabelValues(model).Set(float64(ch.Version.Version))
	m.snapshotTime.WithLabelValues(model).Set(seconds(published))
	m.Renew(model, published, expires)
	m.dataTime.WithLabelValues(model).Set(float64(ch.Watermark) / 1000)
	features := float64(ch.Vocabulary.NumColumns())
	m.features.WithLabelValues(model).Set(features)
	m.formerFeatures.WithLabelValues(model).Set(features)
}

// Renew records until when consumers may use the version they have. The zero time as expiry is never.
func (m *Metrics) Renew(model string, renewed, expires time.Time) {
	m.renewed.WithLabelValues(model).Set(seconds(renewed))
	if expires.IsZero() {
		m.expires.DeleteLabelValues(model)
	} else {
		m.expires.WithLabelValues(model).Set(seconds(expires))
	}
}

// seconds is a time as metrics have it.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
