package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/statuspage"
)

// reloadMetrics show how the last reload ended, under the names that Prometheus' own daemons use.
type reloadMetrics struct {
	successful prometheus.Gauge
	at         prometheus.Gauge
}

func newReloadMetrics(r prometheus.Registerer) *reloadMetrics {
	f := promauto.With(r)
	m := &reloadMetrics{
		successful: f.NewGauge(prometheus.GaugeOpts{Name: "refitd_config_last_reload_successful",
			Help: "Whether the configuration file was valid, and applied, when it was last read."}),
		at: f.NewGauge(prometheus.GaugeOpts{Name: "refitd_config_last_reload_success_timestamp_seconds",
			Help: "When the configuration was last applied."}),
	}
	m.successful.Set(1)
	m.at.SetToCurrentTime()
	return m
}

// Reload reads the configuration file again and applies all that changed, or nothing: not if the file is wrong, and not
// if a key changed that only a restart applies. The schedule, the gate and the limits of requests are in force when it
// returns nil, for a refit under way from the next one on.
func (d *Daemon) Reload(context.Context) error {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	err := d.reload()
	state := statuspage.ReloadStatus{At: time.Now()}
	if err != nil {
		state.Error = report.WithoutPackages(err.Error())
		d.reloads.successful.Set(0)
		d.Log.Error("configuration not reloaded", "error", err)
	} else {
		d.reloads.successful.Set(1)
		d.reloads.at.SetToCurrentTime()
		d.Log.Info("configuration reloaded", "file", d.Config.File())
	}
	d.reloaded.Store(&state)
	return err
}

func (d *Daemon) reload() error {
	if d.Load == nil {
		return errors.New("daemon: this daemon has no configuration file to read again")
	}
	next, err := d.Load()
	if err != nil {
		return fmt.Errorf("daemon: the old configuration stays: %w", err)
	}
	if err := config.Reloadable(d.Config, next); err != nil {
		return fmt.Errorf("daemon: the old configuration stays: %w", err)
	}
	if d.shards != nil {
		d.shards.configure(next)
	}
	for _, m := range d.all() {
		if settings, err := next.Model(m.Name()); err == nil {
			m.Trainer().Configure(settings)
		}
	}
	return nil
}

// Refit lets a model be refitted now, or as soon as the refit under way has ended. Its error says where it is done if
// it is not here.
func (d *Daemon) Refit(name string) error {
	m := d.model(name)
	switch {
	case m == nil && d.shards != nil:
		return fmt.Errorf("daemon: model %s: this process has shards of it: ask the trainer for a refit", name)
	case m == nil:
		return fmt.Errorf("daemon: no model %q", name)
	}
	return m.Refit()
}
