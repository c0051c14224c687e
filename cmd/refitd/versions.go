package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/versions"
	"github.com/refitd/refitd/daemon/report"
)

// versionsCmd are the verbs that work on the published versions of a model.
type versionsCmd struct {
	List      listCmd      `cmd:"" help:"List the published versions of a model."`
	Alias     aliasesCmd   `cmd:"" help:"List the aliases of a model."`
	Promote   promoteCmd   `cmd:"" help:"Move champion, or another alias, to a version."`
	Rollback  rollbackCmd  `cmd:"" help:"Move champion, or another alias, back to what it named before."`
	LogCmd    logCmd       `cmd:"" help:"Print the publish log of a model, or what was live at a time."        name:"log"`
	Diff      diffCmd      `cmd:"" help:"Say what changed between two published versions."`
	Reproduce reproduceCmd `cmd:"" help:"Rebuild a published version from its kept sample and compare."`
	Export    exportCmd    `cmd:"" help:"Write a published version or a sample in a format of other programs."`
	Prune     pruneCmd     `cmd:"" help:"Remove old versions."`
}

type listCmd struct{ offline.Versions }

func (c *listCmd) Run(a *app) error { return versions.List(c.Versions, a.out) }

type aliasesCmd struct{ versions.AliasesOptions }

func (c *aliasesCmd) Run(a *app) error {
	c.Now = time.Now
	return versions.Aliases(a.ctx, c.AliasesOptions, a.out)
}

// versionNumber is the number of a version. 0, which an empty variable gives, is refused and not taken for the default.
type versionNumber int64

func (v *versionNumber) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is no version: they are numbered from 1", text)
	}
	*v = versionNumber(n)
	return nil
}

type promoteCmd struct {
	versions.MoveOptions

	Version versionNumber `placeholder:"N" help:"Version; the latest by default."`
}

func (c *promoteCmd) Run(a *app) error {
	c.MoveOptions.Version, c.Now = int64(c.Version), time.Now
	return versions.Promote(a.ctx, c.MoveOptions, a.out)
}

type rollbackCmd struct {
	versions.MoveOptions

	Version versionNumber `placeholder:"N" help:"Version; by default the newest that the alias named before its current refit."`
}

func (c *rollbackCmd) Run(a *app) error {
	c.MoveOptions.Version, c.Now = int64(c.Version), time.Now
	return versions.Rollback(a.ctx, c.MoveOptions, a.out)
}

type logCmd struct {
	offline.Versions

	At string `placeholder:"TIME" help:"Print what was live at a time, as 2026-01-02T15:04:05Z, instead of the log."`
}

func (c *logCmd) Run(a *app) error {
	var at time.Time
	if c.At != "" {
		var err error
		if at, err = time.Parse(time.RFC3339, c.At); err != nil {
			return &report.ExitError{
				Code: report.ExitUsage,
				Key:  "--at",
				Err:  fmt.Errorf("--at %q is no time such as 2026-01-02T15:04:05Z", c.At),
			}
		}
	}
	return versions.Log(c.Versions, at, a.out)
}
