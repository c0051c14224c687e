package model

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/daemon/memory"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/model/read"
	"github.com/refitd/refitd/daemon/quality"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// collector collects what the models are at the moment of a scrape: sample, ledger, losses, disk. It reads what the
// models keep in memory, so a scrape costs microseconds.
type collector struct {
	models []*Model
	least  int64 // storage.min_free_bytes
	memory config.Memory
}

// NewCollector returns a collector of what models are at the moment of a scrape. conf is their configuration.
func NewCollector(models []*Model, conf *config.Config) prometheus.Collector {
	return &collector{models: models, least: int64(conf.Storage.MinFreeBytes), memory: memory.Of(conf)}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("refitd_"+name, help, labels, nil)
}

// ofModel describes a metric of each model, which is its first label.
func ofModel(name, help string, labels ...string) *prometheus.Desc {
	return describe(name, help, append([]string{"model"}, labels...)...)
}

var (
	sampleRows  = ofModel("sample_rows", "Rows of the sample, by role: train, select and gate.", "role")
	sampleBytes = ofModel("sample_bytes", "Bytes of the sample's rows.")
	// Names of release 0.1, which go with 0.3.
	formerRows    = ofModel("reservoir_items", "Former name of refitd_sample_rows.", "role")
	formerBytes   = ofModel("reservoir_bytes", "Former name of refitd_sample_bytes.")
	ledgerOffsets = ofModel("ledger_offsets",
		"Offsets that the ledger accounts for, by account: applied, rejected, control, aborted, holes and gap.",
		"topic", "account")
	duplicates = ofModel("duplicates_in_window_total",
		"Events applied under an identity (schema.identity) that was in the sample already.")
	storageFree  = ofModel("storage_free_bytes", "Free space for the state of a model.")
	storageLeast = describe("storage_min_free_bytes",
		"Free space below which nothing is read or published (storage.min_free_bytes).")
	memoryBudget   = describe("memory_budget_bytes", "Largest memory allowed (memory_budget); 0 without one.")
	memoryComputed = describe("memory_computed_bytes",
		"Memory that the configuration may use, as check config prints it.")
	progressiveLoss = ofModel("progressive_loss",
		"Window loss of predictions made before the event was learned from: RMSE for numbers, error rate for classes.",
		"role")
	progressiveMetric = ofModel("progressive_metric",
		"Metrics of the same predictions: over all events, the window, or its events with new or known entities.",
		"metric", "window", "role")
	progressiveInvalid = ofModel("progressive_invalid_total",
		"Losses below 0, which none can be: each is a bug. They count as 0.")
	foldInEvicted = ofModel("fold_in_evicted_total",
		"Names that the fold-in gave up for more recent ones (train.fold_in.max_rows).")
	catchingUp = ofModel("catching_up",
		"1 while the model is so far behind that it learns live from a share of the events (train.catch_up), else 0.")
	foldInResets = ofModel("fold_in_resets_total",
		"Times the fold-in started again because it had become worse than the champion alone.")
	eventsSlept = ofModel("expert_slept_events_total",
		"Events that experts have slept through, as no prediction depended on them, over all experts.")
	gateRejections = ofModel("gate_rejections_in_a_row",
		"Refits that the gate has kept back, as worse or unfit, since the last champion or the start.")
	featuresTotal = ofModel("features_total", "Names in events that were scored with the version that consumers have.")
	unseenTotal   = ofModel("unseen_features_total", "Those of them that its vocabulary does not have.")
	pastEntities  = ofModel("derived_entities",
		"Entities whose past is kept for derived fields (schema.derived), over all partitions.")
	pastDropped = ofModel("derived_entities_dropped_total",
		"Entities whose past was given up for more recent ones: their next event is like a first one.")
	tableRows  = ofModel("table_rows", "Entities of which a table has a row.", "table")
	tableBytes = ofModel("table_bytes", "Bytes of the rows of a table, as the state has them.", "table")
	tableShare = ofModel("table_coverage",
		"Share of the last thousand events or more that have a row in a table.", "table")
	tableTime = ofModel("table_newest_timestamp_seconds",
		"Time of the newest record of a table that gave it a row.", "table")
	outlying = ofModel("events_outlying_fields_total",
		"Events with a number so far from the others that it was learned as less.", "field")
	modelReady    = ofModel("model_ready", "1 if the model does its work, as /-/ready says, else 0.")
	modelNotReady = ofModel("model_not_ready", "1 for each reason for which the model is not ready, else 0.", "reason")
	trainDisabled = ofModel("train_disabled",
		"1 while no refit is begun because the process died during the last ones, else 0.")
	mappingMissing = ofModel("mapping_missing_total",
		"Events that have nothing where input.mapping says that the field is.", "field")
	mappingAbsent = ofModel("mapping_field_absent",
		"1 for each field that no event since the start, of 1,000 at least, has where input.mapping says.", "field")
	schemasKnown = ofModel("schemas", "Schemas by which records were written that the model knows.")
	schemaAsked  = ofModel("schema_requests_total", "Requests to the schema registry.")
	schemaFailed = ofModel("schema_failures_total", "Requests to the schema registry that failed.")
	schemaAway   = ofModel("schema_unavailable",
		"1 while a partition waits for a schema that the registry has not given, else 0.")
	schemaLoses = ofModel("schema_loses_field",
		"1 for each field of the model for which a schema of records has nothing.", "field")
	shardClock = ofModel("shard_clock_offset_seconds",
		"By how much the clock of a shard's host is ahead, as the trainer sees it.", "shard")
	trainerLeader = ofModel("trainer_leader",
		"With shard.standby: 1 if this trainer is the one that trains and publishes, 0 while another one is.")
	liveHeard = ofModel("shard_live_heard_timestamp_seconds",
		"When the trainer last had a batch of events of a shard (shard.live_topic).", "shard")
	liveMissed = ofModel("shard_live_missed_offsets_total",
		"Offsets that are not in shard.live_topic, so that the live model has not learned from their events.")
	eventsHeld = ofModel(
		"events_held_total",
		"Events that the live model did not learn in full: the entity had its share of all or of a name's, the "+
			"identity came before, or a flood of copies came.",
		"reason",
	)
	stateDescription = []*prometheus.Desc{
		sampleRows,
		sampleBytes,
		formerRows,
		formerBytes,
		ledgerOffsets,
		duplicates,
		storageFree,
		storageLeast,
		memoryBudget,
		memoryComputed,
		progressiveLoss,
		progressiveMetric,
		progressiveInvalid,
		gateRejections,
		catchingUp,
		foldInResets,
		foldInEvicted,
		eventsSlept,
		featuresTotal,
		unseenTotal,
		outlying,
		trainDisabled,
		modelReady,
		modelNotReady,
		pastEntities,
		pastDropped,
		tableRows,
		tableBytes,
		tableShare,
		tableTime,
		mappingMissing,
		mappingAbsent,
		schemasKnown,
		schemaAsked,
		schemaFailed,
		schemaAway,
		schemaLoses,
		shardClock,
		trainerLeader,
		liveHeard,
		liveMissed,
		eventsHeld,
	}
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range stateDescription {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	of := samples{out: out}
	of.gauge(memoryBudget, float64(c.memory.BudgetBytes))
	of.gauge(memoryComputed, float64(c.memory.TotalBytes))
	of.gauge(storageLeast, float64(c.least))
	for _, m := range c.models {
		of := samples{out: out, model: []string{m.state.Settings.Name}}
		of.sample(m)
		of.mapping(m.reader)
		of.schemas(m.reader.Schemas())
		of.progressive(m)
		of.readiness(m)
		of.team(m)
		of.learned(m)
	}
}

// samples sends the values of metrics to a scrape.
type samples struct {
	out   chan<- prometheus.Metric
	model []string // the first label of what is of a model
}

func (s samples) send(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels []string) {
	s.out <- prometheus.MustNewConstMetric(d, kind, v, slices.Concat(s.model, labels)...)
}

func (s samples) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s.send(d, prometheus.GaugeValue, v, labels)
}

func (s samples) counter(d *prometheus.Desc, v float64, labels ...string) {
	s.send(d, prometheus.CounterValue, v, labels)
}

// sample sends what the disk, the sample and the ledger of a model have.
func (s samples) sample(m *Model) {
	store := m.state.Store
	s.gauge(storageFree, float64(m.state.Guard.FreeBytes()))
	rows, bytes := store.Size()
	for role, n := range rows {
		s.gauge(sampleRows, float64(n), sketch.Role(role).String())
		s.gauge(formerRows, float64(n), sketch.Role(role).String())
	}
	s.gauge(sampleBytes, float64(bytes))
	s.gauge(formerBytes, float64(bytes))
	for topic, accounts := range accountsByTopic(m.state.Settings, store.Ledger()) {
		for account, n := range accounts {
			s.gauge(ledgerOffsets, float64(n), topic, account)
		}
	}
	s.counter(duplicates, float64(store.Duplicates()))
}

// mapping sends which fields of input.mapping events lack.
func (s samples) mapping(r *read.Reader) {
	for field, n := range r.Missing() {
		s.counter(mappingMissing, float64(n), field)
	}
	for field := range r.AbsentFields() {
		s.gauge(mappingAbsent, 1, field)
	}
}

// schemas sends what is known of the schemas of records, of a model that reads other formats than JSON.
func (s samples) schemas(of *formats.Schemas) {
	if of == nil {
		return
	}
	known, requests, failures := of.Known()
	s.gauge(schemasKnown, float64(known))
	s.counter(schemaAsked, float64(requests))
	s.counter(schemaFailed, float64(failures))
	away := 0.0
	if of.Trouble() != "" {
		away = 1
	}
	s.gauge(schemaAway, away)
	for field := range of.Lost() {
		s.gauge(schemaLoses, 1, field)
	}
}

// progressive sends how good predictions were before their events were learned from.
func (s samples) progressive(m *Model) {
	progressive := m.cycle.Progressive()
	for _, r := range progressive.Roles() {
		if loss, ok := quality.Loss(r.Metrics); ok {
			s.gauge(progressiveLoss, loss, r.Name)
		}
	}
	progressiveMetrics(&progressive, func(value float64, metric, window, role string) {
		s.gauge(progressiveMetric, value, metric, window, role)
	})
	s.counter(progressiveInvalid, float64(m.cycle.ImpossibleLosses()))
}

// readiness sends whether a model trains and does its work, and why not.
func (s samples) readiness(m *Model) {
	s.gauge(trainDisabled, indicator(m.trainer.Disabled() != ""))
	reasons := m.NotReady()
	s.gauge(modelReady, indicator(len(reasons) == 0))
	// All causes are sent, with 0 where they do not apply, so that a series does not come and go.
	not := make(map[string]float64, len(part.Causes))
	for _, reason := range reasons {
		not[reason.Cause] = 1
	}
	for _, cause := range part.Causes {
		s.gauge(modelNotReady, not[cause], cause)
	}
}

// indicator is the value of a metric that says yes or no.
func indicator(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// team sends what a trainer has of its shards.
func (s samples) team(m *Model) {
	role := m.role
	// A trainer without a standby has no such series: it would always be 1.
	if _, contested := role.Term(); contested {
		s.gauge(trainerLeader, indicator(role.Leads()))
	}
	for i, shard := range role.Shards() {
		number := strconv.Itoa(i)
		if shard.Clock != nil {
			s.gauge(shardClock, shard.Clock.Seconds(), number)
		}
		if at := shard.Forwarded; !at.IsZero() {
			s.gauge(liveHeard, float64(at.UnixNano())/1e9, number)
		}
	}
	if missed, known := role.Missed(); known {
		s.counter(liveMissed, float64(missed))
	}
}

// learned sends what the learning of a model held back, gave up or did not know.
func (s samples) learned(m *Model) {
	learning := m.cycle
	s.gauge(gateRejections, float64(learning.Rejections()))
	behind := 0.0
	if m.reader.CatchUp().IsThin() {
		behind = 1
	}
	s.gauge(catchingUp, behind)
	s.counter(foldInResets, float64(learning.Resets()))
	s.counter(foldInEvicted, float64(learning.Evicted()))
	s.counter(eventsSlept, float64(learning.SleptEvents()))
	for _, why := range admission.HeldReasons {
		s.counter(eventsHeld, float64(learning.Held(why)), why.String())
	}
	kept, dropped := m.reader.Pasts.Counts()
	s.gauge(pastEntities, float64(kept))
	s.counter(pastDropped, float64(dropped))
	for i, known := 0, learning.Tables(); i < known.NumTables(); i++ {
		rows, bytes := known.Count(i)
		s.gauge(tableRows, float64(rows), known.Config(i).Name)
		s.gauge(tableBytes, float64(bytes), known.Config(i).Name)
		if share, ok := known.Coverage(i); ok {
			s.gauge(tableShare, share, known.Config(i).Name)
		}
		if at := known.Newest(i); at > 0 {
			s.gauge(tableTime, float64(at)/1000, known.Config(i).Name)
		}
	}
	names := learning.Names()
	s.counter(featuresTotal, float64(names.Total))
	s.counter(unseenTotal, float64(names.Unseen))
	for field, n := range learning.Outlying() {
		s.counter(outlying, float64(n), field)
	}
}

// accountsByTopic adds up the ledger over the partitions of each topic.
func accountsByTopic(m *config.Model, ledger []sketch.LedgerRow) map[string]map[string]int64 {
	sums := make(map[string]map[string]int64)
	for _, topic := range m.AllTopics() {
		sums[topic] = make(map[string]int64)
	}
	for i := range ledger {
		l := &ledger[i]
		topic, ok := sums[l.Topic]
		if !ok {
			continue // of an earlier configuration
		}
		for account, n := range map[string]int64{"applied": l.Applied, "rejected": l.Rejected, "control": l.Control,
			"aborted": l.Aborted,
			"holes":   l.Holes, "gap": l.Gap} {
			topic[account] += n
		}
	}
	return sums
}

// progressiveMetrics calls f with every metric that there is. Their number is bounded: recalls of classes are not among
// them.
func progressiveMetrics(p *report.Progressive, f func(value float64, metric, window, role string)) {
	each := func(window, role string, m *report.Metrics) {
		if m == nil {
			return
		}
		for _, field := range report.MetricFields {
			if v := field.Value(m); v != nil {
				f(float64(*v), field.Name, window, role)
			}
		}
	}
	scores := func(window string, s *report.Scores) {
		each(window, "published", s.Published)
		each(window, "live", s.Live)
	}
	scores("all", &p.All)
	for _, r := range p.Roles() {
		each("window", r.Name, r.Metrics)
	}
	if p.Slices != nil {
		scores("new_entity", &p.Slices.NewEntity)
		scores("known_entity", &p.Slices.KnownEntity)
	}
}
