package shard

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/produce"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/backoff"
)

const (
	beatEvery    = 20 * time.Second       // between two heads where nothing changed
	excerptBytes = 1 << 20                // of rows that are held in memory between the sample and the producer
	retryMin     = 500 * time.Millisecond // first pause after a failure; it doubles up to retryMax
	retryMax     = 30 * time.Second

	nowhere = -1 // an offset that is not known yet
)

// ErrSuperseded: another process runs the same shard, and was started later.
var ErrSuperseded = errors.New("another process is this shard")

// ErrForgotten: subjects are to be forgotten that the state knows nothing of; starting again takes them out before
// anything is read.
var ErrForgotten = errors.New("subjects were forgotten: start again")

// ErrMoved: another process has been this shard since the state was made, so the state is behind what the topic has.
var ErrMoved = errors.New("another process has been this shard since")

// errLetters: records that a head counts are rejected, and not in the topic of dead letters yet.
var errLetters = errors.New("dead letters of the rows wait to be sent (input.dead_letter.topic)")

// SenderOptions are those of a Sender. All but those from OnSent on are required.
type SenderOptions struct {
	Kafka  []kgo.Opt // brokers, encryption, sign-in
	Topic  string    // the merge topic
	Model  string
	Count  int // shards
	Number int // of this one
	Store  *sketch.Store
	Log    *slog.Logger
	// Forget takes the subjects of a trainer's state out of Store, before anything is read.
	Forget func(ctx context.Context, w *sketch.Witness) error
	OnSent func(pairs int, bytes int64) // called after each head
	Lag    func() int64                 // records of the shard's partitions that are not applied yet
	Now    func() time.Time             // the clock of the host, which heads say
	Key    func(option string) string   // of an option of sketch, for messages; nil for its name
	// Agreement is what else all processes have to have the same, as in ReceiverOptions.
	Agreement map[string]string
	// Moves is whether another process may take the shard's place, and leave this state behind: a head then waits until
	// all dead letters are sent of the records that it counts.
	Moves bool
}

// Sender sends the sample of a shard to the merge topic. Make it with NewSender, call Prepare, then Run, each once.
type Sender struct {
	SenderOptions
	by      instance // this run of the shard, which heads and pairs carry; its epoch grows with each attempt
	state   string   // lineage of the state directory: two runs of one state continue each other's heads
	client  *kgo.Client
	sent    int64
	from    int64     // see head; nowhere until something is written
	after   mark      // see head
	resent  instance  // of which pairs were missed, the last time that everything was sent again
	strange error     // the trainer is of another sample
	policy  [2]policy // digests of what all processes agree on; the second is that of builds before there was an agreement
	taken   bool      // the state has just been taken up from the topic
	beat    time.Time
	noted   time.Time              // when the mark of a head was kept at the latest, though nothing had changed
	done    mark                   // up to where the topic was read whose wishes are done, as in marks that are kept
	pace    pace                   // when the next head is due
	failing atomic.Pointer[string] // read by the status page, from other goroutines

	mu      sync.Mutex // guards what follows, which the goroutine that reads the topic writes
	wishes  *wishes    // the last ones, nil when they are done
	trainer instance   // whose they are
	seen    mark       // of the last head that the topic has of this state
	other   *head      // the last one of a later instance of the same shard
	passed  uint64     // largest epoch of heads that are none of this model, and of pairs
	headed  uint64     // largest epoch of heads of this shard
	next    int64      // offset to be read
}

// NewSender returns a sender. Nothing is connected before Prepare.
func NewSender(o SenderOptions) *Sender {
	if o.OnSent == nil {
		o.OnSent = func(int, int64) {}
	}
	if o.Lag == nil {
		o.Lag = func() int64 { return 0 }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Sender{SenderOptions: o, by: instance{Name: rand.Text()}, pace: pace{number: o.Number},
		policy: policiesOf(o.Model, o.Count, o.Store, o.Agreement)}
}

// Took says that the state has just been made of what the topic has, and whether that was anything. It is called before
// Prepare.
func (s *Sender) Took(rows bool) { s.taken, s.pace.begun = true, rows }

// Trouble says why nothing can be sent, or "".
func (s *Sender) Trouble() string {
	if text := s.failing.Load(); text != nil {
		return *text
	}
	return ""
}

// Prepare connects, looks at the topic until it can or ctx is done, and takes up what the trainer has asked for so far.
// The error wraps ErrTopic, or is one of Forget or of the state. With Moves it may be ErrMoved.
func (s *Sender) Prepare(ctx context.Context) error {
	for failures := 1; ; failures++ {
		err := s.prepare(ctx)
		if err == nil {
			err = s.recall(ctx)
			s.fails(nil)
			return err
		}
		switch {
		case errors.Is(err, ErrTopic),
			errors.Is(err, ErrMoved),
			errors.Is(err, sketch.ErrStorage),
			errors.Is(err, sketch.ErrCorrupt):
			s.fails(nil)
			return err
		case ctx.Err() != nil: // a stop is no trouble
			s.fails(nil)
			return nil
		}
		if failures == 1 {
			s.Log.Error("merge topic cannot be read: tried again until it can", "topic", s.Topic, "error", err)
		}
		s.fails(err)
		_ = backoff.Sleep(ctx, backoff.Doubled(failures, retryMin, retryMax))
	}
}

func (s *Sender) fails(err error) {
	if err == nil {
		s.failing.Store(nil)
		return
	}
	text := fmt.Sprintf("shard: the merge topic %s: %v", s.Topic, err)
	s.failing.Store(&text)
}

// prepare reads the topic to its end to learn which instances of this shard there were, and what the trainer asks for.
func (s *Sender) prepare(ctx context.Context) error {
	client, err := produce.NewClient(append([]kgo.Opt{kgo.DefaultProduceTopic(s.Topic)}, s.Kafka...)...)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := check(ctx, client, s.Topic, s.Log, false); err != nil {
		return err
	}
	start, end, err := bounds(ctx, client, s.Topic)
	if err != nil {
		return err
	}
	kept, err := s.kept()
	if err != nil {
		return err
	}
	// What was read before this start is in the mark of the state: only what follows is read, unless another policy
	// wrote it.
	if s.next == 0 &&
		kept.Policy == s.policy[0] { // else it is known up to there: of an attempt that failed, or of who took the shard up
		s.next, s.passed = kept.Next, max(s.passed, kept.Passed, kept.By.Epoch)
		s.headed = max(s.headed, s.passed)
		s.pace.begun = kept.Next > 0
	}
	// The topic was made anew, or its start has moved past: all of it is read.
	if s.next < start || s.next > end {
		s.next = start
	}
	from := s.next
	if err := s.read(ctx, end); err != nil {
		return err
	}
	own, err := s.Store.Testify()
	if err != nil {
		return err
	}
	if from > start && from == kept.Next &&
		s.lacks(own.Lineage, kept) { // what the trainer asked for may have to be done again
		s.next = start
		if err := s.read(ctx, end); err != nil {
			return err
		}
	}
	s.after, s.from = kept.head(), kept.From
	if kept == (mark{}) { // nothing was sent yet
		s.from = nowhere
	}
	// A later head of this shard that the topic already had: whose it is decides between going on and starting over.
	before := s.other
	s.state, s.other, s.seen = own.Lineage, nil, mark{}
	s.by.Epoch = max(s.passed, s.after.By.Epoch) + 1 // the trainer may have merged what the topic has lost since
	if before != nil {
		s.by.Epoch = max(s.by.Epoch, before.By.Epoch+1)
		if before.State != s.state { // while that was the shard, nobody took what this one sent
			if s.Moves && !s.taken {
				return ErrMoved
			}
			return s.resend()
		}
		s.seen = before.mark()
	}
	return s.sendLost()
}

// kept returns the mark of the state, zero before the first one.
func (s *Sender) kept() (m mark, err error) {
	b, err := s.Store.Mark()
	if err != nil || len(b) == 0 {
		return m, err
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("shard: %w: %w", sketch.ErrCorrupt, err)
	}
	return m, nil
}

// lacks reports whether no head was read that is as late as one of a state that the brokers have acknowledged.
func (s *Sender) lacks(state string, acknowledged mark) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.other == nil || s.other.State == state && s.other.mark().compare(acknowledged) < 0
}

// sendLost has everything sent again if the topic has lost a head that the brokers have acknowledged, and so perhaps
// the rows before it. Nobody else would miss them: the next instance counts its own.
func (s *Sender) sendLost() error {
	acknowledged, err := s.kept()
	if err != nil || acknowledged.compare(mark{}) == 0 {
		return err
	}
	s.after = acknowledged.head()
	s.mu.Lock()
	// Acknowledged by all in-sync replicas and yet not there: an unclean election, or a topic that was made anew.
	lost := s.seen.compare(acknowledged) < 0
	s.mu.Unlock()
	if !lost {
		return nil
	}
	s.Log.Warn("merge topic does not have a head of this shard", "note", "all rows are sent again",
		"topic", s.Topic)
	return s.resend()
}

// resend has this instance, which has sent nothing yet, send everything.
func (s *Sender) resend() error {
	s.after, s.from = mark{}, nowhere
	return s.Store.Resend()
}

// read reads on to an offset, or until ctx is done where it is negative.
func (s *Sender) read(ctx context.Context, end int64) error {
	client, err := kgo.NewClient(append([]kgo.Opt{readFrom(s.Topic, s.next)}, s.Kafka...)...)
	if err != nil {
		return err
	}
	defer client.Close()
	// Nothing but the offset is kept of a failed attempt: see takes records up one by one.
	for end < 0 || s.next < end {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(s.see)
	}
	return nil
}

// see takes up a record of the topic.
func (s *Sender) see(r *kgo.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = r.Offset + 1
	kind, number, _, ok := parseKey(r.Key)
	switch {
	case !ok || r.Value == nil && kind != kindPair:
	case kind == kindPair: // of a run that ended before its head, perhaps
		if by, ok := instanceOf(r, s.policy); ok && number == s.Number && by.Name != s.by.Name {
			s.seePair(r, &by)
		}
	case kind == kindHead && number == s.Number:
		s.seeHead(r)
	case kind == kindTrainer:
		w := new(wishes)
		if err := decode(r, s.Model, w); err != nil {
			s.Log.Warn("thresholds passed over", "topic", s.Topic, "error", err)
		} else if w.By.rules(s.trainer) { // else of a trainer that another one has replaced, or of none
			s.wishes, s.trainer = w, w.By
		}
	}
}

// seePair takes up a pair of another run of this shard: its head may never come, but its epoch must not be used again.
// An epoch far above all heads is a foreign or broken record: to follow it would use up the numbers.
func (s *Sender) seePair(r *kgo.Record, by *instance) {
	if !by.follows(s.headed) {
		s.Log.Warn("pair of an implausible epoch passed over", "topic", s.Topic, "offset", r.Offset)
		return
	}
	s.passed = max(s.passed, by.Epoch)
}

// seeHead takes up a head of this shard.
func (s *Sender) seeHead(r *kgo.Record) {
	h := new(head)
	if err := decode(r, s.Model, h); err != nil {
		s.Log.Warn("head of this shard passed over", "topic", s.Topic, "error", err)
		s.passed = max(s.passed, epochOf(r.Value))
		s.headed = max(s.headed, epochOf(r.Value))
		return
	}
	if !h.By.followsHead(max(s.headed, s.passed)) {
		s.Log.Warn("head of an implausible epoch passed over", "topic", s.Topic, "offset", r.Offset)
		return
	}
	s.headed = max(s.headed, h.By.Epoch)
	m := h.mark()
	switch {
	case h.By.compare(s.by) > 0:
		if s.other == nil || m.compare(s.other.mark()) > 0 {
			s.other = h
		}
	case h.State == s.state && m.compare(s.seen) > 0:
		s.seen = m
	}
}

// recall forgets the subjects that the trainer has forgotten.
func (s *Sender) recall(ctx context.Context) error {
	w := s.wishes
	if w == nil || s.Store.Agrees(w.Settings) != nil || w.Forgotten == nil || s.Store.Knows(w.Forgotten) {
		return nil
	}
	return s.Forget(ctx, w.Forgotten)
}

// Run sends until done is closed, and then what is left, or until ctx is done. The error wraps ErrSuperseded or
// ErrForgotten, or is one of the state.
func (s *Sender) Run(ctx context.Context, done <-chan struct{}) error {
	readCtx, stop := context.WithCancel(ctx)
	var reading sync.WaitGroup
	reading.Go(func() { s.follow(readCtx) })
	defer reading.Wait()
	defer stop()
	defer s.close()
	// More shards send more rarely each, so that the trainer merges at a steady rate.
	tick := time.NewTicker(every(s.Count))
	defer tick.Stop()
	for failures, last := 0, false; ; {
		if err := s.obey(); err != nil {
			return err
		}
		var err error
		if last || !s.pace.waits(time.Now(), s.applied(), s.Lag(), s.Store.Full()) {
			err = s.send(ctx)
		}
		switch {
		case errors.Is(err, ErrTopic), errors.Is(err, sketch.ErrStorage), errors.Is(err, sketch.ErrCorrupt):
			return err
		case ctx.Err() != nil:
			s.Log.Warn("rows not sent at the end: the next start does it", "topic", s.Topic, "error", err)
			return nil
		case err != nil:
			s.close()
			s.by.Epoch, s.sent = s.by.Epoch+1, 0 // what arrived of it is not known, and does not count
			if failures++; failures == 1 {
				s.Log.Error("rows not sent: tried again until they are", "topic", s.Topic, "error", err)
			}
			s.fails(err)
			_ = backoff.Sleep(ctx, backoff.Doubled(failures, retryMin, retryMax))
			if err := s.sendLost(); err != nil {
				return err
			}
			continue
		case last:
			return nil
		}
		failures = 0
		s.fails(s.strange)
		select {
		case <-ctx.Done():
		case <-done:
			last = true
		case <-tick.C:
		}
	}
}

// applied returns the records of the shard's partitions that have been.
func (s *Sender) applied() (total int64) {
	for _, l := range s.Store.Ledger() {
		total += l.Next - l.Start
	}
	return total
}

// follow reads the topic until ctx is done.
func (s *Sender) follow(ctx context.Context) {
	for failures := 1; ctx.Err() == nil; failures++ {
		if err := s.read(ctx, -1); ctx.Err() == nil {
			s.Log.Warn("merge topic cannot be read: tried again until it can", "topic", s.Topic, "error", err)
			_ = backoff.Sleep(ctx, backoff.Doubled(failures, retryMin, retryMax))
		}
	}
}

// obey does what the trainer asks for, and ends the shard where another process is it.
func (s *Sender) obey() error {
	s.mu.Lock()
	// Taken out under the lock, done without it: Raise and Resend write to disk.
	w, other, next, passed := s.wishes, s.other, s.next, s.passed
	s.wishes = nil
	s.mu.Unlock()
	if other != nil {
		return fmt.Errorf(
			"shard %d of model %s runs on %s, too, and was started later there: each of the %d shards is one process: %w",
			s.Number,
			s.Model,
			other.Host,
			s.Count,
			ErrSuperseded,
		)
	}
	if w == nil {
		if s.strange == nil {
			s.done = mark{Next: next, Passed: passed}
		}
		return nil
	}
	if s.strange = s.Store.Agrees(w.Settings); s.strange == nil && len(w.Thresholds) != len(s.Store.Thresholds()) {
		s.strange = fmt.Errorf("%d thresholds: %w", len(w.Thresholds), errImplausible)
	}
	if s.strange != nil {
		s.strange = fmt.Errorf("what the trainer asks for is passed over: %w",
			unlike(s.strange, s.Key, "at the trainer", "here"))
		s.Log.Error("trainer is of another sample", "topic", s.Topic, "error", s.strange)
		return nil
	}
	if w.Forgotten != nil && !s.Store.Knows(w.Forgotten) {
		return ErrForgotten
	}
	// Rows below the trainer's thresholds would be evicted there at once: they are not sent.
	if _, err := s.Store.Raise(w.Thresholds); err != nil {
		return err
	}
	s.pace.merged, s.done = w.Merged, mark{Next: next, Passed: passed}
	// The state and the topic have lost that there was one.
	if passed := w.Passed[s.Number]; passed.compare(s.by) > 0 && passed.follows(s.by.Epoch) {
		s.Log.Warn(
			"trainer has merged a later run than the merge topic has",
			"note", "all rows are sent again",
			"topic", s.Topic)
		s.by.Epoch, s.sent = passed.Epoch+1, 0
		return s.resend()
	}
	if lost, ok := w.Resend[s.Number]; ok && lost != s.resent {
		s.resent = lost
		s.Log.Warn("the merge topic has lost rows of this shard", "note", "all are sent again", "topic", s.Topic)
		s.by.Epoch, s.sent = s.by.Epoch+1, 0
		return s.resend()
	}
	return nil
}
