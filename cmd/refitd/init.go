package main

import (
	"github.com/refitd/refitd/cmd/refitd/internal/topic"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/offline/guess"
)

type initCmd struct {
	guess.Options
	Schemas registryFlags `embed:""`
}

func (c *initCmd) Run(a *app) error {
	var err error
	if c.Registry, err = c.Schemas.settings(); err != nil {
		return err
	}
	file, err := schemaFile(c.SchemaFile)
	if err != nil {
		return err
	}
	look := func(name *string) func() (*guess.Sample, error) {
		return func() (*guess.Sample, error) {
			k := config.Kafka{BootstrapServers: c.BootstrapServers, ClientID: "refitd-init", SchemaRegistry: c.Registry}
			return topic.Look(a.ctx, &k, *name, file)
		}
	}
	c.Look, c.LookOutcomes = look(&c.Topic), look(&c.OutcomesTopic)
	return guess.Init(c.Options, a.out)
}
