// Package daemon runs refitd: it wires Kafka, the sample store, the learning cycle and the snapshot store together for
// every model of the configuration, and serves health and metrics.
package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/memory"
	"github.com/refitd/refitd/daemon/model"
	"github.com/refitd/refitd/daemon/model/metrics"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/traces"
	"github.com/refitd/refitd/daemon/web"
	"github.com/refitd/refitd/daemon/web/statuspage"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/failpoint"
	"golang.org/x/sync/errgroup"
)

// Options of a daemon. Config, Out and Log are required.
type Options struct {
	Config *config.Config
	// UntilEnd reads up to the log ends as they are at the start, refits once more and returns.
	UntilEnd bool
	// For ends the run after this long; 0 does not.
	For time.Duration
	// StartFresh makes an empty state although the consumer group has offsets.
	StartFresh bool
	// CheckState, if not nil, looks at a state directory before it is opened, in another process: damage may end the
	// process that finds it.
	CheckState func(ctx context.Context, dir string) error
	Out        *report.Emitter
	Log        *slog.Logger
	// OnVersion, if not nil, is called with every version, on a goroutine of its model.
	OnVersion func(report.Version)
	// Load reads the configuration again for Reload, with everything that the command line adds; nil refuses to.
	Load func() (*config.Config, error)
	// Listen makes the HTTP listeners; nil is net.Listen.
	Listen func(network, address string) (net.Listener, error)
	// EnableLifecycle offers the HTTP endpoints that change something.
	EnableLifecycle bool
	// EnableProfiling serves profiles of the process over HTTP.
	EnableProfiling bool
}

// Daemon is one run. Make it with New, then call Run once, or Close.
type Daemon struct {
	Options
	registry *prometheus.Registry
	models   []*model.Model // none where a group decides which shards run here
	shards   *shards        // nil unless it does
	crashes  sync.Mutex     // shared by the crash journals of the process
	listener net.Listener
	health   net.Listener // nil without a health address
	surface  *web.Server
	began    time.Time
	memory   config.Memory
	traces   *traces.Provider

	reloads   *reloadMetrics
	reloading sync.Mutex // one reload at a time
	reloaded  atomic.Pointer[statuspage.ReloadStatus]
}

// New opens the states and the listener. What it opened is closed again if it fails; the error carries its exit code.
func New(ctx context.Context, o Options) (_ *Daemon, err error) {
	d := &Daemon{Options: o, registry: prometheus.NewRegistry(), began: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if d.traces, err = traces.New(ctx, o.Config.Tracing, d.registry, o.Log); err != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "tracing.endpoint"}
	}
	d.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), version.NewCollector("refitd"))
	d.memory = memory.Of(d.Config)
	collectEarlier()
	limitMemory(d.memory, d.Log)
	if err := d.listen(); err != nil {
		return nil, err
	}
	d.countRefused()
	d.reloads = newReloadMetrics(d.registry)
	d.reloaded.Store(&statuspage.ReloadStatus{})
	if d.shards, err = newShards(d); err != nil {
		return nil, err
	}
	if d.shards == nil {
		if d.models, err = d.open(ctx, d.Config, d.registry, d.CheckState); err != nil {
			return nil, err
		}
	}
	if d.surface, err = d.newSurface(); err != nil {
		return nil, err
	}
	return d, nil
}

// countRefused has what the clients of package cluster refuse counted and logged.
func (d *Daemon) countRefused() {
	refused := promauto.With(d.registry).NewCounter(prometheus.CounterOpts{Name: "refitd_kafka_answers_refused_total",
		Help: "Answers to readers but the consumer that a second one on another connection contradicted, and that were " +
			"asked for again."})
	d.Config.Kafka.Refused = func(topic string, partition int32, reason string) {
		refused.Inc()
		d.Log.Warn("answer of a broker refused",
			"note", "a second one on another connection contradicts it", "topic", topic,
			"partition", partition, "reason", reason)
	}
}

// open opens the models of a configuration, whose states check looks at first unless it is nil, and registers their
// metrics. Those that it opened have to be closed, also if it fails. The error carries its exit code.
func (d *Daemon) open(ctx context.Context, conf *config.Config, registry *prometheus.Registry,
	check func(ctx context.Context, dir string) error) (
	models []*model.Model, err error) {
	counters := metrics.New(registry)
	var share *consumer.Share // models that read the same topics fetch them once; nil with one model
	if len(conf.Models) > 1 {
		share = new(consumer.Share)
	}
	siblings := func() (list []model.Sibling) {
		for _, m := range models {
			list = append(list, m)
		}
		return list
	}
	for i := range conf.Models {
		settings := &conf.Models[i]
		registerer := prometheus.Registerer(registry)
		if len(conf.Models) > 1 { // keeps the consumers' series apart
			registerer = prometheus.WrapRegistererWith(prometheus.Labels{"model": settings.Name}, registry)
		}
		m, err := model.New(
			ctx,
			model.Options{Config: conf, Settings: settings, UntilEnd: d.UntilEnd, StartFresh: d.StartFresh,
				CheckState: check, Siblings: siblings, Share: share, Crashes: &d.crashes,
				Metrics:    counters,
				Registerer: registerer, Tracer: d.traces.Tracer(), Out: d.Out, Log: d.Log, OnVersion: d.OnVersion},
		)
		if err != nil {
			return models, err
		}
		models = append(models, m)
	}
	return models, registry.Register(model.NewCollector(models, conf))
}

// all returns the models that are open.
func (d *Daemon) all() []*model.Model {
	if d.shards != nil {
		return d.shards.models()
	}
	return d.models
}

// model returns a model by name, nil without a model of that name: not of those that several shards have here.
func (d *Daemon) model(name string) *model.Model {
	for _, m := range d.models {
		if m.Name() == name {
			return m
		}
	}
	return nil
}

// Addr returns the address of the HTTP listener.
func (d *Daemon) Addr() string { return d.listener.Addr().String() }

// Run reads, learns and publishes until ctx is done, the time is up or the ends are reached, emits the summary and
// closes everything.
// The error carries its exit code; a signal is no error.
func (d *Daemon) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, d.Close()) }()
	if d.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.For)
		defer cancel()
	}
	ready := report.Ready{Web: d.Addr()}
	for i := range d.Config.Models {
		ready.Models = append(ready.Models, d.Config.Models[i].Name)
	}
	if err := d.Out.Emit("ready", ready); err != nil {
		return err
	}
	d.Log.Info("started", "web", ready.Web, "models", strings.Join(ready.Models, ","))
	// The listener outlives the models: an operator sees the last refit.
	webCtx, stopWeb := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	runCtx, stopRun := context.WithCancel(ctx)
	defer stopRun()
	go func() {
		defer stopRun() // models that nobody can watch do not run on
		served <- d.serve(webCtx)
	}()
	var announced sync.WaitGroup // announcers outlive the models, so that the last version is announced, too
	if d.shards != nil {
		err = d.shards.run(runCtx, webCtx)
	} else {
		err = d.runModels(runCtx, webCtx, &announced, d.models)
	}
	stopWeb()
	announced.Wait()
	if err = errors.Join(err, <-served); err != nil {
		return err
	}
	return d.summarise(ctx.Err() == nil)
}

// runModels runs models until ctx is done or one fails. What they publish is announced until outlive is done, counted
// by announced.
func (d *Daemon) runModels(ctx, outlive context.Context, announced *sync.WaitGroup, models []*model.Model) error {
	var scored sync.WaitGroup
	scoreCtx, stopScores := context.WithCancel(ctx)
	defer scored.Wait()
	defer stopScores()
	group, groupCtx := errgroup.WithContext(ctx)
	for _, m := range models {
		announced.Go(func() { m.Announce(outlive) })
		scored.Go(func() {
			m.Score(scoreCtx, func(last *web.Champion) *web.Champion { return d.surface.Champion(m.Name(), last) })
		})
		published := func() *snapshot.Model { return d.surface.Published(m.Name()) }
		scored.Go(func() { m.Rank(scoreCtx, published) })
		scored.Go(func() { m.Vectors(scoreCtx, published) })
		group.Go(func() error { return m.Run(groupCtx) })
	}
	return group.Wait()
}

// summarise emits the summary. It is exit code 4 if a partition halted; else, for a run that got to the log ends, what
// Failure says of the models, a store that takes no version first.
func (d *Daemon) summarise(ended bool) error {
	seconds := time.Since(d.began).Seconds()
	s := report.RunSummary{Seconds: report.Number(seconds), RSSBytes: residentBytes()}
	halted := false
	rate := 0.0 // of reading: the last refit is not part of it
	var failed *report.ExitError
	for _, m := range d.models {
		summary, err := m.Summary()
		if err != nil {
			return err
		}
		if failure := m.Failure(); d.UntilEnd && ended && failure != nil {
			if summary.Failure = failure.Error(); failed == nil || failed.Code < failure.Code {
				failed = failure
			}
		}
		rate += m.Rate()
		s.Models = append(s.Models, summary)
	}
	if d.shards != nil {
		s.Models, rate = d.shards.summaries()
	}
	for i := range s.Models {
		halted = halted || s.Models[i].State.NeedsOperator()
	}
	s.EventsPerSecond = report.Number(rate)
	if err := d.Out.Emit("summary", s); err != nil {
		return err
	}
	switch {
	case halted:
		return &report.ExitError{Code: report.ExitHalted, Reported: true}
	case failed != nil:
		failed.Reported = d.Out.IsJSON()
		return failed
	}
	return nil
}

// Close closes what New opened, whether Run was called or not; Run does it in the end. It may be called again.
func (d *Daemon) Close() error {
	errs := []error{failpoint.At(failpoint.DaemonShutdown)}
	for _, m := range d.models {
		errs = append(errs, m.Close())
	}
	d.traces.Close()
	for _, l := range []net.Listener{d.listener, d.health} {
		if l == nil {
			continue
		}
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Progressive returns the progressive metrics of the first model, none where a group decides what runs here.
func (d *Daemon) Progressive() (p report.Progressive) {
	if len(d.models) > 0 {
		p = d.models[0].Progressive()
	}
	return p
}

// Lag returns the records below the log ends that have not been applied yet, over all models, without those of halted
// partitions.
func (d *Daemon) Lag() (total int64) {
	for _, m := range d.all() {
		total += m.Lag()
	}
	return total
}

// residentBytes returns the resident memory of the process, 0 where the system does not provide it.
func residentBytes() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
