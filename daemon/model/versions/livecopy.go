package versions

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/guard"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/model/state"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/web"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot"
)

// A copy of the live model is served until it is liveAge old. The next one is made in parallel with the requests from
// liveRenew on, so that none of them waits while they keep coming.
const (
	liveAge   = time.Second
	liveRenew = liveAge / 2
)

// Live has what a cycle has learned up to now, for requests to score with (serve.live): what an update would
// publish, whether or not updates predict better than the last refit. What the guard of updates holds back is not
// served. It is made only if somebody asks. The first one after a refit is a copy, which takes time and memory in
// proportion to the model; the next ones share with it what has not changed.
type Live struct {
	copy func() (liveCopy, error) // of the current state
	log  *slog.Logger

	mu       sync.Mutex // held while a copy is made
	last     atomic.Pointer[liveCopy]
	renewals sync.WaitGroup
}

// liveCopy is a copy of the live model, with why the guard of updates holds it back: "" where it may be served.
type liveCopy struct {
	model    *snapshot.Model
	heldBack guard.HeldBack
}

// Get returns a copy that is less than a second old, or was made for this request. The error is a web.HeldBackError
// where the guard holds it back.
func (l *Live) Get() (*snapshot.Model, error) {
	c, err := l.current()
	if err == nil && c.heldBack != "" {
		err = &web.HeldBackError{Reason: string(c.heldBack)}
	}
	if err != nil {
		return nil, err
	}
	return c.model, nil
}

func (l *Live) current() (*liveCopy, error) {
	switch age := l.age(); {
	case age < liveRenew:
		return l.last.Load(), nil
	case age < liveAge:
		last := l.last.Load()
		// The lock goes to the goroutine, which gives it up: one renewal at a time.
		if l.mu.TryLock() {
			l.renewals.Go(func() {
				defer l.mu.Unlock()
				_, _ = l.renew(liveRenew) // tried again, and answered with, once a request has to wait
			})
		}
		return last, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renew(liveAge)
}

// HeldBack returns why the guard held the last copy back, "" where it did not or there is no copy.
func (l *Live) HeldBack() guard.HeldBack {
	if c := l.last.Load(); c != nil {
		return c.heldBack
	}
	return ""
}

// age returns how old the last copy is.
func (l *Live) age() time.Duration {
	if c := l.last.Load(); c != nil {
		return time.Since(c.model.Position().Created)
	}
	return liveAge
}

// renew makes a copy unless somebody else has just made one. l.mu is held.
func (l *Live) renew(from time.Duration) (*liveCopy, error) {
	if l.age() < from {
		return l.last.Load(), nil
	}
	var c liveCopy
	// A panic of the copy is an error of the request, not the end of the process.
	if err := part.Recovered(func() (err error) {
		c, err = l.copy()
		return err
	}); err != nil {
		return nil, err
	}
	last := l.last.Swap(&c)
	switch was := last != nil && last.heldBack != ""; {
	case c.heldBack != "" && !was:
		l.log.Warn("live model held back: the champion answers in place of it", "reason", string(c.heldBack))
	case c.heldBack == "" && was:
		l.log.Info("live model answers again")
	}
	return &c, nil
}

// Close waits for a renewal that still runs. No request may be under way.
func (l *Live) Close() { l.renewals.Wait() }

// NewLive returns the live model of a cycle.
func NewLive(learning *cycle.Cycle, state *state.State, log *slog.Logger) *Live {
	return &Live{log: log, copy: func() (liveCopy, error) {
		m, heldBack, err := learning.Live(time.Now(), watermarkOf(state.Store.Ledger()), publish.Writer)
		if errors.Is(err, updates.ErrNoChampion) {
			err = snapshot.ErrNotFound
		}
		if err != nil {
			return liveCopy{}, fmt.Errorf("model: live: %w", err)
		}
		return liveCopy{m, heldBack}, nil
	}}
}

// watermarkOf returns the newest event time of a ledger, zero if no row has one. Events are learned before they are
// stored, so the live model knows those up to it.
func watermarkOf(rows []sketch.LedgerRow) time.Time {
	newest := int64(sketch.NoTime)
	for i := range rows {
		newest = max(newest, rows[i].Watermark)
	}
	if newest == sketch.NoTime {
		return time.Time{}
	}
	return time.UnixMilli(newest)
}
