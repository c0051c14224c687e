package role

import (
	"context"
	"sync/atomic"

	"github.com/refitd/refitd/daemon/model/state"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/shard"
)

// turns is the leadership of a trainer that may have standbys, of which one trains at a time.
type turns struct {
	state    *state.State
	receiver *shard.Receiver
	newest   atomic.Pointer[func() (epoch, version int64)] // of the newest version there is, nil before Fence
}

// newestVersion returns the newest version that there is, zero before Fence.
func (t *turns) newestVersion() (epoch, version int64) {
	if newest := t.newest.Load(); newest != nil {
		return (*newest)()
	}
	return 0, 0
}

// Leads implements Leadership.
func (t *turns) Leads() bool { return t.receiver.Term() != nil }

// Term implements Leadership.
func (t *turns) Term() (*shard.Term, bool) { return t.receiver.Term(), true }

// Waits implements Leadership.
func (t *turns) Waits() string { return t.receiver.Waits() }

// Fence implements Leadership.
func (t *turns) Fence(p *publish.Publisher) {
	newest := p.Newest() // asked of a few small files each time that thresholds are looked at
	t.newest.Store(&newest)
	p.Fence(func() (int64, bool) {
		term := t.receiver.Term()
		if term == nil {
			return 0, false
		}
		return term.Epoch, true
	})
}

// Stand implements Leadership.
func (t *turns) Stand(ctx context.Context) error { return exitOf(t.state, t.receiver.Stand(ctx)) }
