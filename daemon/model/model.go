package model

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/refitd/refitd/daemon/announce"
	"github.com/refitd/refitd/daemon/cluster"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/crash"
	"github.com/refitd/refitd/daemon/curves"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/model/read"
	"github.com/refitd/refitd/daemon/model/role"
	"github.com/refitd/refitd/daemon/model/state"
	"github.com/refitd/refitd/daemon/model/train"
	"github.com/refitd/refitd/daemon/model/versions"
	"github.com/refitd/refitd/daemon/notify"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/scoring"
	"github.com/refitd/refitd/daemon/vectors"
	"github.com/refitd/refitd/snapshot/durable"
	"github.com/refitd/refitd/snapshot/publish"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sync/errgroup"
)

// Model is one model with its state, reader, trainer and publisher. Reading runs on one goroutine, the trainer on
// another. Make it with New, call Run once, and Close in the end. Its other methods but Summary are safe for
// concurrent use, also while Run runs.
type Model struct {
	name      string
	state     *state.State
	reader    *read.Reader
	role      role.Role    // whole, shard or trainer; decides what runs
	cycle     *cycle.Cycle // what learns; the reader writes it, the trainer reads and publishes
	versions  *versions.Versions
	trainer   *train.Trainer
	log       *slog.Logger
	announcer *announce.Announcer     // nil without a topic for champions
	deltas    *announce.DeltaProducer // nil without a topic for deltas
	live      *versions.Live          // the live model as a version, for requests
	curves    *curves.Ring            // losses over time, for the status page; on disk
	ranking   *read.Ranking           // nil unless events are choices
	scorer    *scoring.Scorer         // nil without a topic for scores
	crashes   *crash.Journal          // events in hand, for quarantine after a crash
	notifier  *notify.Notifier        // nil without notify.url
	vectors   *vectors.Writer         // nil without publish.vectors
}

// New opens the state and loads the last champion. What it opened is closed again if it fails; the error carries its
// exit code.
func New(ctx context.Context, o part.Options) (_ *Model, err error) {
	settings := o.Settings
	o.Log = o.Log.With("model", settings.Name)
	if o.Tracer == nil {
		o.Tracer = noop.NewTracerProvider().Tracer("")
	}
	// Parts are made in the order in which they need each other; Close closes those that there are.
	m := &Model{name: settings.Name, log: o.Log}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	if m.state, err = state.Open(ctx, &o); err != nil {
		return nil, err
	}
	now := time.Now()
	if m.crashes, err = crash.Open(m.state.Dir, m.state.Store.Ledger(), o.Crashes, now, o.Log); err != nil {
		return nil, ingest.StateError(err, m.state.Dir)
	}
	pause, err := train.NewPause(m.crashes, m.state.Dir, settings, now, o.Log)
	if err != nil {
		return nil, err
	}
	if err := durable.WriteFile(filepath.Join(m.state.Dir, config.ModelFile), 0o600, durable.Bytes(
		settings.Stored())); err != nil {
		return nil, ingest.StateError(fmt.Errorf("model: keep the settings: %w", err), m.state.Dir)
	}
	learning, err := role.NewCycle(settings, m.state)
	if err != nil {
		return nil, err
	}
	published, err := versions.New(&o, m.state, learning)
	if err != nil {
		return nil, err
	}
	restoreCopies(m.state, learning, o.Log)
	live, err := role.NewLearner(&o, m.state, learning)
	if err != nil {
		return nil, err
	}
	// The champion comes before the reader: replayed events are to be scored by it.
	if err := published.Revive(); err != nil {
		return nil, err
	}
	m.curves = openCurves(&o, m.state)
	published.Mark = m.curves.Mark
	o.Metrics.Add(settings)
	o.Metrics.Rollbacks.WithLabelValues(settings.Name).Add(float64(m.state.Rollbacks))
	noteUnknown(&o, learning.Unknown())
	m.ranking = read.NewRanking(settings)
	if m.reader, err = read.New(&o, m.state, learning, m.crashes, m.ranking, live); err != nil {
		return nil, err
	}
	m.role, m.cycle, m.versions = m.reader.Role, learning, published
	// A trainer that has lost its term must not publish: the publisher asks the role before each write.
	m.role.Fence(published.Publisher)
	m.trainer = train.New(&o, m.state, m.reader, learning, published, pause)
	m.reader.OnStored = m.trainer.Wake
	m.live = versions.NewLive(learning, m.state, o.Log)
	if m.announcer, m.deltas, err = newAnnouncers(&o, published.Store()); err != nil {
		return nil, err
	}
	m.notifier = m.newNotifier(&o, published.Store())
	if m.vectors, err = newVectors(&o); err != nil {
		return nil, err
	}
	if m.scorer, err = read.NewScorer(&o, m.state.Dir); err != nil {
		return nil, err
	}
	return m, nil
}

// noteUnknown counts and logs what another build has written into the progressive sums and this one does not know.
func noteUnknown(o *part.Options, parts []string) {
	if len(parts) > 0 {
		o.Metrics.Unknown.WithLabelValues(o.Settings.Name).Add(float64(len(parts)))
		o.Log.Warn("losses of the state left out: another build has written them", "parts", parts)
	}
}

// newAnnouncers returns what announces the champions and what puts their deltas into a topic, each nil without a topic
// for it.
func newAnnouncers(o *part.Options, store *publish.Store) (*announce.Announcer, *announce.DeltaProducer, error) {
	p := &o.Settings.Publish
	if p.Topic == "" && p.Deltas.Topic == "" || o.Settings.Shard.IsShard() { // the trainer announces
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
				Inline: int64(p.InlineMax), Log: o.Log, OnResult: counted(o.Metrics.Announced)},
		)
	}
	if p.Deltas.Topic != "" {
		deltas = announce.NewDeltas(
			announce.Options{
				Kafka:    kafka,
				Topic:    p.Deltas.Topic,
				Model:    o.Settings.Name,
				Dir:      p.Store,
				Store:    store,
				Log:      o.Log,
				OnResult: counted(o.Metrics.DeltasSent),
			},
		)
	}
	return champions, deltas, nil
}

// haltsOf returns the partitions that wait for an operator. Those that are paused do not.
func haltsOf(s *state.State) (list []notify.Halt) {
	for _, l := range s.Store.Ledger() {
		if halted, _ := ingest.WhyOf(l.Halted); halted != "" {
			list = append(list, notify.Halt{Topic: l.Topic, Partition: l.Partition, Offset: l.Next, Reason: halted})
		}
	}
	return list
}

// newNotifier returns the notifier of promotions, rejections and halts, nil without notify.url.
func (m *Model) newNotifier(o *part.Options, store *publish.Store) *notify.Notifier {
	to := &o.Settings.Notify
	if to.URL == "" || store == nil {
		return nil
	}
	return notify.New(
		notify.Options{
			Model:  m.name,
			URL:    to.URL,
			Secret: to.Key(),
			Path:   filepath.Join(m.state.Dir, config.NoticesFile),
			Store:  store,
			Halts:  func() []notify.Halt { return haltsOf(m.state) },
			Log:    o.Log,
			OnResult: func(result string, pending int) {
				if result != "" {
					o.Metrics.Notices.WithLabelValues(m.name, result).Inc()
				}
				o.Metrics.NoticesPending.WithLabelValues(m.name).Set(float64(pending))
			},
		},
	)
}

// newVectors returns what keeps a table of vectors in step, nil without publish.vectors.
func newVectors(o *part.Options) (*vectors.Writer, error) {
	to, model := &o.Settings.Publish.Vectors, o.Settings.Name
	if to.To == "" || o.Settings.Shard.IsShard() { // the trainer publishes
		return nil, nil
	}
	w, err := vectors.New(vectors.Options{
		Model: model, URL: to.To, Password: to.Password, Table: to.TableOf(model), Over: to.Over, Class: to.Class,
		OnResult: func(rows int64, err error) {
			result := "success"
			if err != nil {
				result = "failure"
			}
			o.Metrics.Vectors.WithLabelValues(model, result).Inc()
			o.Metrics.VectorRows.WithLabelValues(model).Add(float64(rows))
		},
		Log: o.Log,
	})
	if err != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "publish.vectors.to", Path: o.Config.File()}
	}
	return w, nil
}

// Run reads and trains until ctx is done or, with UntilEnd, the ends are reached and the last refit is judged. The
// error carries its exit code.
func (m *Model) Run(ctx context.Context) error {
	if err := m.reader.FindEnds(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	readDone := make(chan struct{})
	group.Go(func() error {
		defer close(readDone)
		return m.reader.Run(groupCtx)
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
	group.Go(func() error { return m.reader.SendDeadLetters(othersCtx) })
	group.Go(func() error { return m.role.Stand(othersCtx) })
	group.Go(func() error { m.recordCurves(othersCtx); return nil })
	err := group.Wait()
	if err == nil {
		m.keepCopies(m.cycle.KeepCopies())
	}
	return err
}

// Announce announces champions and their deltas, where there are topics for them, and sends notifications, until ctx
// is done. It may outlive Run, so that the last version is announced, too.
func (m *Model) Announce(ctx context.Context) { role.WhileLeading(ctx, m.role, m.announce) }

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
		m.live.Close()
	}
	if m.state != nil {
		errs = append(errs, m.state.Close())
	}
	if m.crashes != nil {
		errs = append(errs, m.crashes.Close())
		m.crashes = nil
	}
	if err := errors.Join(errs...); err != nil {
		return ingest.StateError(err, m.state.Dir)
	}
	return nil
}
