package shard

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrTrainers: another process is the trainer of the same shards, and was started later.
var ErrTrainers = errors.New("another process is the trainer")

// A Term is a time for which a process is the one that trains.
type Term struct {
	Epoch  int64         // larger than that of every term before
	number int64         // of the member
	over   chan struct{} // closed once, by ended
}

// Over is closed when the term is over.
func (t *Term) Over() <-chan struct{} { return t.over }

// tenure is what a trainer knows of who trains. A term begins when the process has said so in the merge topic, after
// everything that was there when the group gave it the partition; it ends when the group takes the partition, when no
// answer of the group counts any more, or when the topic has a later term.
type tenure struct {
	name    string
	by      instance  // of this process in the wishes; zero while it makes none
	sent    instance  // of the last wishes written
	seen    instance  // the latest in the topic
	host    string    // of that one
	held    int64     // the time of the member for which this process asks, or has been superseded
	from    int64     // end of the topic when that began
	behind  bool      // superseded in it
	looked  time.Time // at the store
	version int64     // the newest that is known to have been published
}

func newTenure() tenure { return tenure{name: rand.Text()} }

// Stand takes part in the decision which of several trainers trains, until ctx is done. It returns at once where there
// is one.
func (r *Receiver) Stand(ctx context.Context) error {
	if r.member == nil {
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case <-r.checked: // a topic that is missing is made
	}
	memberCtx, leave := context.WithCancel(ctx)
	defer leave()
	ended := make(chan error, 1)
	go func() { ended <- r.member.run(memberCtx) }()
	// A hundredth of the session: the term ends here well before the group gives the partition to another.
	tick := time.NewTicker(max(10*time.Millisecond, r.Standby/100))
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
			r.look()
		}
	}
}

// Term returns the term of this process, nil while another trains.
func (r *Receiver) Term() *Term {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.term == nil || !r.holds(r.term.number) {
		return nil
	}
	return r.term
}

// Waits says who trains while this process is on standby, or "".
func (r *Receiver) Waits() string {
	if r.member == nil || r.Term() != nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.host == "" {
		return "standby: no trainer has begun to train"
	}
	return fmt.Sprintf("standby: %s trains", r.host)
}

// holds reports whether the partition has been this process's since a time of the member began.
func (r *Receiver) holds(number int64) bool {
	if r.member == nil {
		return true
	}
	now, ok := r.member.held()
	return ok && now == number
}

// decided reports whether it is known which process trains.
func (r *Receiver) decided() bool {
	if r.member == nil || r.Term() != nil {
		return true
	}
	joined, holds := r.member.settled()
	return joined && !holds
}

// look ends the term if it is over.
func (r *Receiver) look() {
	r.mu.Lock()
	term := r.term
	over := term != nil && !r.holds(term.number)
	if over {
		r.term = nil
	}
	r.mu.Unlock()
	if over {
		r.ended(term, "the group has given the merge topic to another, or does not answer")
	}
}

func (r *Receiver) ended(term *Term, reason string) {
	close(term.over)
	r.Log.Warn("this trainer is on standby from now on", "topic", r.Topic, "epoch", term.Epoch, "reason", reason)
	r.OnTerm()
}

// rule makes this process the one that trains, where it is its turn, and asks the shards for what it wants.
func (r *Receiver) rule(ctx context.Context, now bool) error {
	t := &r.tenure
	held := int64(0)
	if r.member != nil {
		var ok bool
		if held, ok = r.member.held(); !ok {
			t.by = instance{}
			return nil
		}
	}
	// A new time begins where the topic ends now: wishes before that are of trainers before. They are read first, so
	// that the epoch is above theirs.
	if held != t.held || r.member == nil && t.by == (instance{}) {
		t.held, t.by, t.behind = held, instance{}, false
		_, end, err := bounds(ctx, r.client, r.Topic)
		if err != nil {
			t.held = -1 // asked again at the next turn
			return err
		}
		t.from = end
	}
	// Not yet read up to there, or superseded in this very time: it is not this process's turn.
	if t.behind || r.next < t.from {
		return nil
	}
	if none := (instance{}); t.by == none || time.Since(t.looked) >= time.Second {
		epoch, version := r.Newest()
		t.looked = time.Now()
		if t.by == none {
			if r.strays(version) {
				return nil
			}
			r.sent = nil
			// Above the epochs of the topic and of published versions: if the topic was lost, the store still knows.
			t.by = instance{max(t.seen.Epoch, uint64(max(epoch, 0))) + 1, t.name}
		}
		if version > t.version {
			t.version, r.sent = version, nil
		}
	}
	// The term begins when the wishes are in the topic, not before: from then on every other trainer finds them.
	if err := r.wish(ctx, now); err != nil || t.sent != t.by {
		return err
	}
	r.reign(held)
	return nil
}

// strays reports, and notes, whether the store here lacks versions that other trainers have published.
func (r *Receiver) strays(version int64) bool {
	t, text := &r.tenure, ""
	if r.member != nil && version < t.version {
		text = fmt.Sprintf(
			"shard: publish.store has version %d at most here, %s has published version %d: all trainers have to have the "+
				"same store",
			version,
			t.host,
			t.version,
		)
	}
	r.mu.Lock()
	before := r.stray
	r.stray = text
	r.mu.Unlock()
	if text != "" && text != before {
		r.Log.Error("this trainer does not train: its store lacks versions", "newest", version, "published", t.version,
			"host", t.host)
	}
	return text != ""
}

// reign begins a term, unless it has begun.
func (r *Receiver) reign(held int64) {
	r.mu.Lock()
	if r.term != nil || !r.holds(held) {
		r.mu.Unlock()
		return
	}
	// Under the lock, together with holds: the partition may have gone since rule looked.
	term := &Term{Epoch: int64(r.tenure.by.Epoch), number: held, over: make(chan struct{})}
	r.term = term
	r.mu.Unlock()
	if r.member != nil {
		r.Log.Warn("this trainer trains from now on", "topic", r.Topic, "epoch", term.Epoch)
	}
	r.OnTerm()
}

// heed takes up what a trainer of this team has written. The error wraps ErrTrainers where this one is to be the only
// one, and was started before that.
func (r *Receiver) heed(rec *kgo.Record) error {
	t := &r.tenure
	w := new(wishes)
	if err := decode(rec, r.Model, w); err != nil {
		r.Log.Warn("what a trainer asks for cannot be read", "topic", r.Topic, "error", err)
		return nil
	}
	none := instance{}
	rules := w.By.rules(t.seen)
	switch {
	case rules && w.By != none:
		if t.seen, t.host = w.By, w.Host; w.By != t.by {
			t.version = w.Version
		}
		r.mu.Lock()
		if r.host = w.Host; w.By.Name == t.name {
			r.host = ""
		}
		r.mu.Unlock()
	case rules: // of a build that did not say
	case w.By.compare(t.seen) > 0:
		r.sent = nil // the topic is to keep what the trainer asks for
		r.OnDropped(DroppedEpoch)
		r.Log.Warn("what a trainer asks for dropped", "topic", r.Topic, "offset", rec.Offset, "host", w.Host, "reason",
			errImplausible)
		return nil
	}
	switch {
	case t.by == none, w.By == none:
	case w.By == t.by: // of somebody else who says so, unless it is what was written last
		if !bytes.Equal(rec.Value, r.sent) {
			r.sent = nil
		}
	case w.By.compare(t.by) < 0: // of a late one: the topic is to keep what this one asks for
		r.sent = nil
	default:
		t.by, t.behind = none, true
		r.mu.Lock()
		term := r.term
		r.term = nil
		r.mu.Unlock()
		if term != nil {
			r.ended(term, w.Host+" trains")
		}
		if r.member == nil {
			return fmt.Errorf(
				"%s is the trainer of model %s, too, and was started later: set shard.standby on both, or end one of them: %w",
				w.Host,
				r.Model,
				ErrTrainers,
			)
		}
	}
	return nil
}

// outdo begins another term where a shard follows a later one than this, whose wishes the topic has lost: it would pass
// over those of this one.
func (r *Receiver) outdo(by instance) {
	t, none := &r.tenure, instance{}
	if by.compare(t.seen) <= 0 || !by.rules(t.seen) {
		return
	}
	t.seen = by
	if t.by == none || by.compare(t.by) <= 0 {
		return
	}
	t.by = none
	r.mu.Lock()
	term := r.term
	r.term = nil
	r.mu.Unlock()
	if term != nil {
		r.ended(term, "a shard follows a later term, which the merge topic does not have")
	}
}

func hostName() string {
	host, _ := os.Hostname() // for messages
	return host
}
