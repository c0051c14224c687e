package main

import (
	"github.com/refitd/refitd/cmd/refitd/internal/topic"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/guess"
)

type initCmd struct{ guess.Options }

func (c *initCmd) Run(a *app) error {
	c.Records = func() ([]offline.Record, error) {
		records, _, err := topic.Newest(a.ctx,
			&config.Kafka{BootstrapServers: c.BootstrapServers, ClientID: "refitd-init"}, c.Topic)
		return records, err
	}
	return guess.Init(c.Options, a.out)
}
