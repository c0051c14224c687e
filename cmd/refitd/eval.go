package main

import (
	"time"

	"github.com/refitd/refitd/daemon/offline"
)

type evalCmd struct{ offline.EvalOptions }

func (c *evalCmd) Run(a *app) error {
	c.Now = time.Now
	return offline.Eval(c.EvalOptions, a.out)
}
