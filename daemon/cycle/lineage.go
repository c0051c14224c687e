package cycle

import (
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/solver"
)

// lineage has what is known of the refits since the champion. It is guarded by Cycle.mu; rejections also by
// Cycle.reportMu.
type lineage struct {
	*common

	rejections int
	failedFrom *solver.Model    // of the champion that a refit continued from and failed; nil without
	fallback   *task.Fallback   // nil unless there was a champion that cannot be read
	known      updates.Frontier // by refits and events, where these are forwarded
}
