package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// refusing answers the notice of a version with a status, and all others with a success.
func (b *bench) refusing(status int, versions ...int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status = func(n *Notice) int {
		if slices.Contains(versions, n.Data.Version) {
			return status
		}
		return http.StatusNoContent
	}
}

// TestRefusedNotice: a notice that the service answers with an error holds up no other one, whatever the error, for
// as long as it lasts. It is tried again with growing pauses and delivered when the service takes it; the log says
// once that it was refused.
func TestRefusedNotice(t *testing.T) {
	for _, status := range []int{400, 404, 410, 413, 429, 500, 503, 302} {
		b := newBench(t)
		synctest.Test(t, func(t *testing.T) {
			n := b.open()
			b.refusing(status, 1)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); n.Run(ctx) }()
			for range 4 {
				b.publish("refit", "promoted")
				time.Sleep(3 * lookEvery)
			}
			b.want("version.promoted 2", "version.promoted 3", "version.promoted 4")
			time.Sleep(2 * time.Hour)
			b.mu.Lock()
			if got := b.results[Failure]; got < 20 || got > 60 || b.pending != 1 {
				t.Errorf("%d: %d attempts in two hours, %d pending", status, got, b.pending)
			}
			b.mu.Unlock()
			b.refusing(status)
			time.Sleep(2 * retryMax)
			cancel()
			<-done
		})
		b.want("version.promoted 2", "version.promoted 3", "version.promoted 4", "version.promoted 1")
		if text := b.log.String(); strings.Count(text, "level=ERROR") != 1 ||
			!strings.Contains(text, fmt.Sprint("answered ", status)) {
			t.Errorf("%d: log\n%s", status, text)
		}
	}
}

// TestHaltsGoFirst: a halt is sent before the versions that wait, and a service that refuses everything is asked a
// few times in a round.
func TestHaltsGoFirst(t *testing.T) {
	b := newBench(t)
	n := b.open()
	for range 5 {
		b.publish("refit", "promoted")
	}
	n.look(false)
	b.halts = []Halt{{Topic: "ratings", Offset: 9, Reason: "quarantined"}}
	n.look(true)
	attempts := 0
	b.status = func(*Notice) int { attempts++; return 503 }
	if n.sent(t) || attempts != maxRefused {
		t.Errorf("%d attempts in a round", attempts)
	}
	b.refusing(0)
	n.deliver(t.Context(), n.inOrder())
	list := b.received()
	if len(list) != 6 ||
		!slices.Equal(list[:3], []string{"version.promoted 3", "version.promoted 4", "version.promoted 5"}) {
		t.Errorf("sent %q: those that were refused come last", list)
	}
	if list[3] != "partition.halted ratings/0@9" {
		t.Errorf("sent %q: of these the halt is first", list)
	}
	b.got, b.halts[0].Offset = nil, 10
	b.publish("refit", "kept")
	n.look(true)
	if n.sent(t); !slices.Equal(b.received(), []string{"partition.halted ratings/0@10", "version.rejected 6"}) {
		t.Errorf("sent %q", b.received())
	}
}

// TestNoAnswerHoldsAll: where the service does not answer, two attempts end the round, and the notices keep their
// order.
func TestNoAnswerHoldsAll(t *testing.T) {
	b := newBench(t)
	n := b.open()
	b.publish("refit", "promoted")
	b.publish("refit", "promoted")
	n.look(false)
	attempts := 0
	b.answer = func() (int, error) { attempts++; return 0, errors.New("connection refused") }
	if n.sent(t) || attempts != 2 || n.failures != 1 || len(n.refused) != 0 {
		t.Errorf("%d attempts, %d failures, %d refused", attempts, n.failures, len(n.refused))
	}
	b.answer = func() (int, error) { return 200, nil }
	if !n.sent(t) || n.failures != 0 {
		t.Errorf("%d failures, %d pending", n.failures, len(n.queue.Pending))
	}
	b.want("version.promoted 1", "version.promoted 2")
}

// TestSilentNotice: notices of which the service dies, or that it leaves without an answer, hold up no other one.
func TestSilentNotice(t *testing.T) {
	b := newBench(t)
	n := b.open()
	for range 4 {
		b.publish("refit", "promoted")
	}
	n.look(false)
	attempts := 0
	b.status = func(notice *Notice) int {
		attempts++
		if notice.Data.Version <= 2 {
			return 0
		}
		return http.StatusNoContent
	}
	for range 4 {
		n.deliver(t.Context(), n.inOrder())
	}
	b.want("version.promoted 3", "version.promoted 4")
	if b.pending != 2 || attempts > 10 {
		t.Errorf("%d pending after %d attempts", b.pending, attempts)
	}
	b.refusing(http.StatusNoContent)
	n.deliver(t.Context(), n.inOrder())
	b.want("version.promoted 3", "version.promoted 4", "version.promoted 1", "version.promoted 2")
}

// TestGiveUp: where too many wait, versions that were refused go first, then the oldest versions; halts stay as long
// as there is a version.
func TestGiveUp(t *testing.T) {
	b := newBench(t)
	n := b.open()
	for i := range maxPending {
		kind := Promoted
		if i < 2 {
			kind = Halted
		}
		n.add(&Notice{ID: fmt.Sprint(i), Type: kind})
	}
	n.refuse(&Notice{ID: "0"}, errors.New("410"))
	n.refuse(&Notice{ID: "7"}, errors.New("410"))
	for _, want := range []string{"7", "2", "3"} {
		n.add(&Notice{ID: "more" + want, Type: Promoted})
		n.look(false)
		if slices.ContainsFunc(n.queue.Pending, func(p Notice) bool { return p.ID == want }) ||
			len(n.queue.Pending) != maxPending {
			t.Errorf("notice %s is there, of %d", want, len(n.queue.Pending))
		}
	}
	if b.results[Dropped] != 3 || n.queue.Pending[0].ID != "0" || n.queue.Pending[1].ID != "1" || len(n.refused) != 1 {
		t.Errorf("%v, %d refused", b.results, len(n.refused))
	}
}
