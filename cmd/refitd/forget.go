package main

import "github.com/refitd/refitd/cmd/refitd/internal/state"

// forgetCmd is forget.
type forgetCmd struct {
	stateFlags
	Field string `required:"" placeholder:"FIELD" help:"Field of the events that names the subject: categorical, multi or the identity."`
	Value string `required:"" placeholder:"VALUE" help:"The subject."`
	Why   string `placeholder:"TEXT" help:"Kept in the journal of the state."`
}

// Run takes a subject's events out of the state, so that the next model is without them.
func (c *forgetCmd) Run(a *app) error {
	conf, model, err := c.load()
	if err != nil {
		return err
	}
	erasure := state.Erasure{Dir: conf.StatePath(model), Model: model, Field: c.Field, Value: c.Value, Why: c.Why, Log: a.log}
	return erasure.Forget(a.ctx, a.out)
}
