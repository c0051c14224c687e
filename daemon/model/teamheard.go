package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/shard"
)

// onTold learns what another member has learned. What stands on a refit that this one has not yet waits for it.
func (l *teamLive) onTold(ctx context.Context, t *shard.Told) {
	if t.By == l.by {
		return
	}
	log := l.options.Log
	var head toldHead
	var learned *cycle.Learned
	err := json.Unmarshal(t.Head, &head)
	if err == nil && head.Learned != nil {
		if learned, err = cycle.DecodeLearned(head.Learned, t.Rows); err == nil {
			err = l.plausible(t.Shard, learned)
		}
	}
	if err != nil {
		l.topic.OnDropped(shard.DroppedWord)
		log.Warn("what a shard has learned cannot be read", "topic", l.topic.Topic, "shard", t.Shard, "error", err)
		return
	}
	l.newest[t.Shard].Store(time.Now().UnixNano())
	if t.Shard == l.number {
		l.before.Store(&head.Losses)
	}
	if l.number < 0 {
		if err := l.cycle.Hear(t.Shard, head.Losses); err != nil {
			log.Warn("losses of a shard cannot be read", "topic", l.topic.Topic, "shard", t.Shard, "error", err)
		}
	}
	defer l.noteUnheard(t.Shard)
	if learned == nil {
		return
	}
	l.hold(ctx, learned.Version, learned.Champion)
	missed, err := l.cycle.Apply(learned)
	switch {
	case errors.Is(err, cycle.ErrOtherChampion):
		return
	case err != nil:
		log.Warn("what a shard has learned does not fit", "topic", l.topic.Topic, "shard", t.Shard, "error", err)
		return
	case missed > 0:
		l.missed.Add(missed)
		log.Warn("what was learned from some offsets is not in the live topic: the next refit learns from them", "topic", l.topic.Topic, "shard", t.Shard,
			"offsets", missed)
	}
	l.heard.Add(1)
	l.options.Metrics.liveRowsHeard.WithLabelValues(l.options.Settings.Name).Add(float64(len(t.Rows)))
	l.onHeard()
}

// noteUnheard counts and logs what the cycle has left out of what a shard has written.
func (l *teamLive) noteUnheard(number int) {
	u := l.cycle.TakeUnheard()
	if u == (cycle.Unheard{}) {
		return
	}
	name := l.options.Settings.Name
	l.options.Metrics.liveUnheard.WithLabelValues(name, unheardEvents).Add(float64(u.Events))
	l.options.Metrics.liveUnheard.WithLabelValues(name, unheardLosses).Add(float64(u.Losses))
	l.options.Log.Warn("what a shard of another build has written is left out: run the same build everywhere", "topic", l.topic.Topic, "shard", number,
		"events", u.Events, "losses", u.Losses)
}

// plausible refuses what a shard cannot have learned: from partitions that are not its own, or from events of the far future.
func (l *teamLive) plausible(number int, learned *cycle.Learned) error {
	m := l.options.Settings
	for _, to := range learned.To {
		if !m.Shard.Owns(number, to.Partition) || !slices.Contains(m.Input.Topics, to.Topic) {
			return fmt.Errorf("it is of %s/%d, which is no partition of shard %d of %d", to.Topic, to.Partition, number, m.Shard.Count)
		}
	}
	if ahead := time.Until(time.UnixMilli(learned.Watermark)); ahead > 2*skewOf(m)+time.Hour { // bounds of event times are coarse
		return fmt.Errorf("its newest event is %s ahead of the clock here", ahead.Round(time.Second))
	}
	return nil
}

// hold waits for a refit that is newer than the one at hand.
func (l *teamLive) hold(ctx context.Context, version int64, digest string) {
	for began := time.Now(); ; {
		has, at := l.cycle.StandsOn()
		if has == digest || at >= version || version <= l.without {
			return
		}
		if time.Since(began) > liveHold {
			l.without = version
			l.options.Log.Warn("what was learned on a refit that is not here is left out", "version", version, "has", at)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(liveLook):
		}
	}
}

// count returns how often something was heard, which makes updates and deltas due as events do.
func (l *teamLive) count() int64 {
	if l == nil {
		return 0
	}
	return l.heard.Load()
}
