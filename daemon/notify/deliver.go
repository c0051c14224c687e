package notify

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/refitd/refitd/snapshot/backoff"
)

// A refusal is what a notice waits for that the service answered with an error, or not, while it answered others.
type refusal struct {
	attempts int
	until    time.Time
}

// inOrder returns the notices that wait as they are sent: those of the fewest refusals first, of these halts, and
// then the oldest.
func (n *Notifier) inOrder() []Notice {
	list := slices.Clone(n.queue.Pending)
	slices.SortStableFunc(list, func(a, b Notice) int {
		return cmp.Or(cmp.Compare(n.refused[a.ID].attempts, n.refused[b.ID].attempts), compareHalts(&a, &b))
	})
	return list
}

// compareHalts puts halts before versions.
func compareHalts(a, b *Notice) int {
	switch {
	case (a.Type == Halted) == (b.Type == Halted):
		return 0
	case a.Type == Halted:
		return -1
	}
	return 1
}

// due is inOrder without those that were refused a short while ago.
func (n *Notifier) due() []Notice {
	now := n.now()
	return slices.DeleteFunc(n.inOrder(), func(notice Notice) bool { return now.Before(n.refused[notice.ID].until) })
}

// deliver sends notices. A refused notice alone waits. Where the service refuses several in a row, or does not answer,
// all wait. As one notice alone may go without an answer, another is sent after it, after each failure the next one.
func (n *Notifier) deliver(ctx context.Context, list []Notice) {
	refused, at := 0, 0
	var silent *Notice
	var silence error
	for len(list) > 0 {
		notice := list[at]
		list = slices.Delete(list, at, at+1)
		at = 0
		err := n.send(ctx, &notice)
		answer, answered := errors.AsType[*answerError](err)
		switch {
		case ctx.Err() != nil && err != nil && n.failures == 0:
			return // called off
		case err != nil && !answered && silent == nil && len(list) > 0:
			silent, silence, at = &notice, err, n.failures%len(list)
			continue
		case err != nil && !answered:
			if silent != nil {
				n.OnResult(Failure, len(n.queue.Pending))
			}
			n.unanswered(&notice, err)
			return
		}
		if silent != nil {
			n.refuse(silent, silence)
			silent = nil
		}
		if err == nil {
			n.delivered(&notice)
			refused = 0
			continue
		}
		n.failures = 0
		n.refuse(&notice, answer)
		if refused++; refused >= maxRefused {
			return
		}
	}
}

// unanswered notes that a round ended without an answer.
func (n *Notifier) unanswered(notice *Notice, err error) {
	if n.failures++; n.failures == 1 {
		n.Log.Error("notice not delivered: tried again until it is", "type", notice.Type, "id", notice.ID, "error", err)
	}
	n.OnResult(Failure, len(n.queue.Pending))
}

// delivered takes a notice out of the queue.
func (n *Notifier) delivered(notice *Notice) {
	if attempts := n.failures + n.refused[notice.ID].attempts; attempts > 0 {
		n.Log.Info("notice delivered after failures", "type", notice.Type, "id", notice.ID, "attempts", attempts)
	}
	n.failures = 0
	n.remove(notice.ID)
	n.keep()
	n.OnResult(Success, len(n.queue.Pending))
}

// refuse notes that the service answered a notice with an error, or that one alone without an answer.
func (n *Notifier) refuse(notice *Notice, answer error) {
	attempts := n.refused[notice.ID].attempts + 1
	n.refused[notice.ID] = refusal{attempts, n.now().Add(backoff.Wait(attempts, retryMin, retryMax))}
	if attempts == 1 {
		n.Log.Error("notice refused: tried again until it is delivered", "type", notice.Type, "id", notice.ID, "error",
			answer)
	}
	n.OnResult(Failure, len(n.queue.Pending))
}

// giveUp drops a notice: the oldest version that was refused, else the oldest version, else the oldest halt.
func (n *Notifier) giveUp() {
	at := slices.IndexFunc(n.queue.Pending,
		func(p Notice) bool { return p.Type != Halted && n.refused[p.ID].attempts > 0 })
	if at < 0 {
		at = max(0, slices.IndexFunc(n.queue.Pending, func(p Notice) bool { return p.Type != Halted }))
	}
	notice := n.queue.Pending[at]
	n.Log.Error("notice given up: there are too many to be delivered", "type", notice.Type, "id", notice.ID)
	n.remove(notice.ID)
	n.OnResult(Dropped, len(n.queue.Pending))
}

// remove takes a notice out of the queue, the first of that id.
func (n *Notifier) remove(id string) {
	at := slices.IndexFunc(n.queue.Pending, func(p Notice) bool { return p.ID == id })
	n.queue.Pending = slices.Delete(n.queue.Pending, at, at+1)
	delete(n.refused, id)
}
