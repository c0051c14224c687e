package main

import (
	"github.com/refitd/refitd/cmd/refitd/internal/state"
)

type acceptGapCmd struct {
	stateFlags
	Topic     string `required:"" placeholder:"NAME" help:"Topic of the partition that halted."`
	Partition *int32 `xor:"what" required:"" placeholder:"N" help:"The partition."`
	Recreated bool   `xor:"what" required:"" help:"The topic was deleted and made anew: read all partitions of the new one from their beginning."`
	To        int64  `placeholder:"OFFSET" help:"First offset that is not lost; by default where the log starts now, as the brokers say."`
	Why       string `placeholder:"TEXT" help:"Kept in the journal of the state."`
}

// Run declares offsets lost, so that the daemon reads on behind them, or the topic another one.
func (c *acceptGapCmd) Run(a *app) error {
	conf, model, err := c.load()
	if err != nil {
		return err
	}
	gap := state.Gap{Dir: conf.StatePath(model), Model: model.Name, Topic: c.Topic, To: c.To,
		LogStarts: state.LogStarts(conf, model, a.log), Why: c.Why, Log: a.log}
	if c.Recreated {
		return gap.AcceptRecreated(a.ctx, a.out)
	}
	gap.Partition = *c.Partition
	return gap.Accept(a.ctx, a.out)
}
