package main

import "github.com/refitd/refitd/cmd/refitd/internal/state"

type rebuildCmd struct {
	stateFlags
	From  string `enum:"start,earliest" default:"start" xor:"from" help:"start: where the state began; earliest: at the first records the brokers hold."`
	Input string `placeholder:"FILE" xor:"from" help:"Begin with this backup instead."`
	Why   string `placeholder:"TEXT" help:"Kept in the journal of the state."`
}

func (c *rebuildCmd) Run(a *app) error {
	conf, model, err := c.load()
	if err != nil {
		return err
	}
	r := state.Rebuild{Config: conf, Model: model, Earliest: c.From == "earliest", Backup: c.Input, Why: c.Why, Out: a.out, Log: a.log}
	return r.Run(a.ctx)
}
