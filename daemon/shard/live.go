package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/produce"
	"github.com/refitd/refitd/snapshot/backoff"
)

// LiveOptions are those of a Live. All are required.
type LiveOptions struct {
	Kafka []kgo.Opt // brokers, encryption, sign-in
	Topic string    // the live topic
	Model string
	Count int // shards
	Log   *slog.Logger
	// called with DroppedWord or DroppedBuild for a record that is left out
	OnDropped   func(reason string)
	OnForwarded func(ctx context.Context, b *Forwarded) // called with each batch, in the order of the topic; it may wait
}

// Live reads the topic into which shards forward their events. Its records are of use until the next refit, and old
// ones are deleted. Make it with NewLive, call Run once.
type Live struct {
	LiveOptions
	next    int64         // offset to be read; -1 before the first
	current chan struct{} // closed once, by run
	failing liveOutage    // read from other goroutines
}

// NewLive returns the topic. Nothing is connected before Run.
func NewLive(o LiveOptions) *Live {
	return &Live{LiveOptions: o, next: -1, current: make(chan struct{})}
}

// Current is closed once everything was read that the topic had at the start.
func (l *Live) Current() <-chan struct{} { return l.current }

// Trouble says why the topic cannot be read, or "".
func (l *Live) Trouble() string { return l.failing.text() }

// Run reads the topic until ctx is done. Whatever fails is tried again: the sample does not depend on it.
func (l *Live) Run(ctx context.Context) {
	for failures := 1; ctx.Err() == nil; failures++ {
		err := l.run(ctx)
		if ctx.Err() != nil {
			return
		}
		if l.failing.note(l.Topic, err) {
			l.Log.Error("live topic cannot be read: tried again until it can", "topic", l.Topic, "error", err)
		}
		_ = backoff.Sleep(ctx, backoff.Doubled(failures, retryMin, retryMax))
	}
}

func (l *Live) run(ctx context.Context) error {
	end, err := l.prepare(ctx)
	if err != nil {
		return err
	}
	reader, err := kgo.NewClient(append([]kgo.Opt{readFrom(l.Topic, l.next)}, l.Kafka...)...)
	if err != nil {
		return err
	}
	defer reader.Close()
	l.failing.note(l.Topic, nil)
	for {
		// The end is that of the first look; a topic that is empty is current at once.
		if l.next >= end {
			select {
			case <-l.current:
			default:
				l.Log.Info("live topic read", "topic", l.Topic, "next", l.next)
				close(l.current)
			}
		}
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		for records := fetches.RecordIter(); !records.Done() && ctx.Err() == nil; {
			r := records.Next()
			// A record that is left out is not read again either.
			l.next = r.Offset + 1
			b, err := readForwarded(r, l.Model, l.Count)
			if err != nil {
				l.drop(r, err)
				continue
			}
			l.OnForwarded(ctx, b)
		}
	}
}

// drop counts and logs a record that is left out.
func (l *Live) drop(r *kgo.Record, err error) {
	if other, ok := errors.AsType[*anotherBuild](err); ok {
		l.OnDropped(DroppedBuild)
		l.Log.Warn("record of the live topic is left out",
			"note", "another build has written it", "topic", l.Topic, "offset",
			r.Offset, "name", other.name, "version", other.version, "want", liveName, "want_version", liveVersion)
		return
	}
	l.OnDropped(DroppedWord)
	l.Log.Warn("record of the live topic passed over", "topic", l.Topic, "offset", r.Offset, "error", err)
}

// prepare returns the end of the topic. Where it is to be read from is in l.next.
func (l *Live) prepare(ctx context.Context) (end int64, err error) {
	client, err := produce.NewClient(append([]kgo.Opt{kgo.DefaultProduceTopic(l.Topic)}, l.Kafka...)...)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	if err := prepareLive(ctx, client, l.Topic, l.Log); err != nil {
		return 0, err
	}
	start, end, err := bounds(ctx, client, l.Topic)
	if err != nil {
		return 0, err
	}
	// Retention has passed the place, or the topic was made anew: what is there is taken.
	if l.next < start || l.next > end {
		l.next = start
	}
	return end, nil
}

// The settings of the live topic: what shards have read is of little use after the next refit.
const (
	deletePolicy = "delete"
	liveMillis   = "86400000"
	liveBytes    = "4294967296"
)

// prepareLive creates the live topic if it is missing, and refuses one that loses what a shard forwarded last but one,
// or has it out of order.
func prepareLive(ctx context.Context, client *kgo.Client, topic string, log *slog.Logger) error {
	policy, retention, size := deletePolicy, liveMillis, liveBytes
	created, err := produce.Ensure(ctx, client, topic, 1,
		map[string]*string{cleanupPolicy: &policy, "retention.ms": &retention, "retention.bytes": &size})
	if err != nil {
		return fmt.Errorf("topic %s (shard.live_topic): %w", topic, err)
	}
	if created {
		log.Info("topic created", "topic", topic, cleanupPolicy, deletePolicy)
	}
	admin := kadm.NewClient(client)
	found, err := admin.ListTopics(ctx, topic)
	if err != nil {
		return err
	}
	if n := len(found[topic].Partitions); n > 1 {
		return fmt.Errorf("topic %s (shard.live_topic) has %d partitions, want 1", topic, n)
	}
	described, err := admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil // the check needs a right that the shard does not need
	}
	for _, d := range described {
		for _, c := range d.Configs {
			if value := c.MaybeValue(); c.Key == cleanupPolicy && strings.Contains(value, compact) {
				return fmt.Errorf(
					"topic %s (shard.live_topic) has %s %s, which keeps the last record of each shard alone: "+
						"set it to %s",
					topic,
					cleanupPolicy,
					value,
					deletePolicy,
				)
			}
		}
	}
	return nil
}
