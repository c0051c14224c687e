package main

import (
	"time"

	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
)

// snapshotFlags name a version in a store.
type snapshotFlags struct {
	Store   string `required:"" placeholder:"DIR" help:"Directory of the snapshots."`
	Model   string `required:"" placeholder:"NAME" help:"Model."`
	Alias   string `xor:"version" placeholder:"champion" help:"Version that this alias names; champion by default."`
	Version int64  `xor:"version" placeholder:"N" help:"Version by its number."`

	trustFlags
}

// trustFlags say whose signatures a version has to have.
type trustFlags struct {
	TrustedKey []string `sep:"none" placeholder:"FILE" help:"Refuse what is not signed by the key in this file (.pub of keys new). Repeatable: one of them is enough."`
}

func (f *snapshotFlags) ref() offline.SnapshotRef {
	return offline.SnapshotRef{Store: f.Store, Model: f.Model, Alias: f.Alias, Version: f.Version, TrustedKeys: f.TrustedKey}
}

// evalCmd is eval.
type evalCmd struct {
	snapshotFlags

	Data    string                `required:"" placeholder:"FILE" help:"Labelled events; gzip is detected."`
	Format  dataset.Format        `required:"" enum:"movielens,jsonl,libsvm" help:"Format of the file: movielens, jsonl or libsvm."`
	Group   string                `placeholder:"user" help:"Field that rankings are made for."`
	Require []offline.Requirement `sep:"none" placeholder:"rmse<=0.95" help:"Bound on a metric (n, loss, rmse, mae, accuracy, ndcg_1, ndcg_5) by <=, >=, < or >; a missed one is exit code 1. Repeatable."`
}

// Run prints the summary.
func (c *evalCmd) Run(a *app) error {
	return offline.Eval(offline.EvalOptions{Snapshot: c.ref(), Data: c.Data, Format: c.Format, Group: c.Group, Require: c.Require, Now: time.Now}, a.out)
}
