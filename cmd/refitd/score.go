package main

import (
	"os"

	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
)

type scoreCmd struct {
	offline.SnapshotRef

	Input string `default:"-" placeholder:"FILE" help:"JSON Lines events, without labels or with; - is standard input."`
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
	return offline.Score(a.ctx, c.SnapshotRef, in, a.out)
}
