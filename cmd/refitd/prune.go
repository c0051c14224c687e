package main

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/refitd/refitd/cmd/refitd/internal/state"
	"github.com/refitd/refitd/daemon/offline/versions"
	"github.com/refitd/refitd/daemon/report"
)

type pruneCmd struct {
	versions.PruneOptions
	State       bool   `help:"Remove, in place of versions, what restores, rebuilds and backups have left of states: replaced states, unfinished files."`
	StoragePath string `help:"With --state: state directory, in place of the file or of its storage.path."                                               name:"storage.path" placeholder:"DIR"`
}

func (c *pruneCmd) Run(a *app) error {
	if c.State {
		return c.leftovers(a)
	}
	if c.StoragePath != "" {
		return &report.ExitError{
			Code: report.ExitUsage,
			Key:  "--storage.path",
			Err:  errors.New("versions prune: --storage.path is for --state"),
		}
	}
	c.Now = time.Now
	return versions.Prune(a.ctx, c.PruneOptions, a.out)
}

// leftovers is versions prune --state.
func (c *pruneCmd) leftovers(a *app) error {
	if c.Store != "" || c.MaxAge != 0 {
		return &report.ExitError{Code: report.ExitUsage, Key: "--state",
			Err: errors.New("versions prune: --store and --max-age are for versions: leave them out with --state")}
	}
	flags := stateFlags{ConfigFile: c.ConfigFile, StoragePath: c.StoragePath, Model: c.Model}
	if err := flags.locate(); err != nil {
		return err
	}
	return state.Prune(filepath.Join(flags.StoragePath, flags.Model), flags.Model, c.DryRun, a.log, a.out)
}

type keysCmd struct {
	New keysNewCmd `cmd:"" help:"Make a key pair for signing versions."`
}

type keysNewCmd struct {
	Out string `required:"" placeholder:"DIR" help:"Directory for the two files, <id>.key and <id>.pub."`
}

func (c *keysNewCmd) Run(a *app) error { return versions.NewKeys(c.Out, a.out) }
