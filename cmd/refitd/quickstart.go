package main

import "github.com/refitd/refitd/cmd/refitd/internal/quickstart"

type quickstartCmd struct{ quickstart.Options }

func (c *quickstartCmd) Run(a *app) error {
	c.Out, c.Text, c.Log = a.out, a.stdout, a.log
	return quickstart.Run(a.ctx, c.Options)
}
