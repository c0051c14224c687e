package main

import (
	"time"

	"github.com/refitd/refitd/daemon/offline/evaluate"
)

type evalCmd struct{ evaluate.Options }

func (c *evalCmd) Run(a *app) error {
	c.Now, c.Progress = time.Now, a.progress("eval")
	defer c.Progress.Stop()
	return evaluate.Run(c.Options, a.out)
}
