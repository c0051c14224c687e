package main

import "github.com/refitd/refitd/cmd/refitd/internal/state"

type forgetCmd struct {
	stateFlags
	state.Erasure
}

// Run takes a subject's events out of the state, so that the next model is without them.
func (c *forgetCmd) Run(a *app) error {
	conf, model, err := c.load()
	if err != nil {
		return err
	}
	erasure := c.Erasure
	erasure.Dir, erasure.Model, erasure.Log = conf.StatePath(model), model, a.log
	return erasure.Forget(a.ctx, a.out)
}
