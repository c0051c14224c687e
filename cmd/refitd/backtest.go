package main

import (
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/offline"
)

type backtestCmd struct {
	ConfigFile string `name:"config.file" required:"" placeholder:"FILE" help:"Configuration file."`
	Model      string `placeholder:"NAME" help:"Model of the configuration; not needed if it has one only."`

	offline.BacktestOptions
}

// Run scores, learns and refits over the file and prints ticks, versions and the summary.
func (c *backtestCmd) Run(a *app) error {
	o := c.BacktestOptions
	o.Now = time.Now
	var err error
	if o.Model, err = loadModel(c.ConfigFile, c.Model, config.Exceptions{Offline: true}); err != nil {
		return err
	}
	o.Progress = a.progress("backtest")
	defer o.Progress.Stop()
	return offline.Backtest(a.ctx, o, a.out)
}
