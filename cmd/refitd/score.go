package main

import (
	"os"

	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/evaluate"
	"github.com/refitd/refitd/daemon/report"
)

type scoreCmd struct {
	offline.SnapshotRef

	evaluate.ScoreOptions
	Input   string `default:"-" aliases:"data" placeholder:"FILE" help:"Events, with labels or without; - is standard input. Also --data."`
	History string `                           placeholder:"FILE" help:"JSON Lines events with labels, oldest first, of the entities that are asked about: they are folded in."`
	Held    int    `                           placeholder:"N"    help:"How many events of --history, the first, the version has learned from: they are not learned again."     name:"history-held"`
}

func (c *scoreCmd) Run(a *app) error {
	in := a.stdin
	if c.Input != "-" {
		f, err := os.Open(c.Input)
		if err != nil {
			return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--input", Path: c.Input}
		}
		defer f.Close()
		in = f
	}
	o := c.ScoreOptions
	o.Path = c.Input
	if c.History != "" {
		f, err := os.Open(c.History)
		if err != nil {
			return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--history", Path: c.History}
		}
		defer f.Close()
		o.History, o.HistoryPath, o.HistoryHeld = f, c.History, c.Held
	}
	return evaluate.Score(a.ctx, c.SnapshotRef, o, in, a.out)
}
