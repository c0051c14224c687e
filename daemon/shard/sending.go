package shard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/produce"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/backoff"
)

// send sends what changed, up to a head.
func (s *Sender) send(ctx context.Context) error {
	var e *sketch.Excerpt
	applied := s.applied()
	for {
		var err error
		// An excerpt is a piece of what changed, at most excerptBytes, the last one with a head. It is nil where
		// nothing has changed and no sign of life is due.
		if e, err = s.Store.Excerpt(excerptBytes, e, time.Since(s.beat) >= beatEvery); e == nil {
			return err
		}
		if err := s.connected(); err != nil {
			return err
		}
		// The head counts rejected records: their dead letters have to be out before another process may continue from
		// it.
		if e.Head != nil && s.Moves {
			if err := s.lettersSent(ctx); err != nil {
				return err
			}
		}
		size, err := s.produce(ctx, e)
		if err != nil {
			return err
		}
		s.OnSent(len(e.Pairs), size)
		if e.Head != nil {
			s.beat = time.Now()
			s.pace.sent(s.beat, applied)
			mark, err := json.Marshal(
				mark{
					By:     s.by,
					Sent:   s.sent,
					Next:   s.done.Next,
					Passed: s.done.Passed,
					Policy: s.policy[0],
					From:   max(0, s.from),
				},
			)
			if err != nil {
				return fmt.Errorf("shard: %w", err)
			}
			keep := s.beat.Sub(s.noted) >= beatEvery
			if keep {
				s.noted = s.beat
			}
			// Only now does the store forget that these rows were to be sent.
			return s.Store.Mirrored(e, mark, keep)
		}
	}
}

// connected makes the client of the merge topic, unless there is one.
func (s *Sender) connected() error {
	if s.client != nil {
		return nil
	}
	packed, err := newPacker()
	if err != nil {
		return err
	}
	options := []kgo.Opt{kgo.DefaultProduceTopic(s.Topic), kgo.WithCompressor(packed)}
	s.client, err = produce.NewClient(append(options, s.Kafka...)...)
	return err
}

// lettersSent waits until all dead letters are sent that wait now, but not for long.
func (s *Sender) lettersSent(ctx context.Context) error {
	const look, limit = 20 * time.Millisecond, 5 * time.Second
	late, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for wait := s.Store.LettersWait(); wait(); {
		if backoff.Sleep(late, look) != nil {
			return cmp.Or(ctx.Err(), errLetters)
		}
	}
	return nil
}

// produce writes an excerpt and waits until the brokers have it. A head is written once they have all pairs before it:
// it says that they are there.
func (s *Sender) produce(ctx context.Context, e *sketch.Excerpt) (size int64, err error) {
	if !s.by.plausible() {
		return 0, fmt.Errorf(
			"topic %s (shard.topic) has epoch %d of shard %d, after which there is no other: begin with a new topic: %w",
			s.Topic,
			s.by.Epoch-1,
			s.Number,
			ErrTopic,
		)
	}
	records, header := make([]*kgo.Record, 0, len(e.Pairs)), s.by.header(s.policy[0])
	for _, p := range e.Pairs {
		records = append(records,
			&kgo.Record{Key: keyOf(kindPair, s.Number, p.Key), Value: p.Value, Headers: []kgo.RecordHeader{header}})
		size += int64(len(p.Key) + len(p.Value))
	}
	if err := s.write(ctx, records...); err != nil {
		return 0, err
	}
	s.sent += int64(len(records))
	if s.from == nowhere && len(records) > 0 {
		s.from = records[0].Offset
	}
	if e.Head == nil {
		return size, nil
	}
	s.mu.Lock()
	heeds := s.trainer
	s.mu.Unlock()
	value, err := json.Marshal(
		head{
			Format:    formatVersion,
			Model:     s.Model,
			Shard:     s.Number,
			Count:     s.Count,
			By:        s.by,
			State:     s.state,
			Host:      hostName(),
			Sent:      s.sent,
			From:      max(0, s.from),
			After:     s.after,
			Resent:    s.resent,
			Lag:       s.Lag(),
			Heeds:     heeds,
			Clock:     s.Now().UnixMilli(),
			Agreement: s.Agreement,
			Head:      *e.Head,
		},
	)
	if err != nil {
		return 0, fmt.Errorf("shard: %w", err)
	}
	return size + int64(len(value)), s.write(ctx, &kgo.Record{Key: keyOf(kindHead, s.Number, nil), Value: value})
}

func (s *Sender) write(ctx context.Context, records ...*kgo.Record) error {
	return produce.Bounded(ctx, s.client, func() error { return s.client.ProduceSync(ctx, records...).FirstErr() })
}

func (s *Sender) close() { produce.Close(&s.client) }
