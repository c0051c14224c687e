package main

import (
	"time"

	"github.com/refitd/refitd/cmd/refitd/internal/quickstart"
)

// quickstartCmd is quickstart.
type quickstartCmd struct {
	For        time.Duration `help:"End after this long; until a signal if not given."`
	Dir        string        `placeholder:"DIR" help:"Directory for broker, state and snapshots; a new temporary one if not given."`
	Seed       uint64        `default:"1" help:"Seed of the generated stream."`
	Rate       float64       `default:"2000" help:"Events per second."`
	BrokerOnly bool          `help:"Start the broker alone and keep its topics in --dir."`
	Listen     string        `default:"127.0.0.1:0" help:"Address of the broker; port 0 takes a free one."`
}

// Run shows refitd on a generated stream.
func (c *quickstartCmd) Run(a *app) error {
	return quickstart.Run(a.ctx, quickstart.Options{For: c.For, Dir: c.Dir, Seed: c.Seed, Rate: c.Rate, BrokerOnly: c.BrokerOnly,
		Listen: c.Listen, Out: a.out, Text: a.stdout, Log: a.log})
}
