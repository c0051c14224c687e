// Package daemon runs refitd: it wires Kafka, the sample store, the learning cycle and the snapshot store together for every model of
// the configuration, and serves health and metrics.
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
	"golang.org/x/sync/errgroup"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/memory"
	"github.com/refitd/refitd/daemon/model"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/traces"
	"github.com/refitd/refitd/daemon/web"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/failpoint"
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
	// CheckState, if not nil, looks at a state directory before it is opened, in another process: damage may end the process that finds it.
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
	models   []*model.Model
	listener net.Listener
	health   net.Listener // nil without a health address
	surface  *web.Server
	began    time.Time
	memory   config.Memory
	traces   *traces.Provider

	reloads   *reloadMetrics
	reloading sync.Mutex // one reload at a time
	reloaded  atomic.Pointer[web.ReloadStatus]
}

// New opens the states and the listener. What it opened is closed again if it fails; the error carries its exit code.
func New(ctx context.Context, o Options) (_ *Daemon, err error) {
	d := &Daemon{Options: o, registry: prometheus.NewRegistry(), began: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if d.traces, err = traces.New(ctx, o.Config.Tracing, o.Log); err != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "tracing.endpoint"}
	}
	d.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), version.NewCollector("refitd"))
	d.memory = memory.Of(d.Config)
	limitMemory(d.memory, d.Log)
	if err := d.listen(); err != nil {
		return nil, err
	}
	d.reloads = newReloadMetrics(d.registry)
	d.reloaded.Store(&web.ReloadStatus{})
	metrics := model.NewMetrics(d.registry)
	var share *consumer.Share // models that read the same topics fetch them once; nil with one model
	if len(d.Config.Models) > 1 {
		share = new(consumer.Share)
	}
	crashes := new(sync.Mutex)
	for i := range d.Config.Models {
		settings := &d.Config.Models[i]
		m, err := model.New(ctx, model.Options{Config: d.Config, Settings: settings, UntilEnd: o.UntilEnd, StartFresh: o.StartFresh,
			CheckState: o.CheckState, Siblings: func() []*model.Model { return d.models }, Share: share, Crashes: crashes, Metrics: metrics,
			Registerer: d.registerer(settings.Name), Tracer: d.traces.Tracer(), Out: o.Out, Log: o.Log, OnVersion: o.OnVersion})
		if err != nil {
			return nil, err
		}
		d.models = append(d.models, m)
	}
	d.registry.MustRegister(model.NewCollector(d.models, d.Config))
	d.surface = d.newSurface()
	return d, nil
}

// registerer keeps the consumers' series of several models apart.
func (d *Daemon) registerer(model string) prometheus.Registerer {
	if len(d.Config.Models) == 1 {
		return d.registry
	}
	return prometheus.WrapRegistererWith(prometheus.Labels{"model": model}, d.registry)
}

// model returns a model by name, nil if there is none.
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

// Run reads, learns and publishes until ctx is done, the time is up or the ends are reached, emits the summary and closes everything.
// The error carries its exit code; a signal is no error.
func (d *Daemon) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, d.Close()) }()
	if d.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.For)
		defer cancel()
	}
	ready := report.Ready{Web: d.Addr()}
	for _, m := range d.models {
		ready.Models = append(ready.Models, m.Name())
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
	var announced, scored sync.WaitGroup // announcers outlive the models, so that the last version is announced, too
	scoreCtx, stopScores := context.WithCancel(runCtx)
	defer stopScores()
	group, groupCtx := errgroup.WithContext(runCtx)
	for _, m := range d.models {
		announced.Go(func() { m.Announce(webCtx) })
		scored.Go(func() {
			m.Score(scoreCtx, func(last *web.Champion) *web.Champion { return d.surface.Champion(m.Name(), last) })
		})
		scored.Go(func() {
			m.Rank(scoreCtx, func() *snapshot.Model { return d.surface.Published(m.Name()) })
		})
		group.Go(func() error { return m.Run(groupCtx) })
	}
	err = group.Wait()
	stopScores()
	scored.Wait()
	stopWeb()
	announced.Wait()
	if err = errors.Join(err, <-served); err != nil {
		return err
	}
	return d.summarise()
}

// summarise emits the summary. It is exit code 4 if a partition halted.
func (d *Daemon) summarise() error {
	seconds := time.Since(d.began).Seconds()
	s := report.RunSummary{Seconds: report.Number(seconds), RSSBytes: residentBytes()}
	halted := false
	rate := 0.0 // of reading: the last refit is not part of it
	for _, m := range d.models {
		summary, err := m.Summary()
		if err != nil {
			return err
		}
		rate += m.Rate()
		for _, p := range summary.State.Partitions {
			halted = halted || p.Halted != nil
		}
		s.Models = append(s.Models, summary)
	}
	s.EventsPerSecond = report.Number(rate)
	if err := d.Out.Emit("summary", s); err != nil {
		return err
	}
	if halted {
		return &report.ExitError{Code: report.ExitHalted, Reported: true}
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

// Progressive returns the progressive metrics of the first model.
func (d *Daemon) Progressive() report.Progressive { return d.models[0].Progressive() }

// Lag returns the records below the log ends that have not been applied yet, over all models, without those of halted partitions.
func (d *Daemon) Lag() (total int64) {
	for _, m := range d.models {
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
