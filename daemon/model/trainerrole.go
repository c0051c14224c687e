package model

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/cluster"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/shard"
)

// trainerRole is the role of a trainer: it merges the rows of the shards, learns from them, and publishes.
type trainerRole struct {
	Leadership
	state    *State
	name     string
	untilEnd bool
	receiver *shard.Receiver
	live     *liveLearner // nil if shards forward no events
}

func newTrainerRole(o *RoleOptions) (*trainerRole, error) {
	c := &o.Settings.Shard
	kafka, err := cluster.ClientOptions(&o.Config.Kafka)
	if err != nil {
		return nil, err
	}
	t := &trainerRole{Leadership: uncontested{}, state: o.State, name: o.Settings.Name, untilEnd: o.UntilEnd,
		live: o.Learner}
	options := receiverOptions(o.Options, kafka, c.Topic, c.Count, o.State.store)
	options.OnMerged, options.Standby = o.OnMerged, c.Standby.Std()
	turns := &turns{state: o.State}
	options.Newest, options.OnTerm = turns.newestVersion, func() {}
	if c.Standby > 0 {
		options.OnTerm, t.Leadership = o.Wake, turns
	}
	t.receiver = shard.NewReceiver(options)
	turns.receiver = t.receiver
	if t.live != nil {
		t.live.sink, t.live.onLearned = o.Sink, o.Wake
	}
	return t, nil
}

// Reads implements Role.
func (*trainerRole) Reads(string, int32) bool { return true }

// Merges implements Role.
func (*trainerRole) Merges() bool { return true }

// Trouble implements Role.
func (t *trainerRole) Trouble() string { return cmp.Or(t.receiver.Trouble(), t.live.trouble()) }

// Trains implements Training.
func (t *trainerRole) Trains() bool { return t.receiver.Current() && t.Leads() }

// Updates implements Training.
func (t *trainerRole) Updates() bool { return t.live != nil }

// Learned implements Training.
func (t *trainerRole) Learned() int64 { return t.live.count() }

// MayRefit implements Training.
func (t *trainerRole) MayRefit() error {
	if t.Leads() {
		return nil
	}
	return fmt.Errorf("model %s: %s: ask that one for a refit", t.name, t.Waits())
}

// Shards implements Team.
func (t *trainerRole) Shards() (list []ShardStatus) {
	for i, s := range t.receiver.Status() {
		own := ShardStatus{Status: s}
		if t.live != nil && i < len(t.live.newest) {
			own.Forwarded = t.live.lastOf(i)
		}
		list = append(list, own)
	}
	return list
}

// Missed implements Team.
func (t *trainerRole) Missed() (offsets int64, known bool) {
	if t.live == nil {
		return 0, false
	}
	return t.live.missed.Load(), true
}

// Partitions implements Team.
func (t *trainerRole) Partitions() (out []consumer.PartitionStatus) {
	for _, l := range t.state.store.Ledger() {
		out = append(
			out,
			consumer.PartitionStatus{
				Topic:         l.Topic,
				Partition:     l.Partition,
				Next:          l.Next,
				HighWatermark: -1,
				Halted:        l.Halted,
			},
		)
	}
	return out
}

// Run implements Role: it merges.
func (t *trainerRole) Run(ctx context.Context, _ func(context.Context) error) error {
	if t.live != nil {
		var learning sync.WaitGroup
		defer learning.Wait()
		liveCtx, stop := context.WithCancel(ctx)
		defer stop()
		learning.Go(func() { t.live.run(liveCtx) })
	}
	err := t.receiver.Run(ctx, t.untilEnd)
	if err == nil && t.live != nil && ctx.Err() == nil {
		t.live.await(ctx)
	}
	return exitOf(t.state, err)
}

// turns is the leadership of a trainer that may have standbys, of which one trains at a time.
type turns struct {
	state    *State
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

// WhileLeading runs what only the process does that leads, again and again in each of its terms, until ctx is done.
func WhileLeading(ctx context.Context, by Leadership, run func(ctx context.Context)) {
	if _, contested := by.Term(); !contested {
		run(ctx)
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		if term, _ := by.Term(); term != nil {
			termCtx, cancel := WithinTerm(ctx, term)
			run(termCtx)
			cancel()
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// WithinTerm returns ctx, done with publish.ErrReplaced as its cause once a term is over.
func WithinTerm(ctx context.Context, term *shard.Term) (context.Context, context.CancelFunc) {
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
