package consumer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/refitd/refitd/snapshot/backoff"
	"github.com/refitd/refitd/snapshot/failpoint"
)

// restingShows is after how many CommitEvery in which nothing moved the group is looked at, and shows again what it has
// lost.
const restingShows = 5

// lastCommitTimeout keeps a broker that is gone from holding up the stop.
const lastCommitTimeout = 2 * time.Second

// commit shows applied offsets to lag tools every CommitEvery and, after ctx is done, once more when nothing moves any
// more: rest is closed then.
func (c *Consumer) commit(ctx context.Context, rest <-chan struct{}) {
	if c.opts.GroupID == "" {
		return
	}
	g := group{Consumer: c, shown: make(map[TopicPartition]int64), foreign: make(map[TopicPartition]int64)}
	pause, tries := c.opts.CommitEvery, 0
	for alive := true; alive; {
		if alive = backoff.Sleep(ctx, pause) == nil; !alive {
			<-rest
		}
		err := g.show(ctx)
		if alive && ctx.Err() != nil {
			continue // stopped during the request, which is no failure: commit once more
		}
		if !alive && err != nil && !errors.Is(err, context.DeadlineExceeded) {
			err = g.show(ctx) // the stop closes connections, and the client may take one of them again
		}
		g.judge(err)
		if pause, tries = c.opts.CommitEvery, tries+1; err == nil {
			tries = 0
		} else {
			pause = max(pause, c.source.pause(err, tries))
		}
	}
}

// group is what lag tools see of a consumer. Nothing in it moves the consumer.
type group struct {
	*Consumer
	shown   map[TopicPartition]int64 // what we committed last
	foreign map[TopicPartition]int64 // what others committed above our place, so that each is logged once
	failing bool
	resting int // times in a row that nothing moved
}

// show commits what moved, and what the group has forgotten or shows below our place.
func (g *group) show(ctx context.Context) error {
	parts := g.positions()
	switch {
	case len(parts) == 0:
		return nil
	case !maps.Equal(parts, g.shown):
		g.resting = 0
	default:
		if g.resting++; ctx.Err() != nil || !g.failing && g.resting%restingShows != 0 {
			return nil
		}
	}
	var committed map[TopicPartition]int64
	var err error // a group that cannot be looked at may still be committed to
	if ctx.Err() == nil {
		committed, err = g.source.committed(ctx, slices.Collect(maps.Keys(parts)))
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastCommitTimeout)
		defer cancel()
	}
	// The places are looked at after the group, so that what another member has committed by then is not above them.
	applied, furthest := g.extremes()
	moved := make(map[TopicPartition]int64)
	for tp, offset := range applied {
		if last, ok := g.shown[tp]; !ok || last != offset {
			moved[tp] = offset
		}
	}
	for tp, at := range committed {
		switch {
		case at > furthest[tp]:
			g.warnForeign(tp, at, furthest[tp])
		case at < applied[tp]:
			moved[tp] = applied[tp]
			fallthrough
		default:
			delete(g.foreign, tp)
		}
	}
	if len(moved) > 0 {
		g.metrics.commits.Inc()
		commitErr := failpoint.At(failpoint.ConsumerOffsets)
		if commitErr == nil {
			commitErr = g.source.commit(ctx, moved)
		}
		if commitErr != nil {
			err = commitErr
		} else {
			maps.Copy(g.shown, moved)
		}
	}
	return err
}

// warnForeign warns, once for each offset, of one that another program has committed, above the next one of ours.
func (g *group) warnForeign(tp TopicPartition, committed, next int64) {
	if g.foreign[tp] == committed {
		return
	}
	g.foreign[tp] = committed
	g.metrics.foreign.Inc()
	g.opts.Logger.Warn("foreign commit: another program commits to the group",
		"note", "it is above what was applied here, and not read from", "group", g.opts.GroupID,
		"topic", tp.Topic, "partition", tp.Partition,
		"committed", committed, "next", next)
}

// extremes returns the places of the partitions as lag tools are to see them, where several members share one: that of
// the one that is behind, and the furthest one.
func (g *group) extremes() (applied, furthest map[TopicPartition]int64) {
	applied = g.positions()
	furthest = maps.Clone(applied)
	for _, other := range g.opts.Share.others(g.Consumer) {
		for tp, at := range other.positions() {
			if mine, ok := applied[tp]; ok {
				applied[tp], furthest[tp] = min(mine, at), max(furthest[tp], at)
			}
		}
	}
	return applied, furthest
}

// positions returns what was applied of the partitions that have begun.
func (c *Consumer) positions() map[TopicPartition]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[TopicPartition]int64, len(c.parts))
	for tp, p := range c.parts {
		if p.begun {
			out[tp] = p.applied
		}
	}
	return out
}

// judge logs the first of several failures in a row. If only an operator can end a failure, the consumer is not ready
// because of it.
func (g *group) judge(err error) {
	if err == nil {
		g.failing = false
		g.report("group", "")
		return
	}
	g.metrics.commitErrors.Inc()
	text := g.source.explain(err)
	if fatal(err) {
		g.report("group", text)
	} else if !g.failing {
		g.opts.Logger.Warn("offsets are not shown to the group", "group", g.opts.GroupID, "reason", text)
	}
	g.failing = true
}
