package cycle

import (
	"sync/atomic"

	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/guard"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// publisher has what consumers have now, and decides what they get next: updates, their variants, their deltas, and the
// guard of these. It is guarded by Cycle.mu.
type publisher struct {
	*common

	// the champion or an update of it: one value that never changes; only the holder of mu stores another
	published  atomic.Pointer[updates.Served]
	deltas     *updates.DeltaStream   // the newest update; nil without
	pending    *updates.Update        // of the live model, being made; nil without
	live       *updates.LiveCopy      // for Live; nil without
	liveAdded  *fitted.PopularWeights // what the last copy for Live adds to what was learned; nil for none
	frontier   updates.Frontier       // by events, while there are deltas
	comparison updates.UpdateComparison
	updates    bool        // consumers should have updates, by comparison
	guard      guard.Guard // of updates against their refit
	// a chain of deltas ended because it was worse than its refit: consumers get that again
	chainEnded bool
	heldBack   []guard.HeldBack        // that nobody has taken
	race       updates.VariantSelector // of what updates are made of
	rankings   *updates.Rankings       // the same
	behind     updates.Behind
	sumFollows bool // deltas bring the factors of a sum: its rows are few
}
