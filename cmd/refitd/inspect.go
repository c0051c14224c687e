package main

import (
	"errors"

	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
)

type inspectCmd struct {
	StoragePath string `name:"storage.path" required:"" xor:"place" placeholder:"DIR" help:"State directory (storage.path) of a daemon that is stopped."`
	Store       string `required:"" xor:"place" placeholder:"DIR" help:"Directory of the snapshots."`
	Model       string `required:"" placeholder:"NAME" help:"Model."`
	Alias       string `xor:"version" placeholder:"champion" help:"With --store: version that this alias names; champion by default."`
	Version     int64  `xor:"version" placeholder:"N" help:"With --store: version by its number."`

	offline.Trust
}

func (c *inspectCmd) Run(a *app) error {
	if c.Store != "" {
		ref := offline.SnapshotRef{Store: c.Store, Model: c.Model, Alias: c.Alias, Version: c.Version, Trust: c.Trust}
		return offline.InspectSnapshot(ref, a.out)
	}
	if c.Alias != "" || c.Version != 0 || c.TrustedKeys != nil {
		return &report.ExitError{Code: report.ExitUsage, Key: "--storage.path",
			Err: errors.New("--alias, --version and --trusted-key go with --store, not with --storage.path")}
	}
	return offline.InspectState(a.ctx, c.StoragePath, c.Model, a.log, a.out)
}
