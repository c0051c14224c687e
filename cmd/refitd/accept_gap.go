package main

import (
	"errors"

	"github.com/refitd/refitd/cmd/refitd/internal/state"
	"github.com/refitd/refitd/daemon/report"
)

type acceptGapCmd struct {
	stateFlags
	Topic     string `required:"" placeholder:"NAME"   help:"Topic of the partition that halted."`
	Partition *int32 `required:"" placeholder:"N"      help:"The partition."                                                                                                                  xor:"what"`
	Recreated bool   `required:""                      help:"The topic was deleted and made anew: read all partitions of the new one from their beginning."                                   xor:"what"`
	To        int64  `            placeholder:"OFFSET" help:"First offset that is not lost; by default where the log starts now, as the brokers say."`
	Undo      bool   `                                 help:"Take the last acceptance of the partition, or with --recreated of the topic, back. The next start of the daemon makes it final."`
	Why       string `            placeholder:"TEXT"   help:"Kept in the journal of the state."`
}

// Run declares offsets lost, so that the daemon reads on behind them, or the topic another one.
func (c *acceptGapCmd) Run(a *app) error {
	conf, model, err := c.loadForBroker()
	if err != nil {
		return err
	}
	if c.To != 0 && (c.Undo || c.Recreated) {
		return &report.ExitError{Code: report.ExitUsage, Key: "--to",
			Err: errors.New(
				"state accept-gap: --to names the end of one gap: leave it out with --undo and --recreated")}
	}
	gap := state.Gap{Dir: conf.StatePath(model), Model: model.Name, Topic: c.Topic, Recreated: c.Recreated, To: c.To,
		LogStarts: state.LogStarts(conf, model,
			a.log), LogEnds: state.LogEnds(conf, model, a.log), Why: c.Why, Log: a.log}
	if c.Partition != nil {
		gap.Partition = *c.Partition
	}
	switch {
	case c.Undo:
		return gap.Undo(a.ctx, a.out)
	case c.Recreated:
		return gap.AcceptRecreated(a.ctx, a.out)
	}
	return gap.Accept(a.ctx, a.out)
}
