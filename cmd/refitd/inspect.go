package main

import (
	"errors"

	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/versions"
	"github.com/refitd/refitd/daemon/report"
)

type inspectCmd struct {
	offline.SnapshotRef

	BOM         bool   `name:"bom"          help:"Print the version's bill of materials in CycloneDX 1.6 JSON, with its model card."`
	Entity      string `placeholder:"FIELD=NAME" help:"What the version and its tables know of a name, such as item=i17."`
	StoragePath string `name:"storage.path" help:"State directory of a daemon that is stopped: print the state, not a version."      placeholder:"DIR"`
	State       bool   `                    help:"With --config.file: print the state of a daemon that is stopped, not a version."`
}

// Run prints a version, or with --state or --storage.path a state. As state inspect it prints a state unless a flag
// names a version.
func (c *inspectCmd) Run(a *app) error {
	ofVersion := c.BOM || c.Entity != "" || c.Store != "" || c.Alias != "" || c.Version != 0 || c.TrustedKeys != nil
	if a.verb == "state inspect" && !ofVersion {
		c.State = true
	}
	if c.BOM && (c.State || c.StoragePath != "") {
		return &report.ExitError{
			Code: report.ExitUsage,
			Key:  "--bom",
			Err:  errors.New("--bom is of versions: leave it out with --state and --storage.path"),
		}
	}
	if c.BOM {
		b, err := versions.BOM(c.SnapshotRef)
		if err != nil {
			return err
		}
		return a.print(string(b))
	}
	if !c.State && c.StoragePath == "" {
		return versions.InspectSnapshot(c.SnapshotRef, c.Entity, a.out)
	}
	if ofVersion {
		return &report.ExitError{Code: report.ExitUsage, Key: "--storage.path",
			Err: errors.New(
				"--store, --alias, --version, --entity and --trusted-key are for versions: " +
					"leave them out with --state and --storage.path",
			)}
	}
	state := stateFlags{ConfigFile: c.ConfigFile, StoragePath: c.StoragePath, Model: c.Model}
	if err := state.locate(); err != nil {
		return err
	}
	return offline.InspectState(a.ctx, state.StoragePath, state.Model, a.log, a.out)
}
