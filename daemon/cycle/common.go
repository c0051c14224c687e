package cycle

import (
	"context"
	"sync"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// common is what all parts of a Cycle share. Config, target and champion change while Cycle.mu is held, config while
// Cycle.reportMu is, too. The other fields never change.
type common struct {
	mu sync.Mutex // guards the fields below; Refit and Install hold it for short times, concurrent with Observe
	// reportMu comes after mu. Writers of what is reported (losses, names, outliers, variants) hold both locks, readers
	// reportMu alone. An update holds mu while it copies a million names: a scrape does not wait for that.
	reportMu      sync.Mutex
	config        *config.Model
	schema        event.Schema
	target        *encode.Target
	tables        *tables.Set // what is known of entities now, with a separate lock; nil without tables
	now           func() time.Time
	baselineField int            // categorical field of the item mean, or -1
	entityFields  []int          // categorical fields by whose names events are new or known
	nonForgetting []bool         // NonForgettingFields
	champion      *fitted.Fitted // the last promoted refit
}

// Tables returns the rows of the model's tables, which live scores and updates are made with; nil without tables.
func (s *common) Tables() *tables.Set { return s.tables }

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
