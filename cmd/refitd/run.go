package main

import (
	"path/filepath"
	"time"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/report"
)

// runCmd is run.
type runCmd struct {
	ConfigFile       string        `name:"config.file" required:"" placeholder:"FILE" help:"Configuration file."`
	StoragePath      string        `name:"storage.path" placeholder:"DIR" help:"State directory, in place of storage.path."`
	WebListenAddress string        `name:"web.listen-address" placeholder:"HOST:PORT" help:"Address of health and metrics, in place of web.listen_address."`
	Until            string        `enum:",end" default:"" help:"end: read up to the log ends as they are now, refit once more and exit."`
	For              time.Duration `help:"End after this long."`
	StartFresh       bool          `help:"Begin an empty state although the consumer group has offsets: what was read before is not in it."`
}

// Run runs the daemon until a signal, the time or the log ends.
func (c *runCmd) Run(a *app) error {
	conf, err := loadConfig(c.ConfigFile)
	if err != nil {
		return err
	}
	if c.StoragePath != "" {
		if conf.Storage.Path, err = filepath.Abs(c.StoragePath); err != nil {
			return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--storage.path"}
		}
	}
	if c.WebListenAddress != "" {
		conf.Web.ListenAddress = c.WebListenAddress
		if err := conf.Web.Validate(); err != nil {
			return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--web.listen-address"}
		}
	}
	d, err := daemon.New(a.ctx, daemon.Options{Config: conf, UntilEnd: c.Until == "end", For: c.For, StartFresh: c.StartFresh, CheckState: checkState, Out: a.out, Log: a.log})
	if err != nil {
		return err
	}
	return d.Run(a.ctx)
}
