package model

import (
	"context"
	"slices"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot"
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
	t.tenure.ctx, t.tenure.end = WithinTerm(ctx, term)
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
	t.versions.publisher.Watch()
	t.unpublished.refit = nil
	t.cycle.EndDeltas()
	t.versions.endDeltas("another trainer publishes")
}

// takeOver continues from what the last process that trained has published: its champion, its numbers, and the cut
// that this state has to reach before the next version. A refit comes at once where there is more, since that one may
// have ended in the midst of one.
func (t *Trainer) takeOver(term *shard.Term) {
	t.versions.lead(term.Epoch)
	t.refitNow.Store(t.state.beyond(t.state.published))
	t.metrics.takeovers.WithLabelValues(t.state.settings.Name).Inc()
}

// beyond reports whether the state has read more than a cut.
func (s *State) beyond(cut []snapshot.Cut) bool {
	next := make(map[consumer.TopicPartition]int64, len(cut))
	for _, c := range cut {
		next[consumer.TopicPartition{Topic: c.Topic, Partition: c.Partition}] = c.Next
	}
	return slices.ContainsFunc(s.store.Ledger(), func(l sketch.LedgerRow) bool {
		return l.Next > max(l.Start, next[consumer.TopicPartition{Topic: l.Topic, Partition: l.Partition}])
	})
}

// watch is called regularly by a trainer that may have standbys. On standby it follows the expiry of the champion. It
// returns shard.ErrForgotten if subjects were forgotten at another trainer: the next start removes them from the
// state.
func (t *Trainer) watch() error {
	if _, contested := t.role.Term(); !contested {
		return nil
	}
	if !t.role.Leads() {
		t.versions.overhear()
	}
	forgotten := ingest.Forgotten{Dir: t.state.dir, Model: t.state.settings, Log: t.log}
	if !forgotten.Known(t.state.store) {
		return ForgottenElsewhere(t.state.dir)
	}
	return nil
}

// overhear notes until when consumers may use the champion, as the process says that renews it.
func (v *Versions) overhear() {
	store, serving := v.Store(), v.serving.Load()
	if store == nil || serving == nil {
		return
	}
	pointer, err := store.Alias(v.settings.Name, publish.Champion)
	if err != nil || pointer.Version != serving.version.Version || pointer.Renewal.Renewed.IsZero() {
		return
	}
	v.standsUntil(pointer.Renewal.Expires)
	v.metrics.renew(v.settings.Name, pointer.Renewal.Renewed, pointer.Renewal.Expires)
}
