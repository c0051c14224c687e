package cycle

import (
	"context"
	"time"

	"github.com/refitd/refitd/daemon/cycle/updates"
)

// Options are what a caller may set before the first use of a Cycle.
type Options struct {
	// Workers is the number of goroutines of a refit; 0 takes GOMAXPROCS. Results do not depend on it. Set it before
	// use.
	Workers int
	// Cold starts every refit from nothing, not from the live model: what warm starts are measured against. Set it
	// before use.
	Cold bool
	// Throttle, if not nil, returns what a refit calls between its blocks, as solver.Settings.Yield, given its context
	// and time budget, 0 for none. Set it before use.
	Throttle func(ctx context.Context, budget time.Duration) (yield func())
	// Forwarded says that events come from the processes that read them, and may be in a refit before they come: Reach
	// and Known. Set it before use.
	Forwarded bool
	// Stored, if not nil, returns what of the events that were observed is stored, which updates say that they hold;
	// else they say what the refit does. Set it before use.
	Stored func() updates.Stored
}
