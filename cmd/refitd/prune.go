package main

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/refitd/refitd/cmd/refitd/internal/state"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
)

type pruneCmd struct {
	offline.PruneOptions
	State       bool   `help:"Remove, in place of versions, what restores, rebuilds and backups have left beside the state: replaced states, unfinished files."`
	ConfigFile  string `name:"config.file" placeholder:"FILE" help:"With --state: configuration file of the daemon."`
	StoragePath string `name:"storage.path" placeholder:"DIR" help:"With --state: state directory, in place of the file or of its storage.path."`
}

func (c *pruneCmd) Run(a *app) error {
	if c.State {
		return c.leftovers(a)
	}
	if c.Store == "" || c.Model == "" || c.ConfigFile != "" || c.StoragePath != "" {
		return &report.ExitError{Code: report.ExitUsage, Key: "--store",
			Err: errors.New("prune: want --store and --model, or --state with --config.file")}
	}
	c.Now = time.Now
	return offline.Prune(a.ctx, c.PruneOptions, a.out)
}

// leftovers is prune --state.
func (c *pruneCmd) leftovers(a *app) error {
	dir, model := filepath.Join(c.StoragePath, c.Model), c.Model
	switch {
	case c.Store != "" || c.MaxAge != 0:
		return &report.ExitError{Code: report.ExitUsage, Key: "--state",
			Err: errors.New("prune: --store and --max-age are for versions: leave them out with --state")}
	case c.ConfigFile != "":
		flags := stateFlags{ConfigFile: c.ConfigFile, StoragePath: c.StoragePath, Model: c.Model}
		conf, m, err := flags.load()
		if err != nil {
			return err
		}
		dir, model = conf.StatePath(m), m.Name
	case c.StoragePath == "" || c.Model == "":
		return &report.ExitError{Code: report.ExitUsage, Key: "--config.file",
			Err: errors.New("prune: --state needs --config.file, or --storage.path and --model")}
	}
	return state.Prune(dir, model, c.DryRun, a.log, a.out)
}

type keysCmd struct {
	New keysNewCmd `cmd:"" help:"Make a key pair for signing versions."`
}

type keysNewCmd struct {
	Out string `required:"" placeholder:"DIR" help:"Directory for the two files, <id>.key and <id>.pub."`
}

func (c *keysNewCmd) Run(a *app) error { return offline.NewKeys(c.Out, a.out) }
