package ingest

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// CatchUp is a catch-up under way: a model that is far behind its log stores every event, and learns live from an even
// share of them, unless it learns all. Refits learn from the sample, which does not depend on it.
type CatchUp struct {
	Began time.Time
	Read  int64         // records since it began
	Left  int64         // records below the log ends of the partitions that were read since the start
	ETA   time.Duration // that the rest takes at the pace so far
	All   bool          // train.catch_up is learn_all: every event is learned live all the same
}

// CatchUpStep is what a catch-up does when its owner is called.
type CatchUpStep uint8

// The steps of a catch-up, in order. The second comes every second.
const (
	CatchUpBegins CatchUpStep = iota
	CatchUpLasts
	CatchUpEnds
)

// catchUp decides for each part whether all of its events are learned. It belongs to the goroutine of Take, but for
// cost and under, which any may read.
type catchUp struct {
	bound   time.Duration               // of learning that is left, beyond which a share is learned
	all     bool                        // learn all: a catch-up is only shown
	least   int64                       // records that have to be left for one
	left    map[rows.Position]remainder // of each partition; the offset is 0
	total   int64                       // sum of left
	swept   time.Time                   // when remainders of partitions that are not read were last dropped
	passed  passed                      // since the catch-up began; nil without one
	cost    atomic.Int64                // nanoseconds of learning one event, of the last parts
	under   atomic.Pointer[CatchUp]     // nil without one
	shown   time.Time                   // when observe was called last
	observe func(CatchUp, CatchUpStep)
}

// passed are the stretches of offsets, from and to, of which a share was learned; the offset of the key is 0.
type passed map[rows.Position][2]int64

// remainder is what is behind the last part of a partition.
type remainder struct {
	records int64
	seen    time.Time
}

// What a catch-up is decided by.
const (
	// silence is after how long a partition without a part is not counted: it has halted, or another process reads it.
	silence = 10 * time.Second
	// assumedCost is what an event is taken to cost before any was learned: that of a few names on a slow processor.
	assumedCost = 10 * time.Microsecond
	// showEvery is how often a catch-up that lasts is reported, as ticks are.
	showEvery = time.Second
	// endShare is one of how much of what a catch-up begins at is left where it ends. Below it a catch-up would begin
	// and end with each fetch. Above it what is left is learned at ten times the price. Chosen by hand.
	endShare = 8
	// leastBehind is how many records have to be left for a catch-up: any machine learns fewer within seconds.
	leastBehind = 100_000
	// costWeight is that of the last part in the mean cost.
	costWeight = 0.2
	// CatchUpShare is one of how many events is learned. Learning costs ten times as much as reading: with one of 64 it
	// takes a sixth of the time. After 280,000 backlogged events of drift the RMSE of the next 10,000 was 0.14 % below
	// that of learning all; with one of 16 or 256 it was as good within 0.3 %.
	CatchUpShare = 64
)

// isLearned reports whether an event is of the share that is learned during a catch-up. It depends on nothing else, so
// that the losses are those of an even share of all events.
func isLearned(partition int32, offset int64) bool {
	h := (uint64(offset) ^ uint64(partition)<<40) * 0x9e3779b97f4a7c15 // Fibonacci hashing (Knuth, 1973)
	return h>>32%CatchUpShare == 0
}

func newCatchUp(m *config.Model) *catchUp {
	c := &catchUp{bound: m.Train.CatchUp.Std(), least: leastBehind, left: make(map[rows.Position]remainder)}
	if c.all = c.bound == 0; c.all {
		c.bound = config.AutoCatchUp.Std()
	}
	return c
}

// next takes a part that ends so many records before the end of its partition. It reports whether a share of the part
// is learned, and returns what was passed over where a catch-up ends before the part.
func (c *catchUp) next(p *sketch.Part, left int64) (thin bool, ended passed) {
	at := rows.Position{Topic: p.Topic, Partition: p.Partition}
	now := time.Now()
	if now.Sub(c.swept) > silence/10 {
		c.swept = now
		maps.DeleteFunc(c.left, func(_ rows.Position, r remainder) bool { return now.Sub(r.seen) > silence })
	}
	c.left[at], c.total = remainder{max(0, left), now}, 0
	for _, r := range c.left {
		c.total += r.records
	}
	wait := time.Duration(c.total) * c.eventCost()
	switch {
	case c.passed == nil && wait > c.bound && c.total >= c.least:
		c.passed = make(passed)
		c.begin()
	// lower than where it begins, so that it does not begin again at once
	case c.passed != nil && (wait <= c.bound/endShare || c.total < c.least/endShare):
		if !c.all {
			ended = c.passed
		}
		c.passed = nil
		c.end()
	}
	if c.passed == nil {
		return false, ended
	}
	c.progress(p.Next - p.Base)
	if c.all {
		return false, nil
	}
	from := p.Base
	if span, ok := c.passed[at]; ok {
		from = span[0]
	}
	c.passed[at] = [2]int64{from, p.Next}
	return true, nil
}

func (c *catchUp) begin() {
	now := CatchUp{Began: time.Now(), Left: c.total, All: c.all}
	c.under.Store(&now)
	c.show(now, CatchUpBegins)
}

func (c *catchUp) show(now CatchUp, at CatchUpStep) {
	c.shown = time.Now()
	if c.observe != nil {
		c.observe(now, at)
	}
}

func (c *catchUp) end() {
	last := *c.under.Swap(nil)
	last.Left, last.ETA = c.total, 0
	c.show(last, CatchUpEnds)
}

func (c *catchUp) progress(records int64) {
	now := *c.under.Load()
	now.Read, now.Left = now.Read+records, c.total
	now.ETA = time.Duration(float64(time.Since(now.Began)) * float64(now.Left) / float64(max(1, now.Read)))
	c.under.Store(&now)
	if time.Since(c.shown) >= showEvery {
		c.show(now, CatchUpLasts)
	}
}

// eventCost returns what learning an event takes.
func (c *catchUp) eventCost() time.Duration {
	if cost := c.cost.Load(); cost > 0 {
		return time.Duration(cost)
	}
	return assumedCost
}

// learned notes how long so many events took.
func (c *catchUp) learned(events int, took time.Duration) {
	if events == 0 {
		return
	}
	each := float64(took) / float64(events)
	if before := c.cost.Load(); before > 0 {
		each = costWeight*each + (1-costWeight)*float64(before)
	}
	c.cost.Store(max(1, int64(each)))
}

// has reports whether a row was passed over. Where labels come later the share is one of keys.
func (of passed) has(r *sketch.Row, isLater bool) bool {
	span, ok := of[rows.Position{Topic: r.Topic, Partition: r.Partition}]
	if !ok || r.Offset < span[0] || r.Offset >= span[1] {
		return false
	}
	return isLater && hashOf(r.ID) > thinLimit || !isLater && !isLearned(r.Partition, r.Offset)
}

// CatchUp returns the catch-up that is under way, nil without one.
func (g *Ingest) CatchUp() *CatchUp { return g.catchUp.under.Load() }

// IsThin reports whether a catch-up is under way in which a share of the events is learned live.
func (c *CatchUp) IsThin() bool { return c != nil && !c.All }

// String says for people how far it is.
func (c *CatchUp) String() string {
	text := fmt.Sprintf("catching up: %d of %s read, %s left", c.Read, report.Count(c.Read+c.Left, "record"),
		c.ETA.Round(time.Second))
	if c.IsThin() {
		text += fmt.Sprintf("; one of %d events is learned live", CatchUpShare)
	}
	return text
}

// PerSecond returns the records that are read a second, from the begin of the catch-up; not finite before the first.
func (c *CatchUp) PerSecond() float64 { return float64(c.Read) / time.Since(c.Began).Seconds() }

// learnPassed learns from the newest rows of the sample that a catch-up passed over and that the last refit has not
// seen, as a restart does, for half the time of the bound at most.
func (g *Ingest) learnPassed(of passed) error {
	if g.cycle == nil {
		return nil
	}
	if err := g.queue.wait(); err != nil {
		return err
	}
	s, err := g.store.Sample()
	if err != nil {
		return fmt.Errorf("ingest: rows of a catch-up: %w", err)
	}
	var cut []report.Cut
	if champion := g.cycle.Champion(); champion != nil {
		cut = champion.Version.Cut
	}
	for _, list := range []*[]sketch.Row{&s.Train, &s.Select, &s.Gate} {
		*list = slices.DeleteFunc(*list, func(r sketch.Row) bool { return !of.has(&r, g.open != nil) })
	}
	var behind Behind
	if g.open != nil {
		behind = g.open.behind
	}
	most := int(g.catchUp.bound / 2 / g.catchUp.eventCost())
	panicked, err := relearnAfter(g.model, g.cycle, s, cut, most, behind)
	if panicked > 0 && g.OnUnlearned != nil {
		g.OnUnlearned(panicked)
	}
	return err
}
