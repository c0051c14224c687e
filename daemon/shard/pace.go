package shard

import "time"

const (
	sendEvery = time.Second // between two looks at what changed, of up to fifty shards
	// of the trainer's time for a head: of more shards each sends less often, or it would not keep up
	shareOfHead = 20 * time.Millisecond
	behindEvery = 30 * time.Second // between two heads of a shard that is behind, at most
	turnEvery   = 5 * time.Second  // for which a shard waits for each one before it, when it begins
)

// A pace says when a shard sends what changed. Rows that later ones put out need not be sent: what came and went
// between two heads never is. So a shard that catches up with its log sends once it has read as much as it has still to
// read; while it is not behind that is at once.
//
// It also says who begins. As long as the trainer has no thresholds, each shard has a full sample, k rows of which
// k/N are in the end in that of all N. If they send one after the other, and each takes up the thresholds that those
// before it have brought about, they send k(1 + 1 + 1/2 + ... + 1/(N-1)) in place of N·k.
type pace struct {
	number int
	since  time.Time // of the last head, or the start
	from   int64     // records applied by then
	full   time.Time // since when it could begin, but that its turn has not come; zero before
	begun  bool
	merged int // shards of which the trainer has merged events
}

// every returns the time between two looks at what changed, of a number of shards.
func every(count int) time.Duration { return max(sendEvery, time.Duration(count)*shareOfHead) }

// waits reports whether it is too early to send. applied are the records that have been, and lag those that have not;
// full is whether the sample has all the rows it may have, and not by thresholds of the trainer fewer.
func (p *pace) waits(now time.Time, applied, lag int64, full bool) bool {
	if p.since.IsZero() {
		p.since, p.from = now, applied
	}
	if now.Sub(p.since) < behindEvery && lag > applied-p.from {
		return true
	}
	if p.begun || !full {
		return false
	}
	if p.full.IsZero() {
		p.full = now
	}
	p.begun = p.merged >= p.number || now.Sub(p.full) >= min(behindEvery, time.Duration(p.number)*turnEvery)
	return !p.begun
}

// sent notes a head.
func (p *pace) sent(now time.Time, applied int64) { p.since, p.from = now, applied }
