package main

import (
	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/operator"
)

// acceptGapCmd is accept-gap.
type acceptGapCmd struct {
	stateFlags
	Topic     string `required:"" placeholder:"NAME" help:"Topic of the partition that halted."`
	Partition int32  `required:"" placeholder:"N" help:"The partition."`
	To        int64  `placeholder:"OFFSET" help:"First offset that is not lost; by default where the log starts now, as the brokers say."`
	Why       string `placeholder:"TEXT" help:"Kept in the journal of the state."`
}

// Run declares offsets lost, so that the daemon reads on behind them.
func (c *acceptGapCmd) Run(a *app) error {
	conf, model, err := c.load()
	if err != nil {
		return err
	}
	gap := operator.Gap{Dir: conf.StatePath(model), Model: model.Name, Topic: c.Topic, Partition: c.Partition, To: c.To,
		LogStart: daemon.LogStart(conf, model, a.log), Why: c.Why, Log: a.log}
	return gap.Accept(a.ctx, a.out)
}
