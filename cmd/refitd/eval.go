package main

import (
	"time"

	"github.com/refitd/refitd/daemon/offline"
)

type evalCmd struct{ offline.EvalOptions }

func (c *evalCmd) Run(a *app) error {
	c.Now, c.Progress = time.Now, a.progress("eval")
	defer c.Progress.Stop()
	return offline.Eval(c.EvalOptions, a.out)
}
