package model

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/refitd/refitd/daemon/cluster"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/reproduce"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/snapshot"
)

const (
	liveStart   = 10 * time.Second // a shard waits before it reads, at most, until it has learned again what the live topic and its state have
	liveHold    = 30 * time.Second // what stands on a refit that is not here yet waits, at most
	liveLook    = 100 * time.Millisecond
	liveTimeout = 10 * time.Second // of writing what was learned
	liveBeat    = 20 * time.Second // between two words of a shard that has nothing to tell
	liveEvents  = 5000             // a second that all shards tell at most: a member hears one in some microseconds
)

// teamLive is what the members of a team tell each other of what they learn between refits. A shard follows the trainer's refits, learns from its events on
// them, and tells what that changed; it learns what the others tell, and so does the trainer, which publishes it. What is told has a place in the log, by
// partition: who is started again learns what the topic has, and from its own sample what it had not told, and nothing twice (cycle.Cycle.Apply).
// Its methods but onTold belong to the goroutine of the trainer.
type teamLive struct {
	options  *Options
	cycle    *cycle.Cycle
	state    *State
	versions *Versions
	topic    *shard.Live
	number   int // of the shard; -1 of the trainer
	onHeard  func()

	by       string         // this run
	told     int64          // by it
	waiting  *shard.Told    // what is told next; nil without
	waits    []snapshot.Cut // until these events are stored
	filled   chan struct{}  // closed once a shard has the sample that it begins with
	took     bool           // before that: it was taken up where another process had been the shard
	ready    chan struct{}  // closed once it may read
	begun    atomic.Bool    // it learns again from its sample, or reads without
	isReady  bool
	champion int64 // version that the shard learns on; 0 without
	schedule cycle.Schedule
	lookAt   time.Time
	tellAt   time.Time
	lossesAt time.Time // when losses were told last
	scored   int64     // events that they were of

	before  atomic.Pointer[json.RawMessage] // losses that the last run told that was this shard
	failing atomic.Pointer[string]          // why a shard has no refit to learn on
	heard   atomic.Int64                    // of others
	newest  []atomic.Int64                  // by shard, when its last word came, nanoseconds since 1970; 0 before
	missed  atomic.Int64                    // offsets that nobody told of
	without int64                           // version of a refit that was not to be had; of the goroutine that reads the topic
}

// toldHead is the head of a shard.Told.
type toldHead struct {
	Learned json.RawMessage `json:"learned,omitempty"` // absent where nothing was
	Losses  json.RawMessage `json:"losses"`
}

// learnsLive reports whether a model is learned between refits by the members of a team.
func learnsLive(m *config.Model) bool {
	return m.Shard.Role != config.RoleAll && m.Shard.LiveTopic != ""
}

// newTeamLive returns nil where nothing is told.
func newTeamLive(o *Options, state *State, learning *cycle.Cycle, versions *Versions) (*teamLive, error) {
	m := o.Settings
	if !learnsLive(m) {
		return nil, nil
	}
	kafka, err := cluster.ClientOptions(&o.Config.Kafka)
	if err != nil {
		return nil, err
	}
	l := &teamLive{options: o, cycle: learning, state: state, versions: versions, number: -1, onHeard: func() {}, by: rand.Text(),
		filled: make(chan struct{}), ready: make(chan struct{}), newest: make([]atomic.Int64, m.Shard.Count), schedule: cycle.NewSchedule(time.Now())}
	if m.Shard.IsShard() {
		if l.number, err = m.Shard.Number(); err != nil {
			return nil, &report.ExitError{Code: report.ExitUsage, Key: "shard.index", Err: err}
		}
	} else { // updates hold what was heard
		learning.Stored = func() cycle.Stored { return l.stored(ingest.Stored(state.store)) }
	}
	l.topic = shard.NewLive(shard.LiveOptions{Kafka: kafka, Topic: m.Shard.LiveTopic, Model: m.Name, Count: m.Shard.Count, Log: o.Log, OnTold: l.onTold,
		OnDropped: dropped(o)})
	return l, nil
}

// stored takes back a cut to what was heard of.
func (l *teamLive) stored(s cycle.Stored) cycle.Stored {
	known, watermark := l.cycle.Known()
	next := make(map[cycle.Position]int64, len(known))
	for _, c := range known {
		next[cycle.Position{Topic: c.Topic, Partition: c.Partition}] = c.Next
	}
	for i := range s.Cut {
		c := &s.Cut[i]
		if heard := next[cycle.Position{Topic: c.Topic, Partition: c.Partition}]; heard < c.Next {
			c.Next, s.Events = heard, nil // what became of the records before is not known
		}
	}
	s.Watermark = min(s.Watermark, watermark)
	return s
}

// run reads the topic until ctx is done.
func (l *teamLive) run(ctx context.Context) {
	defer l.topic.Close()
	l.topic.Run(ctx)
}

// await waits until a shard may read, or a trainer has what there is, but not for long.
func (l *teamLive) await(ctx context.Context) {
	late := time.NewTimer(liveStart)
	defer late.Stop()
	until := l.topic.Current()
	if l.number >= 0 {
		until = l.ready
	}
	select {
	case <-ctx.Done():
	case <-until:
	case <-late.C:
		if l.number >= 0 && !l.begun.CompareAndSwap(false, true) { // it learns just now
			select {
			case <-ctx.Done():
			case <-until:
			}
			return
		}
		l.options.Log.Warn("live topic not read yet: what is learned between refits waits for it", "topic", l.topic.Topic)
	}
}

// trouble says why a shard does not learn between refits, or why nothing is heard, or "".
func (l *teamLive) trouble() string {
	if l == nil {
		return ""
	}
	if text := l.failing.Load(); text != nil {
		return *text
	}
	return l.topic.Trouble()
}

// step does what a shard has to do between events. Its error ends the daemon: the state is at fault.
func (l *teamLive) step(ctx context.Context, settings *config.Model, applied int64) error {
	if now := time.Now(); now.Sub(l.lookAt) >= shard.TellEvery/2 {
		l.lookAt = now
		l.look()
	}
	if !l.isReady {
		for _, there := range []<-chan struct{}{l.topic.Current(), l.filled} {
			select {
			case <-there:
			default:
				return nil
			}
		}
		known, _ := l.cycle.Known()
		if l.begun.CompareAndSwap(false, true) { // else it reads already, and the sample has what it reads
			l.inherit()
			if known != nil {
				if err := l.state.relearn(l.cycle, known); err != nil {
					return err
				}
			}
		}
		l.isReady = true
		close(l.ready)
	}
	l.update(&settings.Publish, applied)
	every := shard.TellEvery
	if deltas := settings.Publish.Deltas.Every.Std(); deltas > 0 {
		every = min(max(deltas, liveLook), every)
	}
	if l.waiting != nil || time.Since(l.tellAt) >= every {
		l.tell(ctx, settings.Publish.Deltas.MaxRows)
	}
	return nil
}

// inherit goes on from the losses of the process in whose place this one took the shard up. They are as of its last word: what it read between that and its
// last head counts twice, or not at all.
func (l *teamLive) inherit() {
	told := l.before.Swap(nil)
	if !l.took || told == nil {
		return
	}
	if err := l.cycle.Inherit(*told); err != nil {
		l.options.Log.Warn("losses of the shard begin at nothing", "topic", l.topic.Topic, "shard", l.number, "error", err)
	}
}

// look takes up the trainer's last refit.
func (l *teamLive) look() {
	err := l.takeUp()
	if err == nil || errors.Is(err, snapshot.ErrNotFound) {
		l.failing.Store(nil)
		return
	}
	l.lookAt = l.lookAt.Add(observeEvery) // it takes as long as reading a version
	text := fmt.Sprintf("shard: no refit to learn on: %v", err)
	if last := l.failing.Swap(&text); last == nil || *last != text {
		l.options.Log.Error("refit of the trainer not taken up: nothing is learned on it", "store", l.options.Settings.Publish.Store, "error", err)
	}
}

func (l *teamLive) takeUp() error {
	store := l.versions.Store()
	if store == nil {
		return nil
	}
	pointer, err := store.Alias(l.options.Settings.Name, publish.Refit)
	if err != nil || pointer.Version == l.champion {
		return err
	}
	version, err := l.versions.publisher.Open(publish.Refit)
	if err != nil {
		return err
	}
	manifest := version.Manifest()
	if digest, _ := l.cycle.StandsOn(); digest == manifest.PayloadDigest { // the same under another number
		l.champion = manifest.Version
		return nil
	}
	if manifest.Posterior == "" {
		l.champion = manifest.Version
		l.options.Log.Info("refit without a posterior: nothing is learned on it", "version", manifest.Version)
		return nil
	}
	kept, err := reproduce.Posterior(l.options.Settings.Publish.Store, &manifest)
	if err != nil {
		return err
	}
	ch, err := cycle.ReviveShared(l.options.Settings, version, kept)
	if err != nil {
		return err
	}
	l.cycle.Install(ch)
	l.champion = manifest.Version
	l.schedule.Promoted()
	l.options.Log.Info("refit taken up", "version", manifest.Version)
	return nil
}

// update makes what the trainer publishes between refits, to be judged on the events of the shard: in every form, and beside the refit.
func (l *teamLive) update(p *config.Publish, applied int64) {
	now := time.Now()
	if l.schedule.UpdateDue(p, now, applied) {
		l.schedule.Updated(now, applied)
		if u, reason := l.cycle.NextUpdate(); u != nil {
			l.cycle.PublishUpdate(u)
		} else if reason == cycle.FirstUpdate {
			l.schedule.UpdateAgain()
		}
	}
	if l.schedule.DeltaDue(p.Deltas.Every.Std(), now, applied) {
		l.schedule.DeltaTaken(now, applied)
		if whole := l.cycle.TakeDelta(now); whole != "" || l.cycle.AsksUpdate() {
			l.schedule.AskUpdate()
		}
		for l.cycle.Delta() != nil {
			l.cycle.PublishDelta()
		}
	}
}

// tell tells what was learned, once its events are stored: what is not would be read and told again after a crash.
func (l *teamLive) tell(ctx context.Context, limit int) {
	if l.waiting == nil {
		events := min(time.Since(l.tellAt), shard.TellEvery).Seconds() * liveEvents / float64(len(l.newest))
		l.tellAt = time.Now()
		t, cut, err := l.take(limit, max(1, int(events)))
		if err != nil {
			l.options.Log.Error("what was learned cannot be told", "error", err)
		}
		if t == nil {
			return
		}
		l.waiting, l.waits = t, cut
	}
	if !l.state.holds(l.waits) {
		return
	}
	tellCtx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	n, err := l.topic.Tell(tellCtx, l.waiting)
	if err != nil {
		l.options.Log.Error("what was learned not told: tried again", "topic", l.topic.Topic, "error", err)
		return
	}
	name := l.options.Settings.Name
	l.options.Metrics.liveRowsTold.WithLabelValues(name).Add(float64(len(l.waiting.Rows)))
	l.options.Metrics.liveBytesTold.WithLabelValues(name).Add(float64(n))
	l.waiting = nil
}

// take returns what there is to tell, with at most so many rows and events, nil for nothing, and up to where its events have to be stored before.
func (l *teamLive) take(limit, events int) (*shard.Told, []snapshot.Cut, error) {
	learned, _ := l.cycle.TakeLearned(limit, events)
	scored, _ := l.cycle.WindowLosses()
	if since := time.Since(l.lossesAt); learned == nil && (since < shard.TellEvery || scored == l.scored && since < liveBeat) {
		return nil, nil, nil
	}
	var head toldHead
	var cut []snapshot.Cut
	var rows [][]byte
	var err error
	if learned != nil {
		for _, c := range learned.To {
			cut = append(cut, snapshot.Cut(c))
		}
		if head.Learned, rows, err = learned.Encode(); err != nil {
			return nil, nil, err
		}
	}
	if head.Losses, err = l.cycle.Tell(); err != nil {
		return nil, nil, err
	}
	text, err := json.Marshal(&head)
	if err != nil {
		return nil, nil, err
	}
	l.lossesAt, l.scored = time.Now(), scored
	l.told++
	return &shard.Told{Shard: l.number, By: l.by, Number: l.told, Head: text, Rows: rows}, cut, nil
}

// finish tells what is left when a shard has read to its end.
func (l *teamLive) finish(ctx context.Context, limit int) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	l.lossesAt = time.Time{}
	for rest := true; rest && ctx.Err() == nil; {
		told := l.told
		l.tell(ctx, limit)
		if rest = l.waiting != nil || l.told > told; l.waiting != nil {
			time.Sleep(liveLook)
		}
	}
}
