package main

import (
	"errors"

	"github.com/refitd/refitd/cmd/refitd/internal/state"
	"github.com/refitd/refitd/daemon/report"
)

type rebuildCmd struct {
	stateFlags
	From  string `enum:"start,earliest" default:"start" help:"start: where the state began; earliest: at the first records the brokers hold."`
	Input string `                                      help:"Begin with this backup instead."                                                placeholder:"FILE"`
	Why   string `                                      help:"Kept in the journal of the state."                                              placeholder:"TEXT"`
}

func (c *rebuildCmd) Run(a *app) error {
	conf, model, err := c.loadForBroker()
	if err != nil {
		return err
	}
	if c.From == "earliest" && c.Input != "" {
		return &report.ExitError{Code: report.ExitUsage, Key: "--input",
			Err: errors.New("state rebuild: --from earliest and --input can't be used together: " +
				"a backup says where reading continues")}
	}
	r := state.Rebuild{
		Config:   conf,
		Model:    model,
		Earliest: c.From == "earliest",
		Backup:   c.Input,
		Why:      c.Why,
		Out:      a.out,
		Log:      a.log,
	}
	r.Progress = a.progress("rebuild")
	defer r.Progress.Stop()
	return r.Run(a.ctx)
}
