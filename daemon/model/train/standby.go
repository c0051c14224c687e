package train

import (
	"context"

	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/model/role"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/shard"
)

// A tenure is the trainer's part in a term.
type tenure struct {
	term *shard.Term // nil on standby
	ctx  context.Context
	end  context.CancelFunc
}

// inTerm returns the context of what only the process does that trains: ctx where there is one trainer. It is done
// while another process trains, and as soon as one does.
func (t *Trainer) inTerm(ctx context.Context) context.Context {
	term, contested := t.role.Term()
	if !contested {
		return ctx
	}
	if t.tenure.ctx != nil && term == t.tenure.term {
		return t.tenure.ctx
	}
	t.leave()
	t.tenure = tenure{term: term}
	if term == nil {
		t.stepDown(ctx)
		return t.tenure.ctx
	}
	t.tenure.ctx, t.tenure.end = role.WithinTerm(ctx, term)
	t.takeOver(term)
	return t.tenure.ctx
}

// leave ends the trainer's part.
func (t *Trainer) leave() {
	if t.tenure.end != nil {
		t.tenure.end()
	}
}

// stepDown lets another process train. A refit under way is called off by its context.
func (t *Trainer) stepDown(ctx context.Context) {
	done, cancel := context.WithCancelCause(ctx)
	cancel(publish.ErrReplaced)
	t.tenure.ctx = done
	t.versions.Publisher.Watch()
	t.unpublished.refit = nil
	t.cycle.EndDeltas()
	t.versions.EndDeltas("another trainer publishes")
}

// takeOver continues from what the last process that trained has published: its champion, its numbers, and the cut
// that this state has to reach before the next version. A refit comes at once where there is more, since that one may
// have ended in the midst of one.
func (t *Trainer) takeOver(term *shard.Term) {
	t.versions.Lead(term.Epoch)
	t.refitNow.Store(t.state.Beyond(t.state.Published))
	t.metrics.Takeovers.WithLabelValues(t.state.Settings.Name).Inc()
}

// watch is called regularly by a trainer that may have standbys. On standby it follows the expiry of the champion. It
// returns shard.ErrForgotten if subjects were forgotten at another trainer: the next start removes them from the
// state.
func (t *Trainer) watch() error {
	if _, contested := t.role.Term(); !contested {
		return nil
	}
	if !t.role.Leads() {
		t.versions.Overhear()
	}
	forgotten := ingest.Forgotten{Dir: t.state.Dir, Model: t.state.Settings, Log: t.log}
	if !forgotten.Known(t.state.Store) {
		return role.ForgottenElsewhere(t.state.Dir)
	}
	return nil
}
