package role

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/refitd/refitd/daemon/cluster"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/model/state"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/sketch"
)

const (
	liveStart = 10 * time.Second // a trainer waits at its end, at most, until it has learned what the live topic has
	sumsEvery = 5 * time.Second  // between two writes of the losses of forwarded events
)

// Learner learns on a trainer from the events that shards forward, as one process learns from those that it reads.
// After a restart it reads the topic again: what the last refit has is passed over, what was scored before is learned
// alone, and the rest is scored and learned. The losses are in the state with the offsets up to which they are, so that
// no event counts twice.
type Learner struct {
	options   *part.Options
	cycle     *cycle.Cycle
	state     *state.State
	sink      *ingest.Ingest // decodes and learns; set by the role before run
	topic     *shard.Live    // reads the live topic
	onLearned func()

	// up to where losses of the state are; of the goroutine that reads the topic, as what follows
	scored  map[rows.Position]place
	next    map[rows.Position]place // up to where this run has come
	steps   map[rows.Position]step  // by which some have
	keptAt  time.Time
	unkept  bool // losses have changed
	learned atomic.Int64
	missed  atomic.Int64   // offsets that are not in the topic
	newest  []atomic.Int64 // by shard, when its last batch came, nanoseconds since 1970; 0 before

	refused sync.Map // text of what was logged of a shard last
}

// A place is an offset of a partition in an incarnation of its topic.
type place struct {
	Incarnation uint32 `json:"incarnation,omitempty"`
	Next        int64  `json:"next"`
}

// before reports whether a place is before another.
func (p place) before(q place) bool {
	return p.Incarnation < q.Incarnation || p.Incarnation == q.Incarnation && p.Next < q.Next
}

// keptSums are the losses of forwarded events as the state has them.
type keptSums struct {
	Sums   json.RawMessage `json:"sums"`
	Places []keptPlace     `json:"places"`
}

type keptPlace struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	place
}

// NewLearner returns nil where nothing is forwarded, and on shards.
func NewLearner(o *part.Options, state *state.State, learning *cycle.Cycle) (*Learner, error) {
	m := o.Settings
	if !learnsLive(m) || m.Shard.IsShard() {
		return nil, nil
	}
	kafka, err := cluster.ClientOptions(&o.Config.Kafka)
	if err != nil {
		return nil, err
	}
	l := &Learner{options: o, cycle: learning, state: state, onLearned: func() {},
		scored: make(map[rows.Position]place), next: make(map[rows.Position]place), steps: make(map[rows.Position]step),
		newest: make([]atomic.Int64, m.Shard.Count), keptAt: time.Now()}
	kept, err := readSums(state.Store.Aux())
	if err != nil {
		return nil, ingest.StateError(err, state.Dir)
	}
	for _, p := range kept.Places {
		l.scored[rows.Position{Topic: p.Topic, Partition: p.Partition}] = p.place
	}
	learning.Stored = func() updates.Stored { return l.stored(ingest.Stored(state.Settings, state.Store)) }
	l.topic = shard.NewLive(shard.LiveOptions{Kafka: kafka, Topic: m.Shard.LiveTopic, Model: m.Name,
		Count: m.Shard.Count, Log: o.Log, OnForwarded: l.onForwarded, OnDropped: dropped(o)})
	return l, nil
}

// readSums reads what keep wrote; nothing of a state without.
func readSums(aux []byte) (kept keptSums, err error) {
	if len(aux) == 0 {
		return kept, nil
	}
	if err := json.Unmarshal(aux, &kept); err != nil {
		return kept, fmt.Errorf("model: losses of forwarded events: %w", err)
	}
	return kept, nil
}

// stored takes back a cut to what was learned.
func (l *Learner) stored(s updates.Stored) updates.Stored {
	known, watermark := l.cycle.Known()
	next := make(map[rows.Position]int64, len(known))
	for _, c := range known {
		next[rows.Position{Topic: c.Topic, Partition: c.Partition}] = c.Next
	}
	for i := range s.Cut {
		c := &s.Cut[i]
		// The state may be ahead: its rows come by the merge topic, events by the live topic.
		if learned := next[rows.Position{Topic: c.Topic, Partition: c.Partition}]; learned < c.Next {
			c.Next, s.Events = learned, nil // what became of the records before is not known
		}
	}
	s.Watermark = min(s.Watermark, watermark)
	return s
}

// run reads the topic until ctx is done.
func (l *Learner) run(ctx context.Context) {
	l.topic.Run(ctx)
	l.keep()
}

// await waits until what the topic has is learned, but not for long.
func (l *Learner) await(ctx context.Context) {
	late := time.NewTimer(liveStart)
	defer late.Stop()
	select {
	case <-ctx.Done():
	case <-l.topic.Current():
	case <-late.C:
		l.options.Log.Warn("live topic not read yet", "note", "what is learned between refits waits for it", "topic",
			l.topic.Topic)
	}
}

// trouble says why nothing can be learned between refits, or "".
func (l *Learner) trouble() string {
	if l == nil {
		return ""
	}
	return l.topic.Trouble()
}

// count returns how many events were learned, which makes updates and deltas due as those that are read do.
func (l *Learner) count() int64 {
	if l == nil {
		return 0
	}
	return l.learned.Load()
}

// lastOf returns when the last batch of a shard came, zero before the first.
func (l *Learner) lastOf(number int) time.Time {
	if n := l.newest[number].Load(); n > 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

// onForwarded learns a batch of a shard.
func (l *Learner) onForwarded(_ context.Context, b *shard.Forwarded) {
	if err := l.plausible(b); err != nil {
		l.refuse(b, err)
		return
	}
	l.newest[b.Shard].Store(time.Now().UnixNano())
	if len(b.Stretches) == 0 { // a sign of life
		return
	}
	starts := make([]place, len(b.Stretches)) // up to where each is known
	known, _ := l.cycle.Known()
	for i, s := range b.Stretches {
		starts[i] = l.start(s, known)
	}
	watermark := int64(0)
	for from := 0; from < len(b.Events); { // runs of events of one partition
		to := from + 1
		for to < len(b.Events) && b.Events[to].Stretch == b.Events[from].Stretch {
			to++
		}
		at := b.Events[from].Stretch
		newest, err := l.learn(&b.Stretches[at], starts[at].Next, b.Events[from:to])
		if err != nil {
			l.refuse(b, err)
			return
		}
		watermark = max(watermark, newest)
		from = to
	}
	l.reach(b.Stretches, watermark)
	l.unkept = true
	if time.Since(l.keptAt) >= sumsEvery {
		l.keep()
	}
	l.onLearned()
}

// start returns up to where the events of a stretch are learned, and counts the offsets that are missing before it.
func (l *Learner) start(s shard.Stretch, known []report.Cut) place {
	at := rows.Position{Topic: s.Topic, Partition: s.Partition}
	have, had := l.next[at]
	if had && l.isFalseStep(at, have, s) {
		l.options.Log.Warn("forwarded events continue from an earlier offset", "note", "what was beyond is passed over",
			"topic", s.Topic, "partition", s.Partition, "offset", s.From, "beyond", have.Next)
		l.topic.OnDropped(shard.DroppedWord)
		l.cycle.Recreated(s.Topic, s.Partition)
		have = place{s.Incarnation, s.From}
		l.next[at] = have
	}
	switch {
	case had && have.Incarnation < s.Incarnation:
		// The topic was made anew: offsets begin at 0 again.
		l.cycle.Recreated(s.Topic, s.Partition)
		have = place{s.Incarnation, s.From}
	case had && have.Incarnation > s.Incarnation:
		return place{s.Incarnation, s.To} // of a topic that is gone
	case !had:
		have = place{s.Incarnation, s.From}
	}
	for _, c := range known {
		if c.Topic != s.Topic || c.Partition != s.Partition {
			continue
		}
		if !had { // the refit that this run began with
			have.Next = min(have.Next, c.Next)
		}
		if scored := l.scored[at]; scored.Incarnation == s.Incarnation {
			have.Next = max(have.Next, min(c.Next, scored.Next)) // learned by that refit, and scored before
		}
	}
	if missed := s.From - have.Next; missed > 0 {
		l.missed.Add(missed)
		l.options.Log.Warn("events of some offsets are not in the live topic", "note", "the next refit learns from them",
			"topic", s.Topic, "partition", s.Partition, "offsets", missed)
	}
	return have
}

// A step is one by which a partition came further at once than a shard does in seconds, or to another incarnation.
type step struct {
	from  place // and where batches continued from since
	again bool  // one did
}

// longStep is the offsets of a step that a shard does not come in seconds. Chosen by hand: a process reads 240,000
// events a second.
const longStep = 1 << 20

// isFalseStep reports whether no shard came to where a partition is: two batches continued from where the step there
// began, and none from where it ended. One may be late, of a process that is over.
func (l *Learner) isFalseStep(at rows.Position, have place, s shard.Stretch) bool {
	of, ok := l.steps[at]
	switch {
	case !ok || s.To == s.From:
	case !(place{s.Incarnation, s.To}).before(have):
		delete(l.steps, at)
	case s.Incarnation != of.from.Incarnation || s.From != of.from.Next:
	case of.again:
		delete(l.steps, at)
		return true
	default:
		l.steps[at] = step{place{s.Incarnation, s.To}, true}
	}
	return false
}

// learn learns events of a stretch from an offset on, and returns the newest time of them.
func (l *Learner) learn(s *shard.Stretch, start int64, events []shard.ForwardedEvent) (newest int64, err error) {
	scored := l.scored[rows.Position{Topic: s.Topic, Partition: s.Partition}]
	// again was scored before a restart, so it only learns; fresh is scored first.
	var again, fresh sketch.Part
	for i := range events {
		e := &events[i]
		if e.Offset < start {
			continue // it came before
		}
		to := &fresh
		if (place{s.Incarnation, e.Offset}).before(scored) {
			to = &again
		}
		to.Records = append(to.Records,
			sketch.Record{Offset: e.Offset, Fate: sketch.Applied, Payload: e.Payload, Forgotten: e.Forgotten})
	}
	// A time beyond would move watermarks that never come back.
	latest := time.Now().Add(2*skewOf(l.options.Settings) + time.Hour) // bounds of event times are coarse
	for _, part := range []*sketch.Part{&again, &fresh} {
		if len(part.Records) == 0 {
			continue
		}
		part.Topic, part.Partition, part.Base, part.Next = s.Topic, s.Partition, s.From, s.To
		learn := l.sink.Learn
		if part == &again {
			learn = l.sink.Relearn
		}
		unlearned, err := learn(part, latest)
		if err != nil {
			return newest, err
		}
		if unlearned > 0 {
			l.options.Log.Error("forwarded events not learned", "reason", "panic", "topic", s.Topic,
				"partition", s.Partition, "events", unlearned)
		}
		n := int64(len(part.Records))
		l.learned.Add(n)
		l.options.Metrics.LiveLearned.WithLabelValues(l.options.Settings.Name).Add(float64(n))
		for i := range part.Records {
			newest = max(newest, part.Records[i].Time)
		}
	}
	return newest, nil
}

// reach notes up to where stretches were learned.
func (l *Learner) reach(stretches []shard.Stretch, watermark int64) {
	var cut []report.Cut
	for _, s := range stretches {
		at, to := rows.Position{Topic: s.Topic, Partition: s.Partition}, place{s.Incarnation, s.To}
		if have, had := l.next[at]; had && to.before(have) {
			continue
		}
		if have, had := l.next[at]; had && (have.Incarnation < s.Incarnation || s.To-have.Next > longStep) {
			l.steps[at] = step{from: have}
		}
		l.next[at] = to
		cut = append(cut, report.Cut{Topic: s.Topic, Partition: s.Partition, Next: s.To})
	}
	l.cycle.Reach(cut, watermark)
}

// keep writes the losses into the state.
func (l *Learner) keep() {
	if l.keptAt = time.Now(); !l.unkept {
		return
	}
	l.unkept = false
	sums, err := l.cycle.Sums()
	kept := keptSums{Sums: sums}
	for at, p := range l.next {
		if scored, ok := l.scored[at]; ok && p.before(scored) {
			p = scored // not read again yet
		}
		kept.Places = append(kept.Places, keptPlace{at.Topic, at.Partition, p})
	}
	for at, p := range l.scored {
		if _, ok := l.next[at]; !ok {
			kept.Places = append(kept.Places, keptPlace{at.Topic, at.Partition, p})
		}
	}
	var aux []byte
	if err == nil {
		aux, err = json.Marshal(&kept)
	}
	if err == nil {
		err = l.state.Store.ApplyAll(nil, aux)
	}
	if err != nil { // one of storage meets all who write next, and ends the process there
		l.options.Log.Error("losses of forwarded events not kept", "error", err)
	}
}

// plausible refuses a batch that a shard cannot have forwarded: of partitions that are not its own, or offsets that it
// cannot have come to.
func (l *Learner) plausible(b *shard.Forwarded) error {
	m := l.options.Settings
	for _, s := range b.Stretches {
		at := rows.Position{Topic: s.Topic, Partition: s.Partition}
		if !m.Shard.Owns(b.Shard, s.Partition) || !slices.Contains(m.AllTopics(), s.Topic) {
			return fmt.Errorf("it is of %s/%d, which is no partition of shard %d of %d",
				s.Topic, s.Partition, b.Shard, m.Shard.Count)
		}
		have, ok := l.next[at]
		if !ok { // what is in the state came by the merge topic
			have.Incarnation = s.Incarnation
			have.Next, ok = l.state.Store.Position(s.Topic, s.Partition)
		}
		if ok && have.Incarnation == s.Incarnation && s.From-have.Next > shard.MaxStretch {
			return fmt.Errorf("it is of %s/%d from offset %d on, the last one was of %d",
				s.Topic, s.Partition, s.From, have.Next)
		}
	}
	return nil
}

// refuse counts a batch that is left out, and logs it unless the one before of the shard was for the same reason.
func (l *Learner) refuse(b *shard.Forwarded, err error) {
	l.topic.OnDropped(shard.DroppedWord)
	if last, ok := l.refused.Swap(b.Shard, err.Error()); !ok || last != err.Error() {
		l.options.Log.Warn("events of a shard are left out", "topic", l.topic.Topic, "shard", b.Shard, "error", err)
	}
}
