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
	"github.com/refitd/refitd/daemon/announce"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/failpoint"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web"
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
	// OnVersion, if not nil, is told of every version, from the goroutine of its model.
	OnVersion func(report.Version)
	// Load reads the configuration again for Reload, with everything that the command line adds; nil refuses to.
	Load func() (*config.Config, error)
	// Version of the program, for the status page and the Open Inference Protocol.
	Version string
	// EnableLifecycle offers the HTTP endpoints that change something.
	EnableLifecycle bool
}

// Daemon is one run. Make it with New, call Run once.
type Daemon struct {
	Options
	config   *config.Config
	log      *slog.Logger
	registry *prometheus.Registry
	units    []*unit
	share    *consumer.Share // models that read the same topics fetch them once; nil with one model
	listener net.Listener
	health   net.Listener // nil without a health address
	surface  *web.Server

	exclusive sync.Mutex // of the units' crash journals

	announcers []*announce.Announcer
	began      time.Time

	reloads   *reloadMetrics
	reloading sync.Mutex // one reload at a time
	reloaded  atomic.Pointer[web.ReloadStatus]
}

// New opens the states and the listener. What it opened is closed again if it fails; the error carries its exit code.
func New(ctx context.Context, o Options) (_ *Daemon, err error) {
	d := &Daemon{Options: o, config: o.Config, log: o.Log, registry: prometheus.NewRegistry(), began: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	d.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), version.NewCollector("refitd"))
	d.limitMemory()
	if err := d.listen(); err != nil {
		return nil, err
	}
	d.reloads = newReloadMetrics(d.registry)
	d.reloaded.Store(&web.ReloadStatus{})
	m := newMetrics(d.registry)
	if len(d.config.Models) > 1 {
		d.share = new(consumer.Share)
	}
	for i := range d.config.Models {
		u, err := newUnit(ctx, d, &d.config.Models[i], m)
		if err != nil {
			return nil, err
		}
		d.units = append(d.units, u)
	}
	d.registry.MustRegister(&states{units: d.units, memory: d.config.Memory()})
	if d.announcers, err = d.newAnnouncers(m); err != nil {
		return nil, err
	}
	d.surface = d.newSurface()
	return d, nil
}

// Addr returns the address of the HTTP listener.
func (d *Daemon) Addr() string { return d.listener.Addr().String() }

// Run reads, learns and publishes until ctx is done, the time is up or the ends are reached, emits the summary and closes everything.
// The error carries its exit code; a signal is no error.
func (d *Daemon) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, d.close()) }()
	if d.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.For)
		defer cancel()
	}
	ready := report.Ready{Web: d.Addr()}
	for _, u := range d.units {
		ready.Models = append(ready.Models, u.config.Name)
	}
	if err := d.Out.Emit("ready", ready); err != nil {
		return err
	}
	d.log.Info("started", "web", ready.Web, "models", strings.Join(ready.Models, ","))
	// The listener outlives the models: an operator sees the last refit.
	webCtx, stopWeb := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	runCtx, stopRun := context.WithCancel(ctx)
	defer stopRun()
	go func() {
		defer stopRun() // models that nobody can watch do not run on
		served <- d.serve(webCtx)
	}()
	announced := d.announce(webCtx)
	group, groupCtx := errgroup.WithContext(runCtx)
	for _, u := range d.units {
		group.Go(func() error { return u.run(groupCtx) })
	}
	err = group.Wait()
	stopWeb()
	announced()
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
	for _, u := range d.units {
		m, err := u.summary()
		if err != nil {
			return err
		}
		if reading := time.Duration(u.reading.Load()).Seconds(); reading > 0 {
			rate += float64(u.applied.Load()) / reading
		}
		for _, p := range m.State.Partitions {
			halted = halted || p.Halted != nil
		}
		s.Models = append(s.Models, m)
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

// close closes what New opened. It may be called more than once.
func (d *Daemon) close() error {
	errs := []error{failpoint.At(failpoint.DaemonShutdown)}
	for _, u := range d.units {
		errs = append(errs, u.close())
	}
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
func (d *Daemon) Progressive() report.Progressive { return d.units[0].cycle.Progressive() }

// Lag returns the records below the log ends that have not been applied yet, over all models, without those of halted partitions.
func (d *Daemon) Lag() int64 {
	total := int64(0)
	for _, u := range d.units {
		total += u.lag()
	}
	return total
}

// residentBytes returns the resident memory of the process, 0 where the system does not tell.
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
