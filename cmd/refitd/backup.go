package main

import (
	"github.com/refitd/refitd/cmd/refitd/internal/state"
	"github.com/refitd/refitd/daemon/report"
)

type backupCmd struct {
	stateFlags
	Output string `required:"" placeholder:"FILE" help:"File to write. An older one of that name is replaced once the new one is complete."`
}

func (c *backupCmd) Run(a *app) error {
	conf, model, err := c.load()
	if err != nil {
		return err
	}
	if err := conf.Outside(c.Output); err != nil {
		return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--output", Path: c.Output}
	}
	meter := a.progress("backup")
	defer meter.Stop()
	return state.Backup(a.ctx, conf.StatePath(model), model.Name, c.Output, meter, a.log, a.out)
}

type restoreCmd struct {
	stateFlags
	Input string `required:"" placeholder:"FILE" help:"What backup wrote."`
	Why   string `            placeholder:"TEXT" help:"Kept in the journal of the state."`
}

func (c *restoreCmd) Run(a *app) error {
	conf, model, err := c.load()
	if err != nil {
		return err
	}
	meter := a.progress("restore")
	defer meter.Stop()
	return state.Restore(a.ctx, conf.StatePath(model), model, c.Input, c.Why, meter, a.log, a.out)
}
