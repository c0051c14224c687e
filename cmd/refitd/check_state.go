package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/refitd/refitd/cmd/refitd/internal/state"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// checkStateCmd is check-state: what run and verify start as a child process, because damage may end the process that
// finds it.
type checkStateCmd struct {
	Dir string `arg:"" help:"State directory of one model."`
}

func (c *checkStateCmd) Run(a *app) error {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(report.ExitState) // the process that asked has ended, and the next one wants the state
	}()
	reported := time.Time{}
	ctx := sketch.WithProgress(a.ctx, func(unit string, done, total int64) {
		if now := time.Now(); now.Sub(reported) >= 200*time.Millisecond {
			reported = now
			_, _ = a.stdout.Write(state.ProgressLine(unit, done, total)) // the end says that nobody listens
		}
	})
	if err := state.Check(ctx, c.Dir, a.log); err != nil {
		return err
	}
	return a.out.Emit("summary", report.Empty{})
}

// checkState runs this program's check-state on a state directory.
func checkState(ctx context.Context, dir string) error { return checkStateShown(ctx, dir, nil) }

// checkStateShown is checkState that reports to progress, if not nil, how far it is.
func checkStateShown(ctx context.Context, dir string, progress sketch.Progress) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p := state.Process{
		Path:     self,
		Args:     []string{os.Args[0], "--json", "--log.level=error", "check-state"},
		Progress: progress,
	}
	return p.Check(ctx, dir)
}
