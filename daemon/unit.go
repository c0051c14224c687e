package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/crash"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/deadletter"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot"
)

// unit is one model of the daemon: its own consumer, store, cycle and publisher. Its ingest runs on the consumer's goroutine, its trainer
// on another.
type unit struct {
	daemon   *Daemon
	config   *config.Model
	log      *slog.Logger
	metrics  *metrics
	store    *sketch.Store
	cycle    *cycle.Cycle
	consumer *consumer.Consumer
	versions *publish.Publisher
	fit      func(context.Context, *cycle.Sample) (*cycle.Champion, error) // cycle.Refit
	write    func(context.Context, *cycle.Champion) error                  // versions.Publish
	*keeper
	letters *deadletter.Sender // nil if rejected records are only counted
	crashes *crash.Journal

	applied  atomic.Int64  // events since the start
	newest   int64         // event time applied since the start, milliseconds; of the goroutine that reads
	rejected atomic.Int64  // records that are no events, since the start
	reading  atomic.Int64  // nanoseconds from the start to the last stored batch with an event
	wake     chan struct{} // there is something new to train on
	promoted int
	keptBack int
	champion *int64

	tuned    atomic.Pointer[config.Model] // config with what was reloaded since
	refitNow atomic.Bool                  // an operator asked for a refit
	serving  atomic.Pointer[dated]        // what consumers have
	judged   atomic.Pointer[dated]        // the last version of this run
	refitted atomic.Pointer[time.Time]    // end of the last refit with a model
	disabled atomic.Pointer[time.Time]    // until then no refit is begun on schedule; nil if they are
}

func newUnit(ctx context.Context, d *Daemon, m *config.Model, metrics *metrics) (_ *unit, err error) {
	u := &unit{daemon: d, config: m, log: d.log.With("model", m.Name), metrics: metrics, wake: make(chan struct{}, 1)}
	u.tuned.Store(m)
	defer func() {
		if err != nil {
			err = errors.Join(err, u.close())
		}
	}()
	if err := u.openState(ctx); err != nil {
		return nil, err
	}
	if err := u.openCrashes(); err != nil {
		return nil, err
	}
	if err := replaceFile(filepath.Join(u.dir, config.ModelFile), m.Stored()); err != nil {
		return nil, ingest.StateError(fmt.Errorf("daemon: keep the settings: %w", err), u.dir)
	}
	letters := &m.Input.DeadLetter
	for _, l := range u.store.Ledger() { // reading decides anew whether a partition has to halt
		if l.Halted != "" {
			if err := u.store.Resume(l.Topic, l.Partition); err != nil {
				return nil, ingest.StateError(err, u.dir)
			}
		}
	}
	if u.cycle, err = cycle.New(m, time.Now); err != nil {
		return nil, report.Exit(report.ExitUsage, err)
	}
	u.cycle.Workers = m.Train.Threads
	if u.cycle.Workers == 0 {
		u.cycle.Workers = max(1, runtime.GOMAXPROCS(0)-1) // reading goes on while a refit runs
	}
	if err := u.cycle.Restore(u.store.Aux()); err != nil {
		return nil, ingest.StateError(fmt.Errorf("daemon: progressive sums: %w", err), u.dir)
	}
	if u.versions, err = publish.New(m, m.Publish.Store, time.Now); err != nil {
		if errors.Is(err, snapshot.ErrKey) {
			return nil, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "publish.signing_key_file", Path: m.Publish.SigningKeyFile}
		}
		return nil, &report.ExitError{Code: report.ExitState, Err: err, Key: "publish.store", Path: m.Publish.Store}
	}
	u.cycle.Courteous = func(ctx context.Context) context.Context { return newCourtesy(ctx, u.applied.Load, u.lag) }
	u.fit, u.write = u.cycle.Refit, u.versions.Publish
	u.compare()
	if err := u.revive(); err != nil {
		return nil, err
	}
	sink := ingest.New(m, u.store, u.cycle)
	if letters.Topic != "" {
		if u.letters, err = deadletter.New(deadletter.Options{Store: u.store, Model: m.Name, Topic: letters.Topic, Kafka: &d.config.Kafka,
			Metrics: metrics.letters, Log: u.log}); err != nil {
			return nil, err
		}
		sink.OutboxTrouble = u.letters.Trouble
	} else if n := u.store.OutboxLen(); n > 0 {
		u.log.Warn("dead letters wait for a topic", "pending", n, "key", "input.dead_letter.topic")
	}
	metrics.add(m)
	metrics.rollbacks.WithLabelValues(m.Name).Add(float64(u.rollbacks))
	sink.OnApplied, sink.OnPanic, sink.Crashes = u.onApplied, u.onPanic, u.crashes
	read, err := ingest.ConsumerOptions(&d.config.Kafka, m)
	if err != nil {
		return nil, err
	}
	read.Start, read.LastRecord, read.Begin, read.OnHalt, read.Logger = u.store.Position, u.lastRecord, u.begin, u.onHalt, u.log
	read.OnPause, read.OnResume = u.onHalt, u.onResume
	if m.Input.OnGap == "record" {
		read.AcceptGap = u.store.AcceptGap
	}
	read.Share = d.share
	read.Registerer = modelRegisterer(d.registry, m.Name, len(d.config.Models))
	if u.consumer, err = consumer.New(read, u.Sink(sink)); err != nil {
		return nil, report.Exit(report.ExitUsage, err)
	}
	return u, nil
}

// run reads and trains until ctx is done or, with UntilEnd, the ends are reached and the last refit is judged.
func (u *unit) run(ctx context.Context) error {
	var ends map[consumer.TopicPartition]int64
	if u.daemon.UntilEnd {
		var err error
		if ends, err = u.consumer.Ends(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return &report.ExitError{Code: report.ExitBroker, Key: "kafka.bootstrap_servers",
				Err: fmt.Errorf("%w (kafka.bootstrap_servers: %s)", err, strings.Join(u.daemon.config.Kafka.BootstrapServers, ", "))}
		}
	}
	group, groupCtx := errgroup.WithContext(ctx)
	readDone := make(chan struct{})
	group.Go(func() error {
		defer close(readDone)
		var err error
		if ends != nil {
			err = u.consumer.RunUntil(groupCtx, ends)
		} else {
			err = u.consumer.Run(groupCtx)
		}
		if err != nil {
			return u.storageError(err)
		}
		return nil
	})
	letterCtx, stopLetters := context.WithCancel(groupCtx)
	defer stopLetters()
	group.Go(func() error {
		defer stopLetters()
		return u.train(groupCtx, readDone)
	})
	if u.letters != nil {
		group.Go(func() error {
			if err := u.letters.Run(letterCtx); err != nil {
				return ingest.StateError(err, u.daemon.config.StatePath(u.config))
			}
			return nil
		})
	}
	return group.Wait()
}

// lastRecord returns what the ledger knows of the last record applied of a partition.
func (u *unit) lastRecord(topic string, partition int32) (offset int64, crc uint32, ok bool) {
	for _, l := range u.store.Ledger() {
		if l.Topic == topic && l.Partition == partition {
			return l.LastOffset, l.LastCRC, l.LastOffset >= 0
		}
	}
	return 0, 0, false
}

// onApplied counts a stored batch and wakes the trainer.
func (u *unit) onApplied(c ingest.Counts) {
	u.newest = max(u.newest, c.Watermark) // of this batch: another partition may be further
	c.Watermark = u.newest
	u.metrics.applied(u.config.Name, c)
	if len(c.Rejected) > 0 {
		for _, n := range c.Rejected {
			u.rejected.Add(n)
		}
		u.log.Warn("records rejected", "topic", c.Topic, "partition", c.Partition, "first_offset", c.RejectedAt, "by_reason", c.Rejected)
		if u.letters != nil {
			u.letters.Wake()
		}
	}
	if c.Applied == 0 {
		return
	}
	u.applied.Add(c.Applied)
	u.reading.Store(int64(time.Since(u.daemon.began)))
	u.nudge()
}

// onHalt writes the halt into the ledger, so that inspect and the next start show it, and tells the state.
func (u *unit) onHalt(topic string, partition int32, offset int64, reason string) {
	u.log.Error("partition halted", "topic", topic, "partition", partition, "offset", offset, "reason", reason)
	if _, known := u.store.Position(topic, partition); !known {
		if err := u.store.Begin(topic, partition, offset); err != nil {
			u.log.Error("halt not stored", "error", err)
		}
	}
	if err := u.store.Halt(topic, partition, reason); err != nil {
		u.log.Error("halt not stored", "error", err)
	}
	if err := u.daemon.Out.Emit("halt", report.Halt{Model: u.config.Name, Topic: topic, Partition: partition, Offset: offset, Reason: reason}); err != nil {
		u.log.Error("halt not printed", "error", err)
	}
}

// onResume takes back what onHalt wrote of a partition that waited for room and has it again.
func (u *unit) onResume(topic string, partition int32) {
	if err := u.store.Resume(topic, partition); err != nil {
		u.log.Error("end of a halt not stored", "topic", topic, "partition", partition, "error", err)
	}
}

func (u *unit) summary() (report.RunModel, error) {
	state, err := u.store.State()
	if err != nil {
		return report.RunModel{}, ingest.StateError(err, u.daemon.config.StatePath(u.config))
	}
	return report.RunModel{State: ingest.StateOf(u.config.Name, state), Progressive: u.cycle.Progressive(),
		VersionsPromoted: u.promoted, VersionsKept: u.keptBack, Champion: u.champion}, nil
}

func (u *unit) close() error {
	if u.store == nil {
		return nil
	}
	err := u.store.Close()
	u.store = nil
	if u.crashes != nil {
		err = errors.Join(err, u.crashes.Close())
	}
	if err != nil {
		return ingest.StateError(err, u.daemon.config.StatePath(u.config))
	}
	return nil
}

// lag is Lag of one model.
func (u *unit) lag() int64 {
	total := int64(0)
	for _, p := range u.consumer.Status().Partitions {
		if p.Halted == "" {
			total += p.Lag
		}
	}
	return total
}
