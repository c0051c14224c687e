package cycle

import (
	"slices"

	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/solver"
)

// lineage has what is known of the refits since the champion. It is guarded by Cycle.mu; rejections also by
// Cycle.reportMu.
type lineage struct {
	*common

	rejections int
	failedFrom *solver.Model    // of the champion that a refit continued from and failed; nil without
	fallback   *task.Fallback   // nil unless there was a champion that cannot be read
	known      updates.Frontier // by refits and events, where these are forwarded
}

// CompareWith lets challengers be compared with a version in place of a champion that cannot be read, or with the
// baselines if it is nil, rather than be promoted as the first version. Nothing continues from it. It counts until a
// champion is installed.
func (l *lineage) CompareWith(version *fitted.Fitted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fallback = &task.Fallback{Version: version}
}

// Rejections returns how many challengers in a row the gate has kept back because they were worse or could not be used,
// since the start or the last champion. The refit after the third starts from nothing.
func (l *lineage) Rejections() int {
	l.reportMu.Lock()
	defer l.reportMu.Unlock()
	return l.rejections
}

// judged counts the decision on a challenger.
func (l *lineage) judged(cause fitted.Cause) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reportMu.Lock()
	defer l.reportMu.Unlock()
	switch cause {
	case "worse", "worse_than_baseline", "not_finite", "degenerate":
		l.rejections++
	}
}

// knows reports whether the live model has an event already: a refit can have learned it from the sample before it is
// forwarded. c.mu is held.
func (c *Cycle) knows(p rows.Position) bool {
	return c.Forwarded && p.Offset < c.lineage.known.Next(p.Topic, p.Partition)
}

// Reach says up to where events were read: what comes before a cut and was not observed is no event, or is not learned
// from one by one.
func (c *Cycle) Reach(cut []report.Cut, watermark int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lineage.known.Advance(cut, watermark)
	if c.publisher.deltas != nil || c.publisher.pending != nil {
		c.publisher.frontier.Advance(cut, watermark)
	}
}

// Recreated says that offsets of a partition begin anew: its topic is another one of the same name.
func (l *lineage) Recreated(topic string, partition int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.known.Cut {
		if of := &l.known.Cut[i]; of.Topic == topic && of.Partition == partition {
			of.Next = 0
		}
	}
}

// Known returns up to which events the live model has learned, those of its refit included, and the newest event time
// of these in milliseconds since 1970. It is for a cycle of forwarded events.
func (l *lineage) Known() (cut []report.Cut, watermark int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.known.Cut), l.known.Watermark
}
