package shard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/sketch"
)

// TakeUp brings partitions into the empty store of a shard from the merge topic of a team that had another number of
// shards and has ended: rows and accounts at the last head of each, so that nothing of the log before is read
// again. If it is cut short it may be called again, also by a later process. It returns the subjects that were
// forgotten at its trainer, nil for none; they have to be forgotten before anything is read. The error wraps
// ErrTopic, also where the topic lacks rows that a head says its shard had, or is one of the state.
func (r *Receiver) TakeUp(ctx context.Context) (*sketch.Witness, error) {
	if err := r.Run(ctx, true); err != nil || ctx.Err() != nil {
		return nil, err
	}
	for i, s := range r.Status() {
		switch {
		case s.Refused != "":
			return nil, fmt.Errorf("topic %s (shard.from): shard %d of %d: %s: %w", r.Topic, i, r.Count, s.Refused,
				ErrTopic)
		case s.Seen.IsZero():
			return nil, fmt.Errorf(
				"topic %s (shard.from) has nothing of shard %d of %d: name the topic and the number of shards that wrote it: %w",
				r.Topic,
				i,
				r.Count,
				ErrTopic,
			)
		}
	}
	if err := r.Store.Taken(); err != nil || r.wished == nil {
		return nil, err
	}
	return r.wished.Forgotten, nil
}

// TakePlace brings the rows and accounts that a shard of this team has sent up to its last head into the empty store
// of another process, which is that shard from then on; what it had read after that is read again. Without a head, or
// where none has all its rows in the topic, nothing is taken and all is read again. Cut short it may be called again.
// It returns the subjects that were forgotten at its trainer, as TakeUp does. The error wraps ErrTopic, or is one of
// the state.
func (r *Receiver) TakePlace(ctx context.Context) (*sketch.Witness, error) {
	if err := r.Run(ctx, true); err != nil || ctx.Err() != nil {
		return nil, err
	}
	switch s := r.Status()[*r.Place]; {
	case s.Refused == "":
	// Another sample: to read the log again would give another result than the trainer has.
	case r.shards[*r.Place].foreign:
		return nil, fmt.Errorf("topic %s (shard.topic): shard %d of %d cannot be taken up: %s: %w", r.Topic, *r.Place,
			r.Count, s.Refused, ErrTopic)
	default: // rows were lost, or a clock was off
		r.Log.Warn("shard not taken up to its last head",
			"note", "the log is read again from the one before, or from its start",
			"topic", r.Topic, "shard", *r.Place, "reason", s.Refused)
	}
	if err := r.Store.Taken(); err != nil || r.wished == nil {
		return nil, err
	}
	return r.wished.Forgotten, nil
}

// mergeKept merges the last head of each shard that is taken up, with what came of it. Rows beyond it are left out, and
// what was put out after it will be again, by the same events.
func (r *Receiver) mergeKept() error {
	for number := range r.shards {
		in := &r.shards[number]
		if in.kept == nil {
			continue
		}
		in.kept.Pairs = in.pairs()
		_, err := r.Store.Merge(in.kept)
		in.kept, in.waiting = nil, nil
		switch {
		case errors.Is(err, sketch.ErrForeign):
			in.foreign = true
			r.mu.Lock()
			r.status[number].Refused = err.Error()
			r.mu.Unlock()
		case errors.Is(err, sketch.ErrBehind): // of a process that was cut short
		case err != nil:
			return err
		}
	}
	return nil
}

// lastHeads is how much of the topic's end is sure to have a head of each shard, and what the trainer asks for, unless
// they were silent by then.
const lastHeads = 3 * beatEvery

// takesFrom returns the offset from which on the topic has all that is taken up: its start, unless its end says that
// the shard whose place is taken has sent everything again since.
func (r *Receiver) takesFrom(ctx context.Context, start, end int64) (int64, error) {
	if r.Place == nil {
		return start, nil
	}
	listed, err := kadm.NewClient(r.client).ListOffsetsAfterMilli(ctx, time.Now().Add(-lastHeads).UnixMilli(), r.Topic)
	if err != nil {
		return 0, err
	}
	// A topic is read from the end backwards only by time: heads come at least every beatEvery.
	at, _ := listed.Lookup(r.Topic, 0)
	if at.Err != nil || at.Offset <= start || at.Offset >= end {
		return start, at.Err
	}
	reader, err := kgo.NewClient(append([]kgo.Opt{readFrom(r.Topic, at.Offset)}, r.Kafka...)...)
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	type sent struct {
		By   instance `json:"by"`
		From int64    `json:"from"`
	}
	var last sent
	wished := int64(-1)
	for next := at.Offset; next < end; {
		fetches := reader.PollFetches(ctx)
		if err := cmp.Or(ctx.Err(), fetches.Err()); err != nil {
			return 0, err
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			next = rec.Offset + 1
			kind, number, _, ok := parseKey(rec.Key)
			switch {
			case !ok || rec.Value == nil:
			case kind == kindTrainer:
				wished = rec.Offset
			case kind == kindHead && number == *r.Place:
				if h := (sent{}); json.Unmarshal(rec.Value, &h) == nil && h.By.compare(last.By) >= 0 &&
					h.From <= rec.Offset {
					last = h
				}
			}
		})
	}
	// Without what the trainer asks for, forgotten subjects would come back.
	if last.From <= start || wished < 0 {
		return start, nil
	}
	return min(last.From, wished), nil
}

// takes reports whether a store takes up what others have been, rather than merge what they are.
func (r *Receiver) takes() bool { return r.Only != nil || r.Place != nil }

// takeWishes takes up what a trainer asks for: of a team that has ended, what it did last.
func (r *Receiver) takeWishes(rec *kgo.Record) error {
	if !r.takes() {
		return r.heed(rec)
	}
	w := new(wishes)
	if err := decode(rec, r.Model, w); err != nil {
		return fmt.Errorf("topic %s: %w: %w", r.Topic, err, ErrTopic)
	}
	r.wished = w
	return nil
}
