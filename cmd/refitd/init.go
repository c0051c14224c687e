package main

import (
	"github.com/refitd/refitd/cmd/refitd/internal/topic"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/offline"
)

type initCmd struct{ offline.InitOptions }

func (c *initCmd) Run(a *app) error {
	c.Values = func() ([][]byte, error) {
		values, _, err := topic.Newest(a.ctx, &config.Kafka{BootstrapServers: c.BootstrapServers, ClientID: "refitd-init"}, c.Topic)
		return values, err
	}
	return offline.Init(c.InitOptions, a.out)
}
