// Package model is one model of the daemon: it reads the model's topics into its state, learns from them, refits on
// schedule and publishes versions. Package daemon runs several of them and serves what they say of themselves.
package model

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/announce"
	"github.com/refitd/refitd/daemon/cluster"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/crash"
	"github.com/refitd/refitd/daemon/curves"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/deadletter"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/notify"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/scoring"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/durable"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sync/errgroup"
)

// Options of a model. Config, Settings, Metrics, Registerer, Crashes, Out and Log are required.
type Options struct {
	Config   *config.Config
	Settings *config.Model // one of Config's
	// UntilEnd reads up to the log ends as they are at the start, refits once more and ends.
	UntilEnd bool
	// StartFresh makes an empty state although the consumer group has offsets.
	StartFresh bool
	// CheckState, if not nil, looks at the state directory before it is opened, in another process: damage may end the
	// process that finds it.
	CheckState func(ctx context.Context, dir string) error
	// Siblings, if not nil, returns all models of the daemon.
	Siblings func() []*Model
	// Share, if not nil, fetches topics once for all models that read them.
	Share *consumer.Share
	// Crashes is shared by the crash journals of a process: one at a time has a single record in hand.
	Crashes    *sync.Mutex
	Metrics    *Metrics
	Registerer prometheus.Registerer // of the consumer's metrics
	Out        *report.Emitter
	Log        *slog.Logger
	Tracer     trace.Tracer // makes spans of batches, refits and what they publish; nil makes none
	// OnVersion, if not nil, is called with every version, on the goroutine of the trainer.
	OnVersion func(report.Version)
}

// Model is one model with its state, reader, trainer and publisher. Reading runs on one goroutine, the trainer on
// another. Make it with New, call Run once, and Close in the end. Its other methods but Summary are safe for
// concurrent use, also while Run runs.
type Model struct {
	name      string
	state     *State
	reader    *reader
	trainer   *Trainer
	announcer *announce.Announcer     // nil without a topic for champions
	deltas    *announce.DeltaProducer // nil without a topic for deltas
	live      *liveModel
	curves    *curves.Ring
	ranking   *ranking        // nil unless events are choices
	scorer    *scoring.Scorer // nil without a topic for scores
	crashes   *crash.Journal
	notifier  *notify.Notifier // nil without notify.url
}

// New opens the state and loads the last champion. What it opened is closed again if it fails; the error carries its
// exit code.
func New(ctx context.Context, o Options) (_ *Model, err error) {
	settings := o.Settings
	o.Log = o.Log.With("model", settings.Name)
	if o.Tracer == nil {
		o.Tracer = noop.NewTracerProvider().Tracer("")
	}
	m := &Model{name: settings.Name}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	if m.state, err = openState(ctx, &o); err != nil {
		return nil, err
	}
	now := time.Now()
	if m.crashes, err = crash.Open(m.state.dir, m.state.store.Ledger(), o.Crashes, now, o.Log); err != nil {
		return nil, ingest.StateError(err, m.state.dir)
	}
	pause, err := newPause(m.crashes, m.state.dir, settings, now, o.Log)
	if err != nil {
		return nil, err
	}
	if err := durable.WriteFile(filepath.Join(m.state.dir, config.ModelFile), 0o600, durable.Bytes(
		settings.Stored())); err != nil {
		return nil, ingest.StateError(fmt.Errorf("model: keep the settings: %w", err), m.state.dir)
	}
	learning, err := newCycle(settings, m.state)
	if err != nil {
		return nil, err
	}
	versions, err := newVersions(&o, m.state, learning)
	if err != nil {
		return nil, err
	}
	live, err := newLiveLearner(&o, m.state, learning)
	if err != nil {
		return nil, err
	}
	if err := versions.revive(); err != nil {
		return nil, err
	}
	m.curves = openCurves(&o, m.state)
	versions.mark = m.curves.Mark
	o.Metrics.add(settings)
	o.Metrics.rollbacks.WithLabelValues(settings.Name).Add(float64(m.state.rollbacks))
	o.noteUnknown(learning.Unknown())
	m.ranking = newRanking(settings)
	if m.reader, err = newReader(&o, m.state, learning, m.crashes, m.ranking, live); err != nil {
		return nil, err
	}
	m.reader.team.guard(versions.publisher)
	m.trainer = newTrainer(&o, m.state, m.reader, learning, versions, pause)
	if m.reader.onStored = m.trainer.Wake; live != nil {
		live.onLearned = m.trainer.Wake
	}
	m.live = newLive(m.trainer, m.state)
	if m.announcer, m.deltas, err = newAnnouncers(&o, versions.Store()); err != nil {
		return nil, err
	}
	m.notifier = m.newNotifier(&o, versions.Store())
	if m.scorer, err = newScorer(&o, m.state.dir); err != nil {
		return nil, err
	}
	return m, nil
}

// noteUnknown counts and logs what another build has written into the progressive sums and this one does not know.
func (o *Options) noteUnknown(parts []string) {
	if len(parts) > 0 {
		o.Metrics.unknown.WithLabelValues(o.Settings.Name).Add(float64(len(parts)))
		o.Log.Warn("losses of the state left out: another build has written them", "parts", parts)
	}
}

// newCycle returns the learning of a model, with the progressive sums of its state.
func newCycle(m *config.Model, state *State) (*cycle.Cycle, error) {
	c, err := cycle.New(m, time.Now)
	if err != nil {
		return nil, report.Exit(report.ExitUsage, err)
	}
	c.Workers = m.Train.Threads
	if c.Workers == 0 {
		c.Workers = max(1, runtime.GOMAXPROCS(0)-1) // reading continues while a refit runs
	}
	c.Stored = func() updates.Stored { return ingest.Stored(state.store) }
	sums := state.store.Aux()
	if c.Forwarded = learnsLive(m) && m.Shard.IsTrainer(); c.Forwarded {
		kept, err := readSums(sums)
		if err != nil {
			return nil, ingest.StateError(err, state.dir)
		}
		sums = kept.Sums
	}
	if err := c.Restore(sums); err != nil {
		return nil, ingest.StateError(fmt.Errorf("model: progressive sums: %w", err), state.dir)
	}
	return c, nil
}

// newAnnouncers returns what announces the champions and what puts their deltas into a topic, each nil without a topic
// for it.
func newAnnouncers(o *Options, store *snapshot.Store) (*announce.Announcer, *announce.DeltaProducer, error) {
	p := &o.Settings.Publish
	if p.Topic == "" && p.Deltas.Topic == "" {
		return nil, nil, nil
	}
	kafka, err := cluster.ClientOptions(&o.Config.Kafka)
	if err != nil {
		return nil, nil, err
	}
	counted := func(by *prometheus.CounterVec) func(err error) {
		return func(err error) {
			result := "success"
			if err != nil {
				result = "failure"
			}
			by.WithLabelValues(o.Settings.Name, result).Inc()
		}
	}
	var champions *announce.Announcer
	var deltas *announce.DeltaProducer
	if p.Topic != "" {
		champions = announce.New(
			announce.Options{Kafka: kafka, Topic: p.Topic, Model: o.Settings.Name, Dir: p.Store, Store: store,
				Inline: int64(p.InlineMax), Log: o.Log, OnResult: counted(o.Metrics.announced)},
		)
	}
	if p.Deltas.Topic != "" {
		deltas = announce.NewDeltas(
			announce.DeltaOptions{
				Kafka:    kafka,
				Topic:    p.Deltas.Topic,
				Model:    o.Settings.Name,
				Dir:      p.Store,
				Store:    store,
				Log:      o.Log,
				OnResult: counted(o.Metrics.deltasSent),
			},
		)
	}
	return champions, deltas, nil
}

// newNotifier returns the notifier of promotions, rejections and halts, nil without notify.url.
func (m *Model) newNotifier(o *Options, store *snapshot.Store) *notify.Notifier {
	to := &o.Settings.Notify
	if to.URL == "" || store == nil {
		return nil
	}
	halts := func() (list []notify.Halt) {
		for _, l := range m.state.store.Ledger() {
			if l.Halted != "" {
				list = append(
					list,
					notify.Halt{Topic: l.Topic, Partition: l.Partition, Offset: l.Next, Reason: l.Halted},
				)
			}
		}
		return list
	}
	return notify.New(
		notify.Options{
			Model:  m.name,
			URL:    to.URL,
			Secret: to.Key(),
			Path:   filepath.Join(m.state.dir, config.NoticesFile),
			Store:  store,
			Halts:  halts,
			Log:    o.Log,
			OnResult: func(result string, pending int) {
				if result != "" {
					o.Metrics.notices.WithLabelValues(m.name, result).Inc()
				}
				o.Metrics.noticesPending.WithLabelValues(m.name).Set(float64(pending))
			},
		},
	)
}

// Run reads and trains until ctx is done or, with UntilEnd, the ends are reached and the last refit is judged. The
// error carries its exit code.
func (m *Model) Run(ctx context.Context) error {
	if err := m.reader.findEnds(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	readDone := make(chan struct{})
	group.Go(func() error {
		defer close(readDone)
		return m.reader.run(groupCtx)
	})
	othersCtx, stopOthers := context.WithCancel(groupCtx)
	defer stopOthers()
	trained := make(chan struct{})
	group.Go(func() error {
		defer close(trained)
		return m.trainer.Run(groupCtx, readDone)
	})
	group.Go(func() error {
		<-trained
		<-readDone // what was read last may still have dead letters
		stopOthers()
		return nil
	})
	group.Go(func() error { return m.reader.sendDeadLetters(othersCtx) })
	group.Go(func() error { return m.reader.team.stand(othersCtx) })
	group.Go(func() error { m.record(othersCtx); return nil })
	return group.Wait()
}

// Announce announces champions and their deltas, where there are topics for them, and sends notifications, until ctx
// is done. It may outlive Run, so that the last version is announced, too.
func (m *Model) Announce(ctx context.Context) { m.reader.team.whileLeading(ctx, m.announce) }

func (m *Model) announce(ctx context.Context) {
	var running sync.WaitGroup
	if m.announcer != nil {
		running.Go(func() { m.announcer.Run(ctx) })
	}
	if m.deltas != nil {
		running.Go(func() { m.deltas.Run(ctx) })
	}
	if m.notifier != nil {
		running.Go(func() { m.notifier.Run(ctx) })
	}
	running.Wait()
}

// Close closes what New opened, once Run has returned or without it. It may be called again.
func (m *Model) Close() error {
	var errs []error
	if m.live != nil {
		m.live.close()
	}
	if m.state != nil {
		errs = append(errs, m.state.close())
	}
	if m.crashes != nil {
		errs = append(errs, m.crashes.Close())
		m.crashes = nil
	}
	if err := errors.Join(errs...); err != nil {
		return ingest.StateError(err, m.state.dir)
	}
	return nil
}

// deadLetters returns the sender of rejected records, nil if they are only counted.
func deadLetters(o *Options, state *State) (*deadletter.Sender, error) {
	topic := o.Settings.Input.DeadLetter.Topic
	if topic == "" {
		if n := state.store.OutboxLen(); n > 0 {
			o.Log.Warn("dead letters wait for a topic", "pending", n, "key", "input.dead_letter.topic")
		}
		return nil, nil
	}
	return deadletter.New(
		deadletter.Options{Store: state.store, Model: o.Settings.Name, Topic: topic, Kafka: &o.Config.Kafka,
			Metrics: o.Metrics.deadLetters, Log: o.Log},
	)
}
