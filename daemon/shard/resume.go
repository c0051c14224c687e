package shard

import (
	"context"
	"fmt"
)

// resume takes up what was merged before, or what the shard takes from, and sets where the topic is read from. It
// returns the end of the topic.
func (r *Receiver) resume(ctx context.Context) (end int64, err error) {
	start, end, err := bounds(ctx, r.client, r.Topic)
	if err != nil {
		return 0, err
	}
	merged, memo, ok, err := r.Store.Merged()
	if err != nil {
		return 0, err
	}
	resume := merged
	switch {
	case r.takes():
		memo, ok = nil, false
		if resume, err = r.takesFrom(ctx, start, end); err != nil {
			return 0, err
		}
	case ok && resume > end:
		return 0, fmt.Errorf("topic %s (shard.topic) has offsets %d to %d, but %d was merged: "+
			"it is another topic of that name, or has lost its end; begin with an empty state: %w",
			r.Topic, start, end, resume, ErrTopic)
	case !ok || resume < start: // what waited is superseded, or a head will lack it
		resume = start
	}
	if !ok && resume > 0 { // what there was before cannot be missed
		r.gaps++
	}
	if err := r.recall(memo, ok); err != nil {
		return 0, err
	}
	if ok && resume > merged { // after what was counted
		r.gaps++
	}
	r.next, r.end = resume, end
	return end, nil
}

// catchUp merges what waited, once all of the topic up to its end was read, and has the trainer rule from then on.
func (r *Receiver) catchUp(ctx context.Context, untilEnd bool) error {
	r.resolve()
	if err := r.mergeKept(); err != nil {
		return err
	}
	r.mu.Lock()
	if !r.current {
		r.Log.Info("merge topic read", "topic", r.Topic, "next", r.next)
	}
	r.current = true
	r.mu.Unlock()
	if r.takes() {
		return nil
	}
	return r.rule(ctx, untilEnd)
}
