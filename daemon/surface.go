package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/refitd/refitd/daemon/build"
	"github.com/refitd/refitd/daemon/model/versions"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web"
	"github.com/refitd/refitd/daemon/web/statuspage"
	"github.com/refitd/refitd/sketch"
)

func (d *Daemon) listen() (err error) {
	w := &d.Config.Web
	if err := web.Check(w.ConfigFile); err != nil {
		return &report.ExitError{
			Code: report.ExitUsage,
			Err:  fmt.Errorf("daemon: web.config_file: %w", err),
			Key:  "web.config_file",
			Path: w.ConfigFile,
		}
	}
	listen := d.Listen
	if listen == nil {
		listen = net.Listen
	}
	if d.listener, err = listen("tcp", w.ListenAddress); err != nil {
		return &report.ExitError{
			Code: report.ExitUsage,
			Err:  fmt.Errorf("daemon: web.listen_address: %w", err),
			Key:  "web.listen_address",
		}
	}
	if w.HealthAddress == "" {
		return nil
	}
	if d.health, err = web.ListenHealth(w.HealthAddress); err != nil {
		return &report.ExitError{
			Code: report.ExitUsage,
			Err:  fmt.Errorf("daemon: web.health_address: %w", err),
			Key:  "web.health_address",
		}
	}
	return nil
}

// newSurface returns the HTTP surface. The error carries its exit code.
func (d *Daemon) newSurface() (*web.Server, error) {
	o := web.Options{Daemon: d, Registry: d.registry, Limits: d.limits, ConfigFile: d.Config.Web.ConfigFile,
		AllowedHosts: d.Config.Web.AllowedHosts, MaxInflightBytes: int64(d.Config.Web.MaxInflightBytes),
		MaxConnections: d.Config.Web.MaxConnections, Version: build.String(), Log: d.Log}
	for i, m := range d.models {
		o.Models = append(
			o.Models,
			web.Model{
				Name:        m.Name(),
				Dir:         d.Config.Models[i].Publish.Store,
				Store:       m.Store(),
				Derive:      m.Derive,
				Live:        m.Live,
				Curves:      m.Curves(),
				Calibration: m.Calibration,
				Rejected:    m.Rejected,
			},
		)
	}
	if d.shards != nil { // what is published can be looked at, where the store is the trainer's
		for i := range d.Config.Models {
			m := &d.Config.Models[i]
			publisher, err := versions.NewPublisher(m, d.Log)
			if err != nil {
				return nil, err
			}
			o.Models = append(o.Models, web.Model{Name: m.Name, Dir: m.Publish.Store, Store: publisher.Store()})
		}
	}
	o.Profiling = d.EnableProfiling
	if d.EnableLifecycle {
		o.Lifecycle = d
	}
	return web.New(o), nil
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
func (d *Daemon) limits(name string) web.Limits {
	if m := d.model(name); m != nil {
		return m.Limits()
	}
	return web.DefaultLimits()
}

// Status is what the status page shows.
func (d *Daemon) Status() statuspage.Status {
	s := statuspage.Status{Now: time.Now(), Started: d.began, Reload: *d.reloaded.Load(),
		Memory: statuspage.MemoryStatus{
			ResidentBytes: residentBytes(),
			ComputedBytes: d.memory.TotalBytes,
			BudgetBytes:   d.memory.BudgetBytes,
		}}
	paths := []string{d.Config.Storage.Path}
	for _, m := range d.models {
		s.Models = append(s.Models, m.Status())
	}
	if d.shards != nil {
		s.Models = d.shards.status()
	}
	for i := range d.Config.Models {
		paths = append(paths, d.Config.Models[i].Publish.Store)
	}
	seen := make(map[string]bool)
	for _, path := range paths {
		if free, err := sketch.FreeBytes(path); err == nil &&
			!seen[path] { // a file system that does not report it is left out
			s.Disks = append(s.Disks,
				statuspage.DiskStatus{Path: path, FreeBytes: free, MinFreeBytes: int64(d.Config.Storage.MinFreeBytes)})
		}
		seen[path] = true
	}
	return s
}
