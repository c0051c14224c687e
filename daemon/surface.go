package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web"
	"github.com/refitd/refitd/sketch"
)

// listen opens the listeners of the surface.
func (d *Daemon) listen() (err error) {
	w := &d.config.Web
	if err := web.Check(w.ConfigFile); err != nil {
		return &report.ExitError{Code: report.ExitUsage, Err: fmt.Errorf("daemon: web.config_file: %w", err), Key: "web.config_file", Path: w.ConfigFile}
	}
	if d.listener, err = net.Listen("tcp", w.ListenAddress); err != nil {
		return &report.ExitError{Code: report.ExitUsage, Err: fmt.Errorf("daemon: web.listen_address: %w", err), Key: "web.listen_address"}
	}
	if w.HealthAddress == "" {
		return nil
	}
	if d.health, err = web.ListenHealth(w.HealthAddress); err != nil {
		return &report.ExitError{Code: report.ExitUsage, Err: fmt.Errorf("daemon: web.health_address: %w", err), Key: "web.health_address"}
	}
	return nil
}

// newSurface returns the HTTP surface over the units.
func (d *Daemon) newSurface() *web.Server {
	o := web.Options{Daemon: d, Registry: d.registry, Limits: d.limits, ConfigFile: d.config.Web.ConfigFile,
		AllowedHosts: d.config.Web.AllowedHosts, Version: d.Version, Log: d.log}
	for _, u := range d.units {
		o.Models = append(o.Models, web.Model{Name: u.config.Name, Dir: u.config.Publish.Store, Store: u.versions.Store()})
	}
	if d.EnableLifecycle {
		o.Lifecycle = d
	}
	return web.New(o)
}

// serve serves the surface and the health listener until ctx is done.
func (d *Daemon) serve(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	surface, health := make(chan error, 1), error(nil)
	go func() {
		defer stop()
		surface <- d.surface.Serve(ctx, d.listener)
	}()
	if d.health != nil {
		health = d.surface.ServeHealth(ctx, d.health)
		stop()
	}
	return errors.Join(<-surface, health)
}

// limits returns the bounds of requests for a model, as last configured.
func (d *Daemon) limits(model string) web.Limits {
	for _, u := range d.units {
		if u.config.Name == model {
			serve := u.tuned.Load().Serve
			return web.Limits{MaxEvents: serve.MaxEvents, MaxItems: serve.MaxItems}
		}
	}
	return web.DefaultLimits()
}

// NotReady returns why the daemon is not ready. A model without a snapshot does not make it so.
func (d *Daemon) NotReady() []string {
	var reasons []string
	for _, u := range d.units {
		if reason := u.Reason(); reason != "" {
			reasons = append(reasons, u.config.Name+": "+reason)
		}
		status := u.consumer.Status()
		if status.Ready {
			continue
		}
		for _, r := range status.Reasons {
			reasons = append(reasons, u.config.Name+": "+r)
		}
		if len(status.Reasons) == 0 {
			reasons = append(reasons, u.config.Name+": connecting")
		}
	}
	return reasons
}

// Status is what the status page shows.
func (d *Daemon) Status() web.Status {
	s := web.Status{Now: time.Now(), Started: d.began, Reload: *d.reloaded.Load()}
	paths := []string{d.config.Storage.Path}
	for _, u := range d.units {
		s.Models = append(s.Models, u.status())
		paths = append(paths, u.config.Publish.Store)
	}
	seen := make(map[string]bool)
	for _, path := range paths {
		if free, err := sketch.FreeBytes(path); err == nil && !seen[path] { // a file system that does not tell is left out
			s.Disks = append(s.Disks, web.DiskStatus{Path: path, FreeBytes: free, MinFreeBytes: int64(d.config.Storage.MinFreeBytes)})
		}
		seen[path] = true
	}
	return s
}

func (u *unit) status() web.ModelStatus {
	m := web.ModelStatus{Name: u.config.Name, Progressive: u.cycle.Progressive(), Events: u.applied.Load()}
	if v := u.serving.Load(); v != nil {
		m.Champion, m.Published = &v.version, v.at
	}
	if v := u.judged.Load(); v != nil {
		m.Judged = &v.version
	}
	if at := u.refitted.Load(); at != nil {
		m.LastRefit = *at
	}
	for _, p := range u.consumer.Status().Partitions {
		m.Lag += p.Lag
		if p.Halted != "" {
			m.Halted = append(m.Halted, web.HaltedPartition{Topic: p.Topic, Partition: p.Partition, Offset: p.Next, Reason: p.Halted})
		}
	}
	rows, bytes := u.store.Size()
	for _, n := range rows {
		m.SampleRows += n
	}
	m.SampleBytes = bytes
	m.TrainingDisabled = u.trainingDisabled()
	if m.Champion == nil {
		m.Waiting = u.waiting(rows[sketch.Train], m.SampleRows)
	}
	return m
}

// waiting says why there is no version yet.
func (u *unit) waiting(train, rows int) string {
	if disabled := u.trainingDisabled(); disabled != "" {
		return "no version yet: " + disabled
	}
	switch rejected := u.rejected.Load(); {
	case rows == 0 && rejected > 0:
		return fmt.Sprintf("no version yet: all of the %d records read were rejected, see refitd_events_rejected_total", rejected)
	case rows == 0:
		return "no version yet: no event was read"
	case train == 0:
		return fmt.Sprintf("no version yet: all of the %d events read were held out", rows)
	}
	return fmt.Sprintf("no version yet: %d events to train on; no refit has ended with a version for consumers", train)
}

// dated is a version and when it was published.
type dated struct {
	version report.Version
	at      time.Time
}
