package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/cluster"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/memory"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/daemon/web"
	"github.com/refitd/refitd/sketch"
)

// sendTimeout bounds the wait for what a shard has still to send when it is stopped.
const sendTimeout = 10 * time.Second

// minSkew is by how much the clocks of shards may be wrong even where input.max_future_skew is less: what a head takes
// to get to the brokers looks like it.
const minSkew = time.Minute

// keyOf returns the key of an option of a store.
func keyOf(option string) string {
	switch option { // which may change in a state, and not in a team
	case "MaxCost":
		return "sample.max_bytes"
	case "Rules":
		return "schema"
	}
	key, _ := ingest.Translate(&sketch.ConfigError{Option: option})
	return cmp.Or(key, option)
}

// skewOf returns by how much the clocks of shards may be wrong.
func skewOf(m *config.Model) time.Duration { return max(minSkew, m.Input.MaxFutureSkew.Std()) }

// dropped counts what is dropped of the topics of a team.
func dropped(o *Options) func(reason string) {
	return func(reason string) { o.Metrics.teamDropped.WithLabelValues(o.Settings.Name, reason).Inc() }
}

// receiverOptions are those of all receivers of a model: the trainer's, and those of a process that takes shards up.
func receiverOptions(o *Options, kafka []kgo.Opt, topic string, count int, store *sketch.Store) shard.ReceiverOptions {
	of := &config.Shard{Count: count}
	return shard.ReceiverOptions{
		Kafka:     kafka,
		Topic:     topic,
		Model:     o.Settings.Name,
		Count:     count,
		Store:     store,
		Log:       o.Log,
		Values:    ingest.Values(o.Settings),
		MaxSkew:   skewOf(o.Settings),
		Key:       keyOf,
		Agreement: ingest.Agreement(o.Settings),
		Owns: func(number int, topic string, partition int32) bool {
			return of.Owns(number, partition) && slices.Contains(o.Settings.Input.Topics, topic)
		},
		MaxWaiting: memory.Waiting(o.Settings),
		OnDropped:  dropped(o),
	}
}

// team is a model's part in one that several processes share: either it sends, as a shard, or it merges, as the
// trainer. A nil team is a model that is whole; all methods but run may be called of one.
type team struct {
	reader   *reader
	sink     *ingest.Ingest
	settings *config.Shard
	number   int                           // of the shard
	sender   *shard.Sender                 // of a shard
	receiver *shard.Receiver               // of a trainer
	newest   func() (epoch, version int64) // of the newest version there is
	forward  *forwarder                    // of a shard, nil where nothing is learned between refits
	live     *liveLearner                  // the same of a trainer
}

// newTeam returns the part of the model, nil if it is whole. The error carries its exit code.
func newTeam(o *Options, r *reader, sink *ingest.Ingest, live *liveLearner) (*team, error) {
	s := &o.Settings.Shard
	if !s.IsShard() && !s.IsTrainer() {
		return nil, nil
	}
	kafka, err := cluster.ClientOptions(&o.Config.Kafka)
	if err != nil {
		return nil, err
	}
	t := &team{reader: r, sink: sink, settings: s, live: live, newest: func() (int64, int64) { return 0, 0 }}
	if s.IsTrainer() {
		options := receiverOptions(o, kafka, s.Topic, s.Count, r.state.store)
		options.OnMerged, options.OnTerm, options.Standby = t.onMerged, t.onTerm, s.Standby.Std()
		options.Newest = func() (int64, int64) { return t.newest() }
		t.receiver = shard.NewReceiver(options)
		if live != nil {
			live.sink = sink
		}
		return t, nil
	}
	if t.number, err = s.Number(); err != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Key: "shard.index", Err: err}
	}
	if t.forward, err = newForwarder(o, r.state, t.number); err != nil {
		return nil, err
	}
	if t.forward != nil {
		sink.OnPart = t.forward.add
	}
	name := o.Settings.Name
	t.sender = shard.NewSender(
		shard.SenderOptions{
			Kafka:     kafka,
			Topic:     s.Topic,
			Model:     name,
			Count:     s.Count,
			Number:    t.number,
			Store:     r.state.store,
			Log:       o.Log,
			Forget:    t.forget,
			Lag:       r.lag,
			Key:       keyOf,
			Agreement: ingest.Agreement(o.Settings),
			Moves:     s.IsGiven(),
			OnSent: func(pairs int, bytes int64) {
				o.Metrics.rowsSent.WithLabelValues(name).Add(float64(pairs))
				o.Metrics.bytesSent.WithLabelValues(name).Add(float64(bytes))
			},
		},
	)
	return t, nil
}

// merges reports whether events come from shards.
func (t *team) merges() bool { return t != nil && t.receiver != nil }

// learns reports whether there is more to publish here than refits: of a team where events are forwarded.
func (t *team) learns() bool { return t == nil || t.live != nil }

// learner returns what learns from forwarded events, nil where none are.
func (t *team) learner() *liveLearner {
	if t == nil {
		return nil
	}
	return t.live
}

// trains reports whether there is a sample to train on here: not on a shard, nor before the trainer has read what there
// is, nor while another one trains.
func (t *team) trains() bool { return t == nil || t.merges() && t.receiver.Current() && t.leads() }

// Refit lets the model be refitted now, or as soon as the refit under way has ended. The error says which process does
// that if it is not this one.
func (m *Model) Refit() error {
	switch t := m.reader.team; {
	case t != nil && !t.merges():
		return fmt.Errorf(
			"model %s: this is shard %d of %d: ask the trainer for a refit",
			m.name,
			t.number,
			t.settings.Count,
		)
	case !t.leads():
		return fmt.Errorf("model %s: %s: ask that one for a refit", m.name, t.waits())
	}
	m.trainer.Refit()
	return nil
}

// owns returns which partitions are read, nil if all are.
func (t *team) owns() func(topic string, partition int32) bool {
	if t == nil || t.sender == nil {
		return nil
	}
	return func(_ string, partition int32) bool { return t.settings.Owns(t.number, partition) }
}

// reads reports whether a partition is read.
func (t *team) reads(topic string, partition int32) bool {
	owns := t.owns()
	return owns == nil || owns(topic, partition)
}

// trouble says why rows do not get from the shards to the trainer, or "".
func (t *team) trouble() string {
	switch {
	case t == nil:
		return ""
	case t.merges():
		return cmp.Or(t.receiver.Trouble(), t.live.trouble())
	}
	return cmp.Or(t.sender.Trouble(), t.forward.trouble())
}

// lag returns the records that the shards of a trainer have not applied yet, as they said last.
func (t *team) lag() (total int64) {
	for _, s := range t.shards() {
		total += s.Lag
	}
	return total
}

// shards returns what a trainer knows of its shards, nil of any other model.
func (t *team) shards() []shard.Status {
	if !t.merges() {
		return nil
	}
	return t.receiver.Status()
}

// shardStatus is shards for the page.
func (t *team) shardStatus() (list []web.ShardStatus) {
	at := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return &t
	}
	live := t.learner()
	for i, s := range t.shards() {
		own := web.ShardStatus{Shard: i, Host: s.Host, Merged: at(s.Seen), Lag: s.Lag, Refused: s.Refused}
		if live != nil && i < len(live.newest) {
			if n := live.newest[i].Load(); n > 0 {
				own.Learned = at(time.Unix(0, n))
			}
		}
		list = append(list, own)
	}
	return list
}

// onMerged counts what a shard's share brought, and wakes the trainer.
func (t *team) onMerged(events map[string]int64) {
	r := t.reader
	if len(events) == 0 {
		return
	}
	watermark := int64(sketch.NoTime)
	for _, l := range r.state.store.Ledger() {
		watermark = max(watermark, l.Watermark)
	}
	for topic, n := range events {
		r.applied.Add(n)
		r.options.Metrics.applied(
			r.options.Settings.Name,
			ingest.Counts{Topic: topic, Applied: n, Watermark: watermark},
		)
	}
	r.reading.Store(int64(time.Since(r.began)))
	r.onStored()
}

// forget removes the subjects that the trainer has forgotten from a shard's state.
func (t *team) forget(ctx context.Context, w *sketch.Witness) error {
	state := t.reader.state
	forgotten := ingest.Forgotten{Dir: state.dir, Model: state.settings, Log: state.log}
	err := forgotten.Recall(ctx, state.store, state.dir, w)
	if err == nil {
		err = forgotten.Keep(state.store)
	}
	t.sink.Recalled()
	return err
}

// run reads and sends, or merges, until ctx is done or, with an end, it is reached and everything is sent. The error
// carries its exit code.
func (t *team) run(ctx context.Context, read func(context.Context) error) error {
	var others sync.WaitGroup
	defer others.Wait()
	if t.live != nil {
		liveCtx, stop := context.WithCancel(ctx)
		defer stop()
		others.Go(func() { t.live.run(liveCtx) })
	}
	if t.merges() {
		err := t.receiver.Run(ctx, t.reader.options.UntilEnd)
		if err == nil && t.live != nil && ctx.Err() == nil {
			t.live.await(ctx)
		}
		return t.exit(err)
	}
	if err := t.takeUp(ctx); err != nil || ctx.Err() != nil {
		return t.exit(err)
	}
	if err := t.sender.Prepare(ctx); err != nil || ctx.Err() != nil {
		return t.exit(err)
	}
	readCtx, stopReading := context.WithCancel(ctx)
	defer stopReading()
	sendCtx, stopSending := context.WithCancel(context.WithoutCancel(ctx)) // what was read last is sent, too
	defer stopSending()
	done, sent := make(chan struct{}), make(chan error, 1)
	go func() {
		defer stopReading()
		sent <- t.sender.Run(sendCtx, done)
	}()
	if t.forward != nil {
		forwardCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
		defer stop() // what was read last is forwarded, too
		others.Go(func() { t.forward.run(forwardCtx) })
	}
	err := read(readCtx)
	close(done)
	defer context.AfterFunc(ctx, func() { time.AfterFunc(sendTimeout, stopSending) })()
	return t.exit(errors.Join(err, <-sent))
}

// takeUp has an empty state begin with what another process has left in the topic that was this shard, or else with
// what another number of shards has left in theirs.
func (t *team) takeUp(ctx context.Context) error {
	state, s := t.reader.state, t.settings
	_, _, begun, err := state.store.Merged()
	if err != nil || s.From.Topic == "" && !s.IsGiven() || !begun && len(state.store.Ledger()) > 0 {
		return err
	}
	if s.IsGiven() {
		if err := t.takeFrom(ctx, s.Topic, s.Count, &t.number); err != nil || ctx.Err() != nil {
			return err
		}
		state.fresh.Store(
			false,
		) // a process may have ended before it sent anything: offsets of the group are no sign of a loss
		t.sender.Took(len(state.store.Ledger()) > 0)
	}
	if from := &s.From; from.Topic != "" && len(state.store.Ledger()) == 0 {
		if err := t.takeFrom(ctx, from.Topic, from.Count, nil); err != nil || ctx.Err() != nil {
			return err
		}
		if len(state.store.Ledger()) > 0 {
			state.fresh.Store(false)
		}
	}
	return nil
}

// takeFrom takes partitions up from the topic of so many shards: those of one of them, whose place this process takes,
// or with nil those that are this one's.
func (t *team) takeFrom(ctx context.Context, topic string, count int, place *int) error {
	o := t.reader.options
	kafka, err := cluster.ClientOptions(&o.Config.Kafka)
	if err != nil {
		return err
	}
	options := receiverOptions(o, kafka, topic, count, t.reader.state.store)
	options.Place, options.Sender = place, t.sender
	takeUp := (*shard.Receiver).TakePlace
	if place == nil { // of another topic
		options.Sender, options.Only, options.Carry = nil, t.reads, func(
			number int) bool {
			return number%t.settings.Count == t.number
		}
		takeUp = (*shard.Receiver).TakeUp
	}
	forgotten, err := takeUp(shard.NewReceiver(options), ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	if forgotten != nil {
		if err := t.forget(ctx, forgotten); err != nil {
			return err
		}
	}
	rows, _ := t.reader.state.store.Size()
	if len(t.reader.state.store.Ledger()) == 0 {
		return nil
	}
	o.Log.Info(
		"partitions taken up from other shards",
		"topic",
		topic,
		"shards",
		count,
		"partitions",
		len(t.reader.state.store.Ledger()),
		"rows",
		rows[sketch.Train],
	)
	return nil
}

// exit gives an error its exit code.
func (t *team) exit(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, shard.ErrTopic):
		return &report.ExitError{Code: report.ExitUsage, Key: "shard.topic", Err: fmt.Errorf("model: %w", err)}
	case errors.Is(err, shard.ErrTrainers):
		return &report.ExitError{Code: report.ExitUsage, Key: "shard.standby", Err: fmt.Errorf("model: %w", err)}
	case errors.Is(err, shard.ErrSuperseded):
		return &report.ExitError{Code: report.ExitUsage, Key: "shard.index", Err: fmt.Errorf("model: %w", err)}
	case errors.Is(err, shard.ErrMoved):
		return &MovedError{t.reader.state.dir}
	case errors.Is(err, shard.ErrForgotten):
		return &report.ExitError{Code: report.ExitState, Path: t.reader.state.dir, Err: fmt.Errorf("model: %w", err)}
	}
	return t.reader.state.storageError(err)
}

// partitions returns the accounts of a trainer as a consumer has them.
func (t *team) partitions() (out []consumer.PartitionStatus) {
	for _, l := range t.reader.state.store.Ledger() {
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
