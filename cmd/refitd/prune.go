package main

import (
	"time"

	"github.com/refitd/refitd/daemon/offline"
)

// pruneCmd is prune.
type pruneCmd struct {
	Store  string        `required:"" placeholder:"DIR" help:"Directory of the snapshots."`
	Model  string        `required:"" placeholder:"NAME" help:"Model."`
	Keep   int           `default:"20" help:"Refits kept, and updates; versions with an alias always are."`
	MaxAge time.Duration `placeholder:"D" help:"Versions created longer ago go too, as 720h."`
	DryRun bool          `help:"Remove nothing, say what would be removed."`
}

// Run removes old versions.
func (c *pruneCmd) Run(a *app) error {
	return offline.Prune(a.ctx, offline.PruneOptions{Store: c.Store, Model: c.Model, Keep: c.Keep, MaxAge: c.MaxAge, DryRun: c.DryRun, Now: time.Now}, a.out)
}

// keysCmd groups keys new.
type keysCmd struct {
	New keysNewCmd `cmd:"" help:"Make a key pair for signing versions."`
}

// keysNewCmd is keys new.
type keysNewCmd struct {
	Out string `required:"" placeholder:"DIR" help:"Directory for the two files, <id>.key and <id>.pub."`
}

// Run makes the keys.
func (c *keysNewCmd) Run(a *app) error { return offline.NewKeys(c.Out, a.out) }
