package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/ingest/binding"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/daemon/progress"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/space"
	"github.com/refitd/refitd/daemon/statedir"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/backoff"
	"github.com/refitd/refitd/snapshot/durable"
)

// rebuildEvery is the time between two lines of progress, and between two tries to take the place of the state that is
// in use.
const rebuildEvery = time.Second

// Rebuild makes the state of one model again, in a staging folder, and puts it in the place of the old one once it
// has read up to the log ends. The daemon may run until the exchange, which waits for it to be stopped.
type Rebuild struct {
	Config *config.Config
	Model  *config.Model
	// Earliest begins every partition at the first record the brokers hold. Otherwise it begins where the state began,
	// as its WITNESS says, and declares what the brokers no longer hold of that a gap.
	Earliest bool
	Backup   string // begins with the state of this backup, if not empty
	Why      string
	Out      *report.Emitter
	Log      *slog.Logger
	Progress *progress.Meter // nil shows none

	dir, staging string
	made         bool // staging, which has not taken its place yet
	store        *sketch.Store
	schemas      *formats.Schemas // of the writers of records; nil where they are JSON
	began        time.Time
	events       atomic.Int64
	halted       error
}

// Run reads until the new state is in its place or ctx is done, which leaves the old one as it was.
func (r *Rebuild) Run(ctx context.Context) (err error) {
	r.dir, r.began = r.Config.StatePath(r.Model), time.Now()
	r.staging = r.dir + config.RebuildSuffix
	making, err := lock(r.dir, r.Log)
	if err != nil {
		return err
	}
	defer making.Close() // nothing was written to it
	defer func() {
		r.schemas.Close()
		if r.store != nil {
			err = errors.Join(err, r.store.Close())
		}
		if r.made {
			err = errors.Join(err, os.RemoveAll(r.staging))
		}
	}()
	if s := &r.Model.Shard; s.IsShard() || s.IsTrainer() {
		return &report.ExitError{Code: report.ExitUsage, Key: "role", Err: errors.New(
			"state: a shard's or trainer's state is not rebuilt from all partitions: remove it and start, which reads what " +
				"is needed again",
		)}
	}
	if err := r.open(ctx); err != nil {
		return err
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	held, err := r.takePlace(ctx)
	if err != nil {
		return err
	}
	if held != nil {
		defer held.Close() // nothing was written to it
	}
	if err := r.recall(ctx); err != nil { // what was forgotten while the new state was read
		return err
	}
	if err := formats.KeepSchemas(r.store, r.staging); err != nil {
		return ingest.StateError(err, r.staging)
	}
	state, err := r.store.State()
	if err != nil {
		return ingest.StateError(err, r.staging)
	}
	shown := ingest.StateOf(r.Model.Name, state)
	if shown.Outcomes, err = ingest.OutcomesOf(r.Model, r.store, nil); err != nil {
		return ingest.StateError(err, r.staging)
	}
	closeErr := r.store.Close()
	r.store = nil
	if closeErr != nil {
		return ingest.StateError(closeErr, r.staging)
	}
	kept, err := Replace(r.dir, r.staging, "rebuild", r.Why, r.what())
	if err != nil {
		return err
	}
	r.made = false
	return r.Out.Emit(
		"summary",
		report.RebuildSummary{Seconds: report.Seconds(time.Since(r.began)), Events: r.events.Load(),
			Path: r.dir, Kept: kept, State: shown},
	)
}

// takePlace reads to the log ends, again and again while the old state is in use. It returns the lock of the old
// state, nil without an old state.
func (r *Rebuild) takePlace(ctx context.Context) (*sketch.Lock, error) {
	waiting := ""
	for {
		if err := r.catchUp(ctx, waiting); err != nil || ctx.Err() != nil {
			return nil, errors.Join(err, interrupted(ctx))
		}
		lock, err := sketch.LockDir(r.dir)
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist):
			return lock, nil
		case !errors.Is(err, sketch.ErrLocked):
			return nil, ingest.StateError(err, r.dir)
		case waiting == "":
			r.Log.Info("rebuilt state has caught up: stop the daemon", "reason", err)
			waiting = "stop the daemon: the new state then takes the place of the one it has open"
		}
		if backoff.Sleep(ctx, rebuildEvery) != nil {
			return nil, interrupted(ctx)
		}
	}
}

// what is the decision for the journal.
func (r *Rebuild) what() string {
	switch {
	case r.Backup != "":
		return "from the backup " + r.Backup
	case r.Earliest:
		return "from the earliest records"
	}
	return "from where it began"
}

// interrupted is not exit code 0, which says that the new state is in place.
func interrupted(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return report.Exitf(report.ExitNo,
		"rebuild: stopped before the new state was in place; the old one is as it was: %w", ctx.Err())
}

// open makes the store in the staging folder, with the seed of the old state if the configuration leaves that open.
func (r *Rebuild) open(ctx context.Context) error {
	options := ingest.StoreOptions(r.Model)
	options.Dir, options.Logger, options.MinFreeBytes = r.staging, r.Log, int64(r.Config.Storage.MinFreeBytes)
	options.AllowNetwork = r.Config.Storage.AllowNetwork
	if r.Backup != "" {
		if _, err := RestoreTo(ctx, r.dir, r.staging, r.Backup, r.Progress, r.Log); err != nil {
			return err
		}
		if err := binding.CheckSchema(r.staging, r.Model); err != nil {
			return errors.Join(ingest.StateError(err, r.Backup), os.RemoveAll(r.staging))
		}
	} else if err := statedir.Claim(r.dir, r.staging); err != nil {
		return ingest.StateError(err, r.staging)
	}
	r.made = true
	if w, err := sketch.ReadWitness(r.dir); r.Backup != "" {
		// The backup brings its settings, and recall hands over what is to be forgotten.
	} else if err == nil {
		if options.DrawSeed {
			options.Seed, options.DrawSeed = w.Seed, false
		}
		options.Forgotten = w.Carried()
	} else if errors.Is(err, sketch.ErrFormat) {
		return ingest.StateError(fmt.Errorf("rebuild: %w", err), r.dir) // of a later build, and not damaged
	} else if !errors.Is(err, sketch.ErrNoState) {
		return ingest.StateError(fmt.Errorf("rebuild: %w: remove the file to begin at the earliest records, with another "+
			"seed; "+
			"subjects that were erased stay out as far as a copy of their list is next to the state or in the store of versions",
			err), r.dir)
	}
	var err error
	if r.store, err = sketch.Open(ctx, options); err != nil {
		return ingest.StateError(err, r.staging)
	}
	if err := durable.WriteFile(filepath.Join(r.staging, config.ModelFile), 0o600, durable.Bytes(
		r.Model.Stored())); err != nil {
		return ingest.StateError(fmt.Errorf("rebuild: keep the settings: %w", err), r.staging)
	}
	if n, err := formats.TakeSchemas(r.store, r.dir); err != nil {
		r.Log.Warn("schemas of the old state cannot be read", "note", "the registry is asked", "error", err)
	} else if n > 0 {
		r.Log.Info("records are read by the schemas of the old state", "schemas", n)
	}
	return r.recall(ctx)
}

// recall lets the new state forget what the old one has forgotten by now.
func (r *Rebuild) recall(ctx context.Context) error {
	return recall(ctx, &ingest.Forgotten{Dir: r.dir, Model: r.Model, Log: r.Log}, r.store, r.staging)
}

// begin decides where partitions start that are not in the new state.
func (r *Rebuild) begin(ctx context.Context) error {
	starts, err := logStarts(ctx, r.Config, r.Model, r.Log)
	if err != nil {
		return err
	}
	first := make(map[consumer.TopicPartition]int64)
	if w, err := sketch.ReadWitness(r.dir); err == nil && !r.Earliest {
		for _, t := range w.Partitions {
			// It has the topics that there are, not those of a name before it was made anew.
			first[consumer.TopicPartition{Topic: t.Topic, Partition: t.Partition}] = t.Start
		}
	}
	for tp, logStart := range starts {
		start, known := first[tp]
		if !known && !r.Earliest && r.Model.Input.Start != string(consumer.Earliest) {
			continue // the start policy decides
		}
		if !known {
			start = logStart
		}
		if err := r.store.Begin(tp.Topic, tp.Partition, start); err != nil {
			return ingest.StateError(err, r.staging)
		}
		if next, _ := r.store.Position(tp.Topic, tp.Partition); next < logStart {
			r.Log.Warn("log no longer holds the beginning: declared a gap", "topic", tp.Topic, "partition",
				tp.Partition, "from", next, "log_start", logStart)
			if err := r.store.AcceptGap(tp.Topic, tp.Partition, logStart); err != nil {
				return ingest.StateError(err, r.staging)
			}
		}
	}
	return nil
}

// consumer returns one that reads the new state's topics on from where it is, and shows nothing to the group of the
// daemon.
func (r *Rebuild) consumer() (*consumer.Consumer, error) {
	o, err := ingest.ConsumerOptions(&r.Config.Kafka, r.Model)
	if err != nil {
		return nil, err
	}
	o.GroupID, o.Logger, o.Registerer = "", r.Log, prometheus.NewRegistry()
	o.Start, o.Begin = r.store.Position, r.store.Begin
	if r.Model.Input.OnGap == "record" {
		o.AcceptGap = r.store.AcceptGap
	}
	o.OnHalt = func(topic string, partition int32, offset int64, reason string) {
		r.halted = &report.ExitError{Code: report.ExitHalted, Topic: topic, Partition: &partition, Offset: &offset,
			Err: fmt.Errorf("rebuild: %s/%d halted at offset %d: %s", topic, partition, offset, reason)}
	}
	if r.schemas == nil {
		if r.schemas, err = formats.OpenSchemas(&r.Config.Kafka, r.Model, r.store); err != nil {
			return nil, err
		}
	}
	sink := ingest.NewReading(r.Model, r.store, nil, r.schemas)
	sink.OnApplied = func(c ingest.Counts) { r.events.Add(c.Applied) }
	guard := space.New(r.staging, int64(r.Config.Storage.MinFreeBytes), r.Log)
	c, err := consumer.New(o, guard.Sink(sink))
	if err != nil {
		return nil, report.Exit(report.ExitUsage, err)
	}
	return c, nil
}

// catchUp reads to the log ends as they are now, and prints how far it is once a second.
func (r *Rebuild) catchUp(ctx context.Context, waiting string) error {
	c, err := r.consumer()
	if err != nil {
		return err
	}
	ends, err := c.Ends(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return &report.ExitError{Code: report.ExitBroker, Err: err, Key: "kafka.bootstrap_servers"}
	}
	finished := make(chan error, 1)
	read := r.events.Load()
	r.Progress.Stage("reading the log", "events", 0)
	go func() { finished <- c.RunUntil(ctx, ends) }()
	tick := time.NewTicker(rebuildEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-finished:
			if err != nil {
				return ingest.StateError(err, r.staging)
			}
			return errors.Join(r.halted, r.emitTick(0, waiting))
		case <-tick.C:
			lag := int64(0)
			for _, p := range c.Status().Partitions {
				lag += p.Lag
			}
			r.Progress.Set(r.events.Load()-read, r.events.Load()-read+lag)
			if err := r.emitTick(lag, ""); err != nil {
				r.Log.Error("progress not printed", "error", err)
			}
		}
	}
}

func (r *Rebuild) emitTick(lag int64, waiting string) error {
	return r.Out.Emit(
		"tick",
		report.RebuildTick{
			ElapsedSeconds: report.Seconds(time.Since(r.began)),
			Events:         r.events.Load(),
			Lag:            lag,
			Waiting:        waiting,
		},
	)
}

// LogStarts returns a function that asks the brokers for the first offset they hold of each partition of a topic of the
// model.
func LogStarts(c *config.Config, m *config.Model,
	log *slog.Logger) func(ctx context.Context, topic string) (map[int32]int64, error) {
	return offsets(c, m, log, (*consumer.Consumer).Starts)
}

// LogEnds is LogStarts for the offset behind the last record.
func LogEnds(c *config.Config, m *config.Model,
	log *slog.Logger) func(ctx context.Context, topic string) (map[int32]int64, error) {
	return offsets(c, m, log, (*consumer.Consumer).Ends)
}

// asking is a question to the brokers about all partitions of a model.
type asking func(*consumer.Consumer, context.Context) (map[consumer.TopicPartition]int64, error)

func offsets(c *config.Config, m *config.Model, log *slog.Logger,
	ask asking) func(ctx context.Context, topic string) (map[int32]int64, error) {
	return func(ctx context.Context, topic string) (map[int32]int64, error) {
		all, err := askBrokers(ctx, c, m, log, ask)
		if err != nil {
			return nil, err
		}
		found := make(map[int32]int64)
		for tp, offset := range all {
			if tp.Topic == topic {
				found[tp.Partition] = offset
			}
		}
		return found, nil
	}
}

// logStarts asks the brokers for the first offset they hold of each partition of a model. The error carries its exit
// code.
func logStarts(ctx context.Context, c *config.Config, m *config.Model,
	log *slog.Logger) (map[consumer.TopicPartition]int64, error) {
	return askBrokers(ctx, c, m, log, (*consumer.Consumer).Starts)
}

func askBrokers(ctx context.Context, c *config.Config, m *config.Model, log *slog.Logger,
	ask asking) (map[consumer.TopicPartition]int64, error) {
	o, err := ingest.ConsumerOptions(&c.Kafka, m)
	if err != nil {
		return nil, err
	}
	o.GroupID, o.Logger, o.Registerer = "", log, prometheus.NewRegistry()
	reader, err := consumer.New(o, nil) // it is only asked
	if err != nil {
		return nil, report.Exit(report.ExitUsage, err)
	}
	found, err := ask(reader, ctx)
	if err != nil {
		return nil, &report.ExitError{Code: report.ExitBroker, Err: err, Key: "kafka.bootstrap_servers"}
	}
	return found, nil
}
