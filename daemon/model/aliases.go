package model

import (
	"github.com/refitd/refitd/daemon/model/metrics"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/model/role"
)

// What callers of this package need of its rooms.
type (
	// Metrics count what the models do: metrics.New registers them.
	Metrics = metrics.Metrics
	// Options of a model.
	Options = part.Options
	// A Sibling is a model of the same daemon.
	Sibling = part.Sibling
	// A MovedError says that another process has been the shard since this state was made.
	MovedError = role.MovedError
)
