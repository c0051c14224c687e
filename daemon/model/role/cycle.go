package role

import (
	"fmt"
	"runtime"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/model/state"
	"github.com/refitd/refitd/daemon/report"
)

// NewCycle returns the learning of a model, with the progressive sums of its state.
func NewCycle(m *config.Model, state *state.State) (*cycle.Cycle, error) {
	c, err := cycle.New(m, time.Now)
	if err != nil {
		return nil, report.Exit(report.ExitUsage, err)
	}
	c.Workers = m.Train.Threads
	if c.Workers == 0 {
		c.Workers = max(1, runtime.GOMAXPROCS(0)-1) // reading continues while a refit runs
	}
	c.Stored = func() updates.Stored { return ingest.Stored(state.Settings, state.Store) }
	if err := ingest.LoadTables(m, state.Store, c.Tables()); err != nil {
		return nil, ingest.StateError(err, state.Dir)
	}
	sums := state.Store.Aux()
	if c.Forwarded = learnsLive(m) && m.Shard.IsTrainer(); c.Forwarded {
		kept, err := readSums(sums)
		if err != nil {
			return nil, ingest.StateError(err, state.Dir)
		}
		sums = kept.Sums
	}
	if err := c.Restore(sums); err != nil {
		return nil, ingest.StateError(fmt.Errorf("model: progressive sums: %w", err), state.Dir)
	}
	return c, nil
}
