package main

import (
	"fmt"
	"time"

	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
)

// aliasesCmd is aliases.
type aliasesCmd struct {
	Store string `required:"" placeholder:"DIR" help:"Directory of the snapshots."`
	Model string `required:"" placeholder:"NAME" help:"Model."`
}

// Run lists the aliases.
func (c *aliasesCmd) Run(a *app) error { return offline.Aliases(c.Store, c.Model, a.out) }

// moveFlags say which alias is moved.
type moveFlags struct {
	Store      string `required:"" placeholder:"DIR" help:"Directory of the snapshots."`
	Model      string `required:"" placeholder:"NAME" help:"Model."`
	Alias      string `placeholder:"champion" help:"Alias to move; champion by default."`
	Why        string `placeholder:"TEXT" help:"Reason, for the publish log."`
	SigningKey string `placeholder:"FILE" help:"Key that signs the alias: the one of publish.signing_key_file, where consumers ask for signatures."`
}

func (f *moveFlags) options(version int64) offline.MoveOptions {
	return offline.MoveOptions{Store: f.Store, Model: f.Model, Alias: f.Alias, Version: version, Why: f.Why, SigningKey: f.SigningKey, Now: time.Now}
}

// promoteCmd is promote.
type promoteCmd struct {
	moveFlags

	Version int64 `placeholder:"N" help:"Version; the latest by default."`
}

// Run moves the alias.
func (c *promoteCmd) Run(a *app) error { return offline.Promote(a.ctx, c.options(c.Version), a.out) }

// rollbackCmd is rollback.
type rollbackCmd struct {
	moveFlags

	Version int64 `placeholder:"N" help:"Version; by default the newest that the alias named before the refit it stands on now."`
}

// Run moves the alias back.
func (c *rollbackCmd) Run(a *app) error { return offline.Rollback(a.ctx, c.options(c.Version), a.out) }

// logCmd is log.
type logCmd struct {
	Store string `required:"" placeholder:"DIR" help:"Directory of the snapshots."`
	Model string `required:"" placeholder:"NAME" help:"Model."`
	At    string `placeholder:"TIME" help:"Print what was live at a time, as 2026-01-02T15:04:05Z, instead of the log."`
}

// Run prints the publish log.
func (c *logCmd) Run(a *app) error {
	var at time.Time
	if c.At != "" {
		var err error
		if at, err = time.Parse(time.RFC3339, c.At); err != nil {
			return &report.ExitError{Code: report.ExitUsage, Key: "--at", Err: fmt.Errorf("--at %q: want a time as 2026-01-02T15:04:05Z: %w", c.At, err)}
		}
	}
	return offline.Log(c.Store, c.Model, at, a.out)
}
