package main

import (
	"time"

	"github.com/refitd/refitd/daemon/offline"
)

type pruneCmd struct{ offline.PruneOptions }

func (c *pruneCmd) Run(a *app) error {
	c.Now = time.Now
	return offline.Prune(a.ctx, c.PruneOptions, a.out)
}

type keysCmd struct {
	New keysNewCmd `cmd:"" help:"Make a key pair for signing versions."`
}

type keysNewCmd struct {
	Out string `required:"" placeholder:"DIR" help:"Directory for the two files, <id>.key and <id>.pub."`
}

func (c *keysNewCmd) Run(a *app) error { return offline.NewKeys(c.Out, a.out) }
