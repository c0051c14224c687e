package main

import "github.com/refitd/refitd/cmd/refitd/internal/state"

type forgetCmd struct {
	stateFlags
	state.Erasure
}

func (c *forgetCmd) Run(a *app) error {
	conf, model, err := c.load()
	if err != nil {
		return err
	}
	erasure := c.Erasure
	erasure.Dir, erasure.Model, erasure.Log = conf.StatePath(model), model, a.log
	return erasure.Forget(a.ctx, a.out)
}
