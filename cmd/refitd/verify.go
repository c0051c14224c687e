package main

import (
	"context"

	"github.com/refitd/refitd/cmd/refitd/internal/verify"
	"github.com/refitd/refitd/daemon/report"
)

type verifyCmd struct {
	stateFlags
	Offline bool `help:"Check the state directory alone, without the brokers."`
}

// Run prints one line for each partition and the verdict. Anything but a proof is exit code 1.
func (c *verifyCmd) Run(a *app) error {
	load := c.loadForBroker
	if c.Offline {
		load = c.load
	}
	conf, model, err := load()
	if err != nil {
		return err
	}
	o := verify.Options{Model: model, Dir: conf.StatePath(model), Kafka: &conf.Kafka, Log: a.log}
	if c.Offline {
		o.Kafka = nil
	}
	o.Progress = a.progress("verify")
	defer o.Progress.Stop()
	o.CheckState = func(ctx context.Context, dir string) error { return checkStateShown(ctx, dir, o.Progress.Pass) }
	result, err := verify.Run(a.ctx, o)
	if err != nil {
		return err
	}
	for _, p := range result.Partitions {
		if err := a.out.Emit("partition", p); err != nil {
			return err
		}
	}
	if err := a.out.Emit("summary", result.Summary); err != nil {
		return err
	}
	if !result.Summary.OK {
		return &report.ExitError{Code: report.ExitNo, Reported: true}
	}
	return nil
}
