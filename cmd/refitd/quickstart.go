package main

import "github.com/refitd/refitd/cmd/refitd/internal/quickstart"

type quickstartCmd struct{ quickstart.Options }

// Run shows refitd on a generated stream.
func (c *quickstartCmd) Run(a *app) error {
	c.Out, c.Text, c.Log = a.out, a.stdout, a.log
	return quickstart.Run(a.ctx, c.Options)
}
