package role

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/refitd/refitd/daemon/cluster"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/ingest/binding"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/model/state"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/sketch"
)

// sendTimeout bounds the wait for what a shard has still to send when it is stopped.
const sendTimeout = 10 * time.Second

// shardRole is the role of a shard: it reads its partitions and sends their rows to the trainer. It learns nothing.
type shardRole struct {
	uncontested
	noTeam
	options  *part.Options
	state    *state.State
	settings *config.Shard
	sink     *ingest.Ingest // what applies records to the sample
	number   int            // of the shard, from 0
	sender   *shard.Sender
	forward  *forwarder // nil where nothing is learned between refits
}

func newShardRole(o *Options) (*shardRole, error) {
	c, name := &o.Settings.Shard, o.Settings.Name
	kafka, err := cluster.ClientOptions(&o.Config.Kafka)
	if err != nil {
		return nil, err
	}
	s := &shardRole{options: o.Options, state: o.State, settings: c, sink: o.Sink}
	if s.number, err = c.Number(); err != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Key: "shard.index", Err: err}
	}
	if s.forward, err = newForwarder(o.Options, o.State, s.number); err != nil {
		return nil, err
	}
	if s.forward != nil {
		o.Sink.OnPart = s.forward.add
	}
	s.sender = shard.NewSender(
		shard.SenderOptions{
			Kafka:     kafka,
			Topic:     c.Topic,
			Model:     name,
			Count:     c.Count,
			Number:    s.number,
			Store:     o.State.Store,
			Log:       o.Log,
			Forget:    s.forget,
			Lag:       o.Lag,
			Key:       keyOf,
			Agreement: binding.Agreement(o.Settings),
			Moves:     c.IsGiven(),
			OnSent: func(pairs int, bytes int64) {
				o.Metrics.RowsSent.WithLabelValues(name).Add(float64(pairs))
				o.Metrics.BytesSent.WithLabelValues(name).Add(float64(bytes))
			},
		},
	)
	return s, nil
}

// Reads implements Role.
func (s *shardRole) Reads(_ string, partition int32) bool {
	return s.settings.Owns(s.number, partition)
}

// Trouble implements Role.
func (s *shardRole) Trouble() string { return cmp.Or(s.sender.Trouble(), s.forward.trouble()) }

func (*shardRole) Trains() bool { return false }

// Leads implements Leadership: the trainer publishes. A shard that has the same store neither renews its champion,
// so that consumers notice a trainer that has ended, nor publishes what the store has lost.
func (*shardRole) Leads() bool { return false }

func (*shardRole) Updates() bool { return false }

func (*shardRole) Learned() int64 { return 0 }

// MayRefit implements Training.
func (s *shardRole) MayRefit() error {
	return fmt.Errorf("model %s: this is shard %d of %d: ask the trainer for a refit",
		s.options.Settings.Name, s.number, s.settings.Count)
}

// forget removes the subjects that the trainer has forgotten from a shard's state.
func (s *shardRole) forget(ctx context.Context, w *sketch.Witness) error {
	state := s.state
	forgotten := ingest.Forgotten{Dir: state.Dir, Model: state.Settings, Log: state.Log}
	err := forgotten.Recall(ctx, state.Store, state.Dir, w)
	if err == nil {
		err = forgotten.Keep(state.Store)
	}
	s.sink.Recalled()
	return err
}

// Run implements Role: it reads and sends.
func (s *shardRole) Run(ctx context.Context, read func(context.Context) error) error {
	// The order matters: rows of the shard before this process, then what the topic asks for, then reading.
	if err := s.takeUp(ctx); err != nil || ctx.Err() != nil {
		return exitOf(s.state, err)
	}
	if err := s.sender.Prepare(ctx); err != nil || ctx.Err() != nil {
		return exitOf(s.state, err)
	}
	readCtx, stopReading := context.WithCancel(ctx)
	defer stopReading()
	sendCtx, stopSending := context.WithCancel(context.WithoutCancel(ctx)) // what was read last is sent, too
	defer stopSending()
	done, sent := make(chan struct{}), make(chan error, 1)
	go func() {
		defer stopReading()
		sent <- s.sender.Run(sendCtx, done)
	}()
	if s.forward != nil {
		var forwarding sync.WaitGroup
		defer forwarding.Wait()
		forwardCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
		defer stop() // what was read last is forwarded, too
		forwarding.Go(func() { s.forward.run(forwardCtx) })
	}
	// Reading ends first, then what it applied is sent, for sendTimeout at most after a stop.
	err := read(readCtx)
	close(done)
	defer context.AfterFunc(ctx, func() { time.AfterFunc(sendTimeout, stopSending) })()
	return exitOf(s.state, errors.Join(err, <-sent))
}

// takeUp has an empty state begin with what another process has left in the topic that was this shard, or else with
// what another number of shards has left in theirs.
func (s *shardRole) takeUp(ctx context.Context) error {
	state, c := s.state, s.settings
	_, _, begun, err := state.Store.Merged()
	// A state that has rows begins with them.
	if err != nil || c.From.Topic == "" && !c.IsGiven() || !begun && len(state.Store.Ledger()) > 0 {
		return err
	}
	if c.IsGiven() {
		if err := s.takeFrom(ctx, c.Topic, c.Count, &s.number); err != nil || ctx.Err() != nil {
			return err
		}
		state.KnownNew() // a process may have ended before it sent anything
		s.sender.Took(len(state.Store.Ledger()) > 0)
	}
	if from := &c.From; from.Topic != "" && len(state.Store.Ledger()) == 0 {
		if err := s.takeFrom(ctx, from.Topic, from.Count, nil); err != nil || ctx.Err() != nil {
			return err
		}
		if len(state.Store.Ledger()) > 0 {
			state.KnownNew()
		}
	}
	return nil
}

// takeFrom takes partitions up from the topic of so many shards: those of one of them, whose place this process takes,
// or with nil those that are this one's.
func (s *shardRole) takeFrom(ctx context.Context, topic string, count int, place *int) error {
	o := s.options
	kafka, err := cluster.ClientOptions(&o.Config.Kafka)
	if err != nil {
		return err
	}
	options := receiverOptions(o, kafka, topic, count, s.state.Store)
	options.Place, options.Sender = place, s.sender
	takeUp := (*shard.Receiver).TakePlace
	if place == nil { // of another topic
		options.Sender, options.Only = nil, s.Reads
		options.Carry = func(number int) bool { return number%s.settings.Count == s.number }
		takeUp = (*shard.Receiver).TakeUp
	}
	forgotten, err := takeUp(shard.NewReceiver(options), ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	if forgotten != nil {
		if err := s.forget(ctx, forgotten); err != nil {
			return err
		}
	}
	rows, _ := s.state.Store.Size()
	if len(s.state.Store.Ledger()) == 0 {
		return nil
	}
	o.Log.Info("partitions taken up from other shards", "topic", topic, "shards", count, "partitions",
		len(s.state.Store.Ledger()), "rows", rows[sketch.Train])
	return nil
}
