package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/refitd/refitd/daemon/report"
)

// giveUpAfter is how long a verb may take to end after a signal: below the 5 s that are promised.
const giveUpAfter = 4 * time.Second

// longEnding are the verbs that a signal asks to write down what they know, however long their disks take. A second
// signal ends these, too.
var longEnding = []string{"run", "quickstart"}

// untilSignal runs a verb. One that does not end within giveUpAfter of a signal, such as one that waits for a pipe or a
// file system, is left behind: everything that verbs write survives a kill.
func untilSignal(ctx context.Context, verb string, run func() error) error {
	if slices.Contains(longEnding, verb) {
		return run()
	}
	done := make(chan error, 1)
	go func() { done <- run() }()
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(giveUpAfter, func() { close(late) }) })
	defer stop()
	select {
	case err := <-done:
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return report.Exitf(report.ExitNo, "%s: stopped by a signal before it was done: %w", verb, err)
		}
		return err
	case <-late:
		return report.Exitf(report.ExitNo, "%s: stopped by a signal before it was done; it did not end within %v",
			verb, giveUpAfter)
	}
}
