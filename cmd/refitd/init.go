package main

import (
	"github.com/refitd/refitd/cmd/refitd/internal/topic"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/offline"
)

type initCmd struct{ offline.InitOptions }

func (c *initCmd) Run(a *app) error {
	c.Records = func() ([]offline.Record, error) {
		records, _, err := topic.Newest(a.ctx, &config.Kafka{BootstrapServers: c.BootstrapServers, ClientID: "refitd-init"}, c.Topic)
		return records, err
	}
	return offline.Init(c.InitOptions, a.out)
}
