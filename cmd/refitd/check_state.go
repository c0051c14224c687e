package main

import (
	"context"
	"io"
	"os"

	"github.com/refitd/refitd/cmd/refitd/internal/state"
	"github.com/refitd/refitd/daemon/report"
)

// checkStateCmd is check-state: what run and verify start as a process of its own, because damage may end the process that finds it.
type checkStateCmd struct {
	Dir string `arg:"" help:"State directory of one model."`
}

func (c *checkStateCmd) Run(a *app) error {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(report.ExitState) // the process that asked has ended, and the next one wants the state
	}()
	if err := state.Check(a.ctx, c.Dir, a.log); err != nil {
		return err
	}
	return a.out.Emit("summary", report.Empty{})
}

// checkState runs this program's check-state on a state directory.
func checkState(ctx context.Context, dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p := state.Process{Path: self, Args: []string{os.Args[0], "--json", "--log.level=error", "check-state"}}
	return p.Check(ctx, dir)
}
