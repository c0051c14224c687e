package shard

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/sketch"
)

// TakeUp brings partitions into the empty store of a shard from the merge topic of a team that had another number of shards and has ended: rows and accounts as
// of the last head of each, so that nothing of the log before is read again. If it is cut short it may be called again, also by a later process. It returns the
// subjects that the team was told to forget, nil for none; they have to be forgotten before anything is read. The error wraps ErrTopic, or is one of the state.
func (r *Receiver) TakeUp(ctx context.Context) (*sketch.Witness, error) {
	if err := r.Run(ctx, true); err != nil || ctx.Err() != nil {
		return nil, err
	}
	for i, s := range r.Status() {
		switch {
		case s.Refused != "":
			return nil, fmt.Errorf("topic %s (shard.from): shard %d of %d: %s: %w", r.Topic, i, r.Count, s.Refused, ErrTopic)
		case s.Seen.IsZero():
			return nil, fmt.Errorf("topic %s (shard.from) has nothing of shard %d of %d: name the topic and the number of shards that wrote it: %w",
				r.Topic, i, r.Count, ErrTopic)
		}
	}
	if err := r.Store.Taken(); err != nil || r.wished == nil {
		return nil, err
	}
	return r.wished.Forgotten, nil
}

// takeWishes takes up what a trainer asks for: of a team that has ended, what it did last.
func (r *Receiver) takeWishes(rec *kgo.Record) error {
	if r.Only == nil {
		return r.heed(rec)
	}
	w := new(wishes)
	if err := decode(rec, r.Model, w); err != nil {
		return fmt.Errorf("topic %s (shard.from): %w: %w", r.Topic, err, ErrTopic)
	}
	r.wished = w
	return nil
}
