package main

import (
	"io"
	"log/slog"

	"github.com/refitd/refitd/cmd/refitd/internal/quickstart"
)

type quickstartCmd struct{ quickstart.Options }

func (c *quickstartCmd) Run(a *app) error {
	c.Out, c.Text, c.Log = a.out, a.stdout, a.log
	if a.terminal {
		c.Terminal = a.logTo
	}
	return quickstart.Run(a.ctx, c.Options)
}

// logTo returns a log as the command line asks for that writes to w.
func (a *app) logTo(w io.Writer) *slog.Logger {
	return newLogger(w, a.flags.Log.Level, a.flags.Log.Format)
}
