package main

import (
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/offline/backtest"
)

type backtestCmd struct {
	ConfigFile string `name:"config.file" required:"" placeholder:"FILE" help:"Configuration file."`
	Model      string `                               placeholder:"NAME" help:"Model of the configuration; not needed if it has one only."`

	backtest.Options
}

// Run scores, learns and refits over the file and prints ticks, versions and the summary.
func (c *backtestCmd) Run(a *app) error {
	o := c.Options
	o.Now = time.Now
	var err error
	if o.Model, err = loadModel(c.ConfigFile, c.Model, config.Exceptions{Offline: true, Listen: true}); err != nil {
		return err
	}
	o.Progress = a.progress("backtest")
	defer o.Progress.Stop()
	return backtest.Run(a.ctx, o, a.out)
}
