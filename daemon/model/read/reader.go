package read

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/crash"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/deadletter"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/daemon/ingest/pasts"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/model/role"
	"github.com/refitd/refitd/daemon/model/state"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/traces"
	"github.com/refitd/refitd/daemon/web/statuspage"
	"github.com/refitd/refitd/sketch"
)

// committedTimeout bounds the question for the group's offsets.
const committedTimeout = 5 * time.Second

// Reader reads the topics of a model into its state and counts what came of it. Its callbacks run on the goroutine of
// the consumer; the counters are safe to read from any.
type Reader struct {
	options     *part.Options
	log         *slog.Logger
	state       *state.State
	consumer    *consumer.Consumer
	ends        map[consumer.TopicPartition]int64 // where to stop; nil without an end
	deadLetters *deadletter.Sender                // nil if rejected records are only counted

	OnStored func()       // there is something new to train on; set before Run
	Pasts    *pasts.Pasts // of entities, for derived fields; nil without any
	Role     role.Role
	Applied  atomic.Int64 // events since the start
	Tabled   atomic.Int64 // records of tables since the start

	CatchUp       func() *ingest.CatchUp // the one under way, nil without one
	loggedCatchUp time.Time              // when how far it is was logged last; of the goroutine that reads
	began         time.Time
	newest        int64                  // event time applied since the start, milliseconds; of the goroutine that reads
	schemas       *formats.Schemas       // of the writers of records; nil where they are JSON
	missing       *event.Missing         // nil without input.mapping
	loggedMissing bool                   // which fields of it no event has
	trueUnit      atomic.Pointer[string] // of event times, as it seems, where it is not schema.time_unit; else nil

	rejected atomic.Int64 // records that are no events, since the start
	refused  rejections   // the same by cause
	reading  atomic.Int64 // nanoseconds from the start to the last stored batch with an event
}

// New returns a reader that connects when it runs. The error carries its exit code.
func New(o *part.Options, state *state.State, learning *cycle.Cycle, crashes *crash.Journal, ranking *Ranking,
	live *role.Learner) (*Reader, error) {
	r := &Reader{options: o, log: o.Log, state: state, began: time.Now()}
	for _, l := range state.Store.Ledger() { // reading decides anew whether a partition has to halt
		if l.Halted != "" {
			if err := state.Store.Resume(l.Topic, l.Partition); err != nil {
				return nil, ingest.StateError(err, state.Dir)
			}
		}
	}
	var err error
	if r.deadLetters, err = deadLetters(o, state); err != nil {
		return nil, err
	}
	if o.Settings.Shard.IsShard() {
		learning = nil // what its events teach is the trainer's to learn
	}
	if r.schemas, err = formats.OpenSchemas(&o.Config.Kafka, o.Settings, state.Store); err != nil {
		return nil, err
	}
	r.schemas.OnLost(r.onLost)
	r.keepSchemas()
	sink := ingest.NewReading(o.Settings, state.Store, learning, r.schemas)
	sink.OnApplied, sink.OnPanic, sink.Crashes = r.onApplied, r.onPanic, crashes
	sink.Traces = o.Config.Tracing.Endpoint != ""
	sink.OnCatchUp, sink.OnUnlearned, r.CatchUp = r.onCatchUp, r.onUnlearned, sink.CatchUp
	r.Pasts, r.missing = sink.Pasts(), sink.Missing()
	if ranking != nil {
		sink.OnChoice = ranking.see
	}
	if r.deadLetters != nil {
		sink.OutboxTrouble = r.deadLetters.Trouble
	}
	read, err := ingest.ConsumerOptions(&o.Config.Kafka, o.Settings)
	if err != nil {
		return nil, err
	}
	// The ledger says where to read, not the group: its offsets are for others to see.
	read.Start, read.LastRecord, read.Begin = state.Store.Position, state.LastRecord, r.begin
	read.OnHalt, read.OnPause, read.OnResume = r.onHalt, r.onPause, r.onResume
	if o.Settings.Input.OnGap == "record" {
		// Else a gap halts its partition until an operator has looked.
		read.AcceptGap = state.Store.AcceptGap
	}
	r.Role, err = role.New(role.Options{Options: o, State: state, Sink: sink, Learner: live, Lag: r.Lag,
		OnMerged: r.onMerged, Wake: func() { r.OnStored() }})
	if err != nil {
		return nil, err
	}
	if o.Settings.Shard.IsShard() {
		read.Owns = r.Role.Reads
	}
	read.Share, read.Logger, read.Registerer = o.Share, o.Log, o.Registerer
	if r.consumer, err = consumer.New(read, state.Guard.Sink(sink)); err != nil {
		return nil, report.Exit(report.ExitUsage, err)
	}
	return r, nil
}

// FindEnds asks for the log ends, with UntilEnd.
func (r *Reader) FindEnds(ctx context.Context) (err error) {
	if !r.options.UntilEnd || r.Role.Merges() {
		return nil
	}
	if r.ends, err = r.consumer.Ends(ctx); err != nil && ctx.Err() == nil {
		return &report.ExitError{Code: report.ExitBroker, Key: "kafka.bootstrap_servers",
			Err: fmt.Errorf("%w (kafka.bootstrap_servers: %s)", err,
				strings.Join(r.options.Config.Kafka.BootstrapServers, ", "))}
	}
	return nil
}

// Run reads until ctx is done or the ends are reached.
func (r *Reader) Run(ctx context.Context) error {
	defer r.schemas.Close()
	return r.Role.Run(ctx, func(ctx context.Context) error {
		if err := r.schemas.Load(r.state.Store); err != nil { // of the shard whose place was taken
			return ingest.StateError(err, r.state.Dir)
		}
		r.keepSchemas()
		return r.consumer.RunUntil(ctx, r.ends)
	})
}

// SendDeadLetters empties the outbox until ctx is done.
func (r *Reader) SendDeadLetters(ctx context.Context) error {
	if r.deadLetters == nil {
		return nil
	}
	if err := r.deadLetters.Run(ctx); err != nil {
		return ingest.StateError(err, r.state.Dir)
	}
	return nil
}

// begin stores where a partition starts. A state that is empty while the group of the daemon has offsets, or the store
// has versions that were cut from the topics, was lost, and reading on at the start policy's offset could skip what the
// lost state had not read.
func (r *Reader) begin(topic string, partition int32, offset int64) error {
	if err := r.lostState(); err != nil {
		return err
	}
	return r.state.Begin(topic, partition, offset)
}

// lostState refuses to begin the first partition of an empty state that is not the first one, unless that was asked
// for. Models that read a topic together show their offsets in the same group: then only all of them could have lost
// their state, and once one of them has begun the offsets may be of this run. Versions are a model's own.
func (r *Reader) lostState() error {
	if !r.state.TakeFresh() || r.options.StartFresh {
		return nil
	}
	const advice = "restore a backup, run refitd state rebuild, or start with --start-fresh"
	lost := &report.ExitError{Code: report.ExitState, Path: r.state.Dir, Key: "--start-fresh"}
	// One is enough: the state was lost, whatever partition shows it.
	for tp, offset := range r.committed() {
		lost.Topic, lost.Partition, lost.Offset = tp.Topic, &tp.Partition, &offset
		lost.Err = fmt.Errorf("model: %s: state is empty but group %s has offsets (%s: %d): %s",
			r.state.Dir, r.options.Config.Kafka.GroupID, tp, offset, advice)
		return lost
	}
	if before := r.state.Before; before != "" && !r.options.Settings.Shard.IsShard() {
		lost.Err = fmt.Errorf("model: %s: state is empty but %s: %s", r.state.Dir, before, advice)
		return lost
	}
	return nil
}

// committed returns the offsets of the group, as far as they are this model's.
func (r *Reader) committed() map[consumer.TopicPartition]int64 {
	ctx, cancel := context.WithTimeout(context.Background(), committedTimeout)
	defer cancel()
	committed, err := r.consumer.Committed(ctx)
	if err != nil {
		r.log.Warn("offsets of the group cannot be read", "note", "state is taken for one that has none", "error", err)
	}
	maps.DeleteFunc(committed,
		func(tp consumer.TopicPartition, _ int64) bool { return !r.Role.Reads(tp.Topic, tp.Partition) })
	if r.siblingHasBegun() { // asked after the group: what a sibling shows there it has begun before
		return nil
	}
	return committed
}

// siblingHasBegun reports whether another model that reads one of the topics has begun a partition, in this run or
// before it.
func (r *Reader) siblingHasBegun() bool {
	if r.options.Siblings == nil {
		return false
	}
	own := r.options.Settings
	return slices.ContainsFunc(r.options.Siblings(), func(m part.Sibling) bool {
		return m.Settings() != own && m.HasBegun() && sharesTopic(m.Settings(), own)
	})
}

func sharesTopic(a, b *config.Model) bool {
	return slices.ContainsFunc(a.AllTopics(), func(t string) bool { return slices.Contains(b.AllTopics(), t) })
}

// onApplied counts a stored batch and wakes the trainer.
func (r *Reader) onApplied(c ingest.Counts) {
	traces.Batch(r.options.Tracer, r.options.Settings.Name, r.options.Config.Kafka.GroupID, &c)
	if c.Schemas > 0 {
		r.keepSchemas()
	}
	if !c.Outcomes {
		r.newest = max(r.newest, c.Watermark) // of this batch: another partition may be further
	}
	c.Watermark = r.newest
	r.options.Metrics.Applied(r.options.Settings.Name, c)
	r.tellMissing()
	maps.DeleteFunc(c.Rejected, func(cause event.Cause, _ int64) bool { return cause.Reason == event.Filtered })
	if len(c.Rejected) > 0 {
		for _, n := range c.Rejected {
			r.rejected.Add(n)
		}
		r.refused.add(c.Rejected)
		r.refused.keep(&c)
		r.log.Warn("records rejected", "topic", c.Topic, "partition", c.Partition, "first_offset", c.RejectedAt,
			"reason", c.Rejection.Reason, "field", c.Rejection.Field, "expected", c.Rejection.Expected, "got",
			c.Rejection.Got, "by_cause", c.Rejected)
		if r.deadLetters != nil {
			r.deadLetters.Wake()
		}
	}
	if c.Bounded > 0 {
		r.log.Warn("event times ahead of this machine's clock replaced", "topic", c.Topic, "partition", c.Partition,
			"events", c.Bounded)
	}
	if c.WrongUnit > 0 && r.trueUnit.Load() == nil { // once: the metric counts all
		r.trueUnit.Store(&c.TrueUnit)
		r.log.Warn("event times are days of 1970",
			"note", "schema.time_unit is not their unit, as it seems", "topic", c.Topic,
			"partition", c.Partition, "first_offset", c.WrongAt, "time_unit", r.options.Settings.Schema.TimeUnit,
			"seems", c.TrueUnit)
	}
	if c.Applied == 0 || c.Outcomes {
		if c.Tabled > 0 {
			r.Tabled.Add(c.Tabled)
			r.OnStored()
		}
		return
	}
	r.Applied.Add(c.Applied)
	r.reading.Store(int64(time.Since(r.began)))
	r.OnStored()
}

// onMerged counts what a shard's share brought, and wakes the trainer.
func (r *Reader) onMerged(events map[string]int64) {
	if len(events) == 0 {
		return
	}
	// The newest of all partitions: a share is of several.
	watermark := int64(sketch.NoTime)
	for _, l := range r.state.Store.Ledger() {
		watermark = max(watermark, l.Watermark)
	}
	for topic, n := range events {
		r.Applied.Add(n)
		r.options.Metrics.Applied(r.options.Settings.Name,
			ingest.Counts{Topic: topic, Applied: n, Watermark: watermark})
	}
	r.reading.Store(int64(time.Since(r.began)))
	r.OnStored()
}

// logCatchUpEvery is how often a catch-up that lasts is logged. Chosen by hand: a line of log that one waits for.
const logCatchUpEvery = 10 * time.Second

// onCatchUp logs the begin and the end of a catch-up, and how far it is, and prints that once it has a rate.
func (r *Reader) onCatchUp(c ingest.CatchUp, at ingest.CatchUpStep) {
	if at != ingest.CatchUpBegins {
		line := report.CatchingUp{
			Model:      r.options.Settings.Name,
			Behind:     c.Left,
			PerSecond:  report.Number(c.PerSecond()),
			ETASeconds: report.Seconds(c.ETA),
		}
		if err := r.options.Out.Emit("catching_up", line); err != nil {
			r.log.Error("catch-up not printed", "error", err)
		}
	}
	switch at {
	case ingest.CatchUpBegins:
		r.loggedCatchUp = time.Now()
		text, share := "catching up: events are stored, and a share is learned live", ingest.CatchUpShare
		if c.All {
			text, share = "catching up", 1
		}
		r.log.Info(text, "one_of", share, "records_left", c.Left, "key", "train.catch_up")
	case ingest.CatchUpLasts:
		if time.Since(r.loggedCatchUp) >= logCatchUpEvery {
			r.loggedCatchUp = time.Now()
			r.log.Info("catching up", "records_read", c.Read, "records_left", c.Left, "eta", c.ETA.Round(time.Second))
		}
	case ingest.CatchUpEnds:
		r.log.Info("caught up: every event is learned live", "records_read", c.Read, "records_left", c.Left,
			"took", time.Since(c.Began).Round(time.Millisecond))
	}
}

// onUnlearned counts rows that panicked when a catch-up ended.
func (r *Reader) onUnlearned(rows int) {
	r.log.Error("panic on rows that a catch-up had passed over",
		"note", "they are left out of the live model", "rows", rows)
	r.options.Metrics.Unlearned(r.options.Settings.Name, rows)
}

// enoughEvents is the number of events after which a field of input.mapping that none of them had is logged.
const enoughEvents = 1000

// tellMissing warns once of the fields that a mapping names and that no event has at their path.
func (r *Reader) tellMissing() {
	if r.missing == nil || r.loggedMissing || r.missing.Events.Load() < enoughEvents {
		return
	}
	r.loggedMissing = true
	for field, path := range r.AbsentFields() {
		r.log.Warn(
			"no event has a field where input.mapping says that it is",
			"note", "check event --event FILE shows what becomes of one",
			"field",
			field,
			"path",
			path,
			"events",
			r.missing.Events.Load(),
		)
	}
}

// AbsentFields yields the fields that a mapping names and that no event since the start has where it says, with the
// path, once there were enough events to say so.
func (r *Reader) AbsentFields() iter.Seq2[string, string] {
	return func(yield func(field, path string) bool) {
		if r.missing == nil || r.missing.Events.Load() < enoughEvents {
			return
		}
		for i, field := range r.missing.Fields {
			path := ""
			for _, f := range r.options.Settings.Input.Mapping.Fields {
				if f.Name == field {
					path = f.Path
				}
			}
			if r.missing.Count(i) >= r.missing.Events.Load() && !yield(field, path) {
				return
			}
		}
	}
}

// Schemas returns those of the writers of records, nil where they are JSON.
func (r *Reader) Schemas() *formats.Schemas { return r.schemas }

// keepSchemas writes the schemas of the state next to its rows, where a new state finds them.
func (r *Reader) keepSchemas() {
	if r.schemas == nil {
		return
	}
	if err := formats.KeepSchemas(r.state.Store, r.state.Dir); err != nil {
		r.log.Warn("schemas not written next to the state",
			"note", "if that is lost, rebuild asks the registry", "error", err)
	}
}

// onLost logs a schema that has nothing, or another type, for a field of the model, before its first event.
func (r *Reader) onLost(id framing.ID, field string) {
	r.log.Warn(
		"a schema has nothing, or another type, for a field",
		"note", "check event --event FILE shows what becomes of one",
		"schema", id.String(), "field", field)
}

// onPanic logs a record on which this program's code panicked.
func (r *Reader) onPanic(topic string, partition int32, offset int64, value any) {
	r.log.Error("panic on a record", "topic", topic, "partition", partition, "offset", offset, "panic",
		fmt.Sprint(value), "stack", string(debug.Stack()))
}

// onHalt writes the halt into the ledger, so that inspect and the next start show it, and the output. The consumer has
// logged it.
func (r *Reader) onHalt(topic string, partition int32, offset int64, reason string) {
	r.keepHalt(topic, partition, offset, reason)
	halt := report.Halt{
		Model:     r.options.Settings.Name,
		Topic:     topic,
		Partition: partition,
		Offset:    offset,
		Reason:    reason,
	}
	if err := r.options.Out.Emit("halt", halt); err != nil {
		r.log.Error("halt not printed", "error", err)
	}
}

// onPause writes into the ledger that a partition waits. It is read on without an operator, so nobody is called.
func (r *Reader) onPause(topic string, partition int32, offset int64, reason string) {
	r.keepHalt(topic, partition, offset, ingest.PausedPrefix+reason)
}

func (r *Reader) keepHalt(topic string, partition int32, offset int64, text string) {
	if err := r.state.Halt(topic, partition, offset, text); err != nil {
		r.log.Error("halt not stored", "error", err)
	}
}

// onResume takes back what onPause wrote of a partition that has what it waited for.
func (r *Reader) onResume(topic string, partition int32) {
	if err := r.state.Store.Resume(topic, partition); err != nil {
		r.log.Error("end of a halt not stored", "topic", topic, "partition", partition, "error", err)
	}
}

// Rate returns the events applied a second, from the start of the reader to its last one.
func (r *Reader) Rate() float64 {
	reading := time.Duration(r.reading.Load()).Seconds()
	if reading <= 0 {
		return 0
	}
	return float64(r.Applied.Load()) / reading
}

// Rejected returns how many records were no events since the start.
func (r *Reader) Rejected() int64 { return r.rejected.Load() }

// Refused returns the same by cause, most frequent first.
func (r *Reader) Refused() []statuspage.Rejections { return r.refused.list() }

// RefusedRecords returns the last records that were no events, newest first.
func (r *Reader) RefusedRecords() []statuspage.RejectedRecord { return r.refused.kept() }

// TrueUnit returns the unit that event times have as it seems, "" where that is schema.time_unit.
func (r *Reader) TrueUnit() string {
	if unit := r.trueUnit.Load(); unit != nil {
		return *unit
	}
	return ""
}

// Missing yields the fields of input.mapping with the number of events that lack each.
func (r *Reader) Missing() iter.Seq2[string, int64] {
	return func(yield func(field string, events int64) bool) {
		if r.missing == nil {
			return
		}
		for i, field := range r.missing.Fields {
			if !yield(field, r.missing.Count(i)) {
				return
			}
		}
	}
}

// Partitions returns where the partitions are, of a trainer those that its shards read.
func (r *Reader) Partitions() []consumer.PartitionStatus {
	if r.Role.Merges() {
		return r.Role.Partitions()
	}
	return r.consumer.Status().Partitions
}

// Lag returns the records below the log ends that have not been applied yet, without those of halted partitions.
func (r *Reader) Lag() int64 {
	total := int64(0)
	for _, s := range r.Role.Shards() { // as they said last
		total += s.Lag
	}
	for _, p := range r.Partitions() {
		if p.Halted == "" {
			total += p.Lag
		}
	}
	return total
}

// Behind says in which partitions records wait that were not read, or may. One that has halted does not say how long
// they would. Of what shards read that is not known: nil.
func (r *Reader) Behind() ingest.Behind {
	if r.Role.Merges() {
		return nil
	}
	waits := make(map[consumer.TopicPartition]bool)
	for _, p := range r.Partitions() {
		waits[consumer.TopicPartition{Topic: p.Topic, Partition: p.Partition}] = p.Halted == "" &&
			(p.Lag > 0 || p.HighWatermark < 0)
	}
	return func(topic string, partition int32) bool {
		return waits[consumer.TopicPartition{Topic: topic, Partition: partition}]
	}
}

// LogEnds returns the end of each partition's log as last seen, -1 if it was not.
func (r *Reader) LogEnds() map[consumer.TopicPartition]int64 {
	ends := make(map[consumer.TopicPartition]int64)
	for _, p := range r.Partitions() {
		ends[consumer.TopicPartition{Topic: p.Topic, Partition: p.Partition}] = p.HighWatermark
	}
	return ends
}
