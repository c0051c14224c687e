package model

import (
	"context"
	"slices"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/format"
)

// hasStandby reports whether there may be other trainers of the model, of which one trains.
func (t *team) hasStandby() bool { return t.merges() && t.settings.Standby > 0 }

// leads reports whether this process is the one that trains and publishes, which every model is that has no standby.
func (t *team) leads() bool { return !t.hasStandby() || t.receiver.Term() != nil }

// waits says who trains while this process is on standby, or "".
func (t *team) waits() string {
	if !t.hasStandby() {
		return ""
	}
	return t.receiver.Waits()
}

// onTerm has the trainer look whether it is its turn.
func (t *team) onTerm() {
	if t.hasStandby() {
		t.reader.onStored()
	}
}

// guard has nothing published but in a term.
func (t *team) guard(p *publish.Publisher) {
	if !t.hasStandby() {
		return
	}
	t.newest = p.Newest() // asked of a few small files each time that thresholds are looked at
	p.Fence(func() (int64, bool) {
		term := t.receiver.Term()
		if term == nil {
			return 0, false
		}
		return term.Epoch, true
	})
}

// stand takes part in the decision who trains until ctx is done. The error carries its exit code.
func (t *team) stand(ctx context.Context) error {
	if !t.hasStandby() {
		return nil
	}
	return t.exit(t.receiver.Stand(ctx))
}

// whileLeading runs what only the process does that trains, again and again in each of its terms, until ctx is done.
func (t *team) whileLeading(ctx context.Context, run func(ctx context.Context)) {
	if !t.hasStandby() {
		run(ctx)
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		if term := t.receiver.Term(); term != nil {
			termCtx, cancel := withinTerm(ctx, term)
			run(termCtx)
			cancel()
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// withinTerm returns ctx, done with publish.ErrReplaced as its cause once a term is over.
func withinTerm(ctx context.Context, term *shard.Term) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-term.Over():
			cancel(publish.ErrReplaced)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// A tenure is the trainer's part in a term.
type tenure struct {
	term *shard.Term // nil on standby
	ctx  context.Context
	end  context.CancelFunc
}

// inTerm returns the context of what only the process does that trains: ctx where there is one trainer. It is done
// while another process trains, and as soon as one does.
func (t *Trainer) inTerm(ctx context.Context) context.Context {
	team := t.reader.team
	if !team.hasStandby() {
		return ctx
	}
	term := team.receiver.Term()
	if t.tenure.ctx != nil && term == t.tenure.term {
		return t.tenure.ctx
	}
	t.leave()
	t.tenure = tenure{term: term}
	if term == nil {
		t.stepDown(ctx)
		return t.tenure.ctx
	}
	t.tenure.ctx, t.tenure.end = withinTerm(ctx, term)
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
	t.unpublished = nil
	t.cycle.EndDeltas()
	t.versions.endDeltas("another trainer publishes")
}

// takeOver continues from what the last process that trained has published: its champion, its numbers, and the cut
// that this state has to reach before the next version. A refit comes at once where there is more, since that one may
// have ended in the midst of one.
func (t *Trainer) takeOver(term *shard.Term) {
	v := t.versions
	v.publisher.Lead(term.Epoch)
	v.follow()
	v.renewed = time.Time{}
	t.state.compareWith(v.Store())
	t.refitNow.Store(t.state.beyond(t.state.published))
	t.metrics.takeovers.WithLabelValues(t.state.settings.Name).Inc()
}

// beyond reports whether the state has read more than a cut.
func (s *State) beyond(cut []format.Cut) bool {
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
	team := t.reader.team
	if !team.hasStandby() {
		return nil
	}
	if !team.leads() {
		t.versions.overhear()
	}
	forgotten := ingest.Forgotten{Dir: t.state.dir, Model: t.state.settings, Log: t.log}
	if !forgotten.Known(t.state.store) {
		return team.exit(shard.ErrForgotten)
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
