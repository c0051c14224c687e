package main

import (
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/versions"
)

type diffCmd struct {
	offline.Versions

	A string `arg:"" placeholder:"A" help:"Version or alias."`
	B string `arg:"" placeholder:"B" help:"Version or alias to compare it with."`

	offline.Trust
}

func (c *diffCmd) Run(a *app) error {
	return versions.Diff(offline.SnapshotRef{Versions: c.Versions, Trust: c.Trust}, c.A, c.B, a.out)
}
