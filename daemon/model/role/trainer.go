package role

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/cluster"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/model/state"
	"github.com/refitd/refitd/daemon/shard"
)

// trainerRole is the role of a trainer: it merges the rows of the shards, learns from them, and publishes.
type trainerRole struct {
	Leadership
	state    *state.State
	name     string
	untilEnd bool
	receiver *shard.Receiver // merges the rows of the shards into the store
	live     *Learner        // nil if shards forward no events
}

func newTrainerRole(o *Options) (*trainerRole, error) {
	c := &o.Settings.Shard
	kafka, err := cluster.ClientOptions(&o.Config.Kafka)
	if err != nil {
		return nil, err
	}
	t := &trainerRole{Leadership: uncontested{}, state: o.State, name: o.Settings.Name, untilEnd: o.UntilEnd,
		live: o.Learner}
	options := receiverOptions(o.Options, kafka, c.Topic, c.Count, o.State.Store)
	options.OnMerged, options.Standby = o.OnMerged, c.Standby.Std()
	// Who of several trainers trains; without shard.standby this one always does.
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
	for _, l := range t.state.Store.Ledger() {
		one := consumer.PartitionStatus{Topic: l.Topic, Partition: l.Partition, Next: l.Next, HighWatermark: -1}
		one.Halted, one.Paused = ingest.WhyOf(l.Halted)
		out = append(out, one)
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
		// Rows and forwarded events are read independently: a refit needs rows alone.
		learning.Go(func() { t.live.run(liveCtx) })
	}
	err := t.receiver.Run(ctx, t.untilEnd)
	if err == nil && t.live != nil && ctx.Err() == nil {
		t.live.await(ctx)
	}
	return exitOf(t.state, err)
}
