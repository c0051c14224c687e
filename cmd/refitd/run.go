package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

type runCmd struct {
	ConfigFile       string        `name:"config.file"          required:"" placeholder:"FILE"      help:"Configuration file. SIGHUP reads it again."`
	StoragePath      string        `name:"storage.path"                     placeholder:"DIR"       help:"State directory, in place of storage.path."`
	WebListenAddress string        `name:"web.listen-address"               placeholder:"HOST:PORT" help:"Address of the HTTP surface, in place of web.listen_address."`
	WebConfigFile    string        `name:"web.config.file"                  placeholder:"FILE"      help:"TLS and authentication of the HTTP surface, in place of web.config_file."`
	EnableLifecycle  bool          `name:"web.enable-lifecycle"                                     help:"Let HTTP requests reload, refit and move aliases."`
	EnableProfiling  bool          `name:"web.enable-profiling"                                     help:"Serve profiles of the process at /debug/pprof/."`
	InsecureNoAuth   bool          `name:"insecure-no-auth"                                         help:"Let the HTTP surface listen where other machines reach it without asking who they are."`
	Until            string        `                                                                help:"end: read up to the log ends as they are now, refit once more and exit."                          enum:",end" default:""`
	For              time.Duration `                                                                help:"End after this long."`
	StartFresh       bool          `                                                                help:"Begin an empty state although the consumer group has offsets: what was read before is not in it."`
}

// load reads the configuration and applies the flags, which win over the file.
func (c *runCmd) load() (*config.Config, error) {
	allow := config.Exceptions{NoAuth: c.InsecureNoAuth, Listen: c.WebListenAddress != "" || c.WebConfigFile != ""}
	conf, err := loadConfig(c.ConfigFile, allow)
	if err != nil {
		return nil, err
	}
	if c.StoragePath != "" {
		if err := conf.SetStorage(c.StoragePath); err != nil {
			return nil, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--storage.path"}
		}
	}
	if c.WebConfigFile != "" {
		conf.Web.ConfigFile = c.WebConfigFile
	}
	if c.WebListenAddress != "" {
		conf.Web.ListenAddress = c.WebListenAddress
	}
	if err := conf.Web.Validate(); err != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--web.listen-address"}
	}
	return conf, nil
}

// Run runs the daemon until a signal, the time or the log ends.
func (c *runCmd) Run(a *app) error {
	conf, err := c.load()
	if err != nil {
		return err
	}
	options := daemon.Options{Config: conf, UntilEnd: c.Until == "end", For: c.For, StartFresh: c.StartFresh,
		CheckState: checkState, Out: a.out, Log: a.log, Load: c.load, EnableLifecycle: c.EnableLifecycle,
		EnableProfiling: c.EnableProfiling}
	screen := runScreen{out: a.stdout}
	if a.terminal {
		if screen.log, options.Log, err = a.openRunLog(conf.Storage.Path); err != nil {
			return err
		}
		defer screen.log.Close()
		options.Out = report.NewEmitter(&screen, false)
		options.Out.Fit(a.columns)
	}
	d, err := daemon.New(a.ctx, options)
	if err != nil {
		return err
	}
	if a.terminal {
		defer screen.show(a.ctx, d, conf.Storage.Path)()
	}
	ctx, stop := context.WithCancel(a.ctx)
	var wg sync.WaitGroup
	wg.Go(func() { reloadOnHangup(ctx, d) })
	defer wg.Wait()
	defer stop()
	return d.Run(ctx)
}

// reloadOnHangup reads the configuration again at each SIGHUP until ctx is done. The daemon logs and shows how that
// ended.
func reloadOnHangup(ctx context.Context, d *daemon.Daemon) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			_ = d.Reload(ctx)
		}
	}
}
