package cycle

import (
	"sync"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
)

// common is what all parts of a Cycle share. Config, target and champion change while Cycle.mu is held, config while
// Cycle.reportMu is, too. The other fields never change.
type common struct {
	mu sync.Mutex // guards what follows; Refit and Install take it for short whiles beside Observe
	// reportMu is taken after mu by who changes what is told of losses, names, outliers and forms, and alone by who
	// tells it: an update that is made holds mu for as long as it copies a million names, and whoever scrapes metrics
	// does not wait for it.
	reportMu      sync.Mutex
	config        *config.Model
	schema        event.Schema
	target        *encode.Target
	now           func() time.Time
	baselineField int            // categorical field of the item mean, or -1
	entityFields  []int          // categorical fields by whose names events are new or known
	nonForgetting []bool         // NonForgettingFields
	champion      *fitted.Fitted // the last promoted refit
}
