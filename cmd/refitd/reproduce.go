package main

import (
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/versions"
)

type reproduceCmd struct {
	offline.SnapshotRef

	Threads int `placeholder:"N" help:"Threads; by default one for each processor. The result does not depend on it."`
}

func (c *reproduceCmd) Run(a *app) error {
	return versions.Reproduce(a.ctx, c.SnapshotRef, c.Threads, a.out)
}
