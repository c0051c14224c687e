// Package notify sends another service what an operator would want to know of a model: a refit became champion, the
// gate kept one back, a partition halted. It finds that out by looking at the versions and the ledger rather than by
// being called, and keeps in a file of the state how far it has looked and what was not delivered yet. So a notice is
// delivered at least once, whatever dies when: one that was never queued is found by the next process, one that was
// queued is in the file. Requests have the form of Standard Webhooks 1.0.0 (standard-webhooks/standard-webhooks,
// spec/standard-webhooks.md): who receives them checks a signature and drops those whose id it has seen.
package notify

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/backoff"
	"github.com/refitd/refitd/snapshot/publish"
)

const (
	lookEvery = time.Second // between two looks at versions and halts
	// a partition that reads on within it, because it had no room for a while, has no notice
	haltAfter   = 10 * time.Second
	goneAfter   = time.Minute      // a process that begins halts again once it has read
	sendTimeout = 10 * time.Second // of one request
	// of the body of an answer, which says nothing: its status has come. Chosen by hand.
	bodyTimeout = 100 * time.Millisecond
	maxAnswer   = 64 << 10        // bytes of an answer's head, and of its body
	lastTimeout = 2 * time.Second // of all that are still to be sent when the daemon ends, which has five for everything
	retryMin    = time.Second     // the pause after a failure doubles from this
	retryMax    = 5 * time.Minute // to this
	maxPending  = 1000            // notices that wait; beyond them some go, see giveUp
	maxRefused  = 3               // answers in a row by which a round ends: the service is at fault, not the notices
	maxReason   = 1000            // bytes of a notice's reason
	maxBehind   = 10_000          // versions that are looked at in one go: updates are versions, too
)

// The types of notices.
const (
	Promoted = "version.promoted" // a refit became champion
	Rejected = "version.rejected" // the gate kept a refit back
	Halted   = "partition.halted" // reading a partition stopped for an operator to decide
)

// Footprint returns the bytes that the notices of a model take, with those of a copy that is written.
func Footprint() int64 { return 4 * maxPending * (maxReason + 600) }

// Halt is a partition that waits for an operator.
type Halt struct {
	Topic     string
	Partition int32
	Offset    int64 // that is read next once the operator has decided
	Reason    string
}

// The results of Options.OnResult.
const (
	Success = "success" // a notice was delivered
	Failure = "failure" // an attempt failed, and there will be another
	Dropped = "dropped" // there was no room for a notice
)

// Options of a Notifier. All but Client are required.
type Options struct {
	Model  string
	URL    string         // notices are posted there; it is never logged but for its host
	Secret []byte         // requests are signed with it
	Path   string         // of the file in the state directory
	Store  *publish.Store // versions
	Halts  func() []Halt  // partitions that are halted now
	// OnResult is called with what became of an attempt, and with how many notices wait.
	OnResult func(result string, pending int)
	Client   *http.Client // nil takes one that follows no redirections
	Log      *slog.Logger
}

// Notifier sends the notices of one model. Make it with New, call Run once.
type Notifier struct {
	Options
	queue    queue
	halts    map[string]time.Time // when each halt without a notice was first seen
	gone     map[string]time.Time // since when each halt with a notice is over
	now      func() time.Time
	failures int                // attempts in a row that were not answered
	refused  map[string]refusal // of notices that wait, by id
	unkept   bool               // the file could not be written, which was logged
}

// New reads what an earlier run left to be sent. A file that cannot be read is logged, and begun anew from the newest
// version on.
func New(o Options) *Notifier {
	if o.Client == nil {
		o.Client = newClient()
	}
	n := &Notifier{Options: o, halts: make(map[string]time.Time),
		gone: make(map[string]time.Time), now: time.Now, refused: make(map[string]refusal)}
	n.open()
	return n
}

// Run sends notices until ctx is done, and then what can be sent within seconds. A failure is reported to OnResult,
// logged once until it is over, and tried again until it succeeds, while the other notices are sent. The rest waits for
// the next run.
func (n *Notifier) Run(ctx context.Context) {
	for ctx.Err() == nil {
		n.look(false)
		n.deliver(ctx, n.due())
		pause := lookEvery
		if n.failures > 0 {
			pause = backoff.Wait(n.failures, retryMin, retryMax)
		}
		n.sleep(ctx, pause)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	n.look(true)
	if n.deliver(last, n.inOrder()); len(n.queue.Pending) > 0 {
		n.Log.Warn("notices not delivered at the end: the next start does it", "pending", len(n.queue.Pending))
	}
}

// sleep waits, and looks at the same time: what happens while nothing can be delivered is queued.
func (n *Notifier) sleep(ctx context.Context, pause time.Duration) {
	for until := time.Now().Add(pause); ctx.Err() == nil; n.look(false) {
		left := time.Until(until)
		if backoff.Sleep(ctx, min(left, lookEvery)) != nil || left <= lookEvery {
			return
		}
	}
}

// look queues what has happened since the last look. At the end of the process a halt is queued however young it is.
func (n *Notifier) look(last bool) {
	before := len(n.queue.Pending)
	changed := n.lookAtVersions()
	changed = n.lookAtHalts(last) || changed
	for len(n.queue.Pending) > maxPending {
		n.giveUp()
	}
	if changed || n.unkept {
		n.keep()
	}
	if len(n.queue.Pending) != before {
		n.OnResult("", len(n.queue.Pending))
	}
}

// lookAtVersions queues refits that were published since the newest one that was looked at.
func (n *Notifier) lookAtVersions() (changed bool) {
	latest, err := n.Store.Alias(n.Model, snapshot.Latest)
	if err != nil { // no version yet, or the store is away, which others report
		return false
	}
	n.queue.Version = max(n.queue.Version, latest.Version-maxBehind)
	for n.queue.Version < latest.Version {
		version := n.queue.Version + 1
		m, err := n.Store.Manifest(n.Model, version)
		switch {
		case err == nil:
			n.add(ofVersion(&m))
		case errors.Is(err, snapshot.ErrNotFound): // pruned since, or the number was passed by
		case errors.Is(err, snapshot.ErrSignature),
			errors.Is(err, snapshot.ErrDigest),
			errors.Is(err, snapshot.ErrFormat):
			n.Log.Warn("version left out of the notices", "version", version, "error", err)
		default: // looked at again
			return changed
		}
		n.queue.Version, changed = version, true
	}
	return changed
}

// lookAtHalts queues partitions that have been halted for a while.
func (n *Notifier) lookAtHalts(last bool) (changed bool) {
	now, halted := n.now(), make(map[string]bool)
	for _, h := range n.Halts() {
		key := h.key()
		halted[key] = true
		if n.queue.Halted[key] {
			continue
		}
		if _, seen := n.halts[key]; !seen {
			n.halts[key] = now
		}
		if last || now.Sub(n.halts[key]) >= haltAfter {
			delete(n.halts, key)
			n.queue.Halted[key], changed = true, true
			n.add(ofHalt(n.Model, &h, now))
		}
	}
	for key := range n.halts {
		if !halted[key] {
			delete(n.halts, key)
		}
	}
	for key := range n.queue.Halted {
		switch gone, known := n.gone[key]; {
		case halted[key]:
			delete(n.gone, key)
		case !known:
			n.gone[key] = now
		case now.Sub(gone) >= goneAfter: // an operator has decided: another halt is another notice
			delete(n.queue.Halted, key)
			delete(n.gone, key)
			changed = true
		}
	}
	return changed
}
