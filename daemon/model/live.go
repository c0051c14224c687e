package model

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot"
)

// A copy of the live model is served until it is liveAge old. The next one is made beside the requests from liveRenew on, so that none of them waits
// while they keep coming.
const (
	liveAge   = time.Second
	liveRenew = liveAge / 2
)

// liveModel has what a cycle has learned up to now, for requests to score with (serve.live): what an update would publish, whether or not
// updates predict better than the last refit. It is made only if somebody asks. The first one after a refit is a copy, which takes time and memory in
// proportion to the model; the next ones share with it what has not changed.
type liveModel struct {
	copy func() (*snapshot.Model, error) // of now

	mu     sync.Mutex // held while a copy is made
	last   atomic.Pointer[snapshot.Model]
	beside sync.WaitGroup
}

// get returns a copy that is less than a second old, or was made for this request.
func (l *liveModel) get() (*snapshot.Model, error) {
	switch age := l.age(); {
	case age < liveRenew:
		return l.last.Load(), nil
	case age < liveAge:
		last := l.last.Load()
		if l.mu.TryLock() {
			l.beside.Go(func() {
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

// age returns how old the last copy is.
func (l *liveModel) age() time.Duration {
	if m := l.last.Load(); m != nil {
		return time.Since(m.Position().Created)
	}
	return liveAge
}

// renew makes a copy unless somebody else has just made one. l.mu is held.
func (l *liveModel) renew(from time.Duration) (*snapshot.Model, error) {
	if l.age() < from {
		return l.last.Load(), nil
	}
	var m *snapshot.Model
	if err := recovered(func() (err error) {
		m, err = l.copy()
		return err
	}); err != nil {
		return nil, err
	}
	l.last.Store(m)
	return m, nil
}

// close waits for what runs beside the requests, of which there are none any more.
func (l *liveModel) close() { l.beside.Wait() }

// newLive returns the live model of a trainer.
func newLive(t *Trainer, state *State) *liveModel {
	return &liveModel{copy: func() (*snapshot.Model, error) {
		m, err := t.cycle.Live(time.Now(), watermarkOf(state.store.Ledger()), publish.Writer)
		if errors.Is(err, cycle.ErrNoChampion) {
			err = snapshot.ErrNotFound
		}
		if err != nil {
			return nil, fmt.Errorf("model: live: %w", err)
		}
		return m, nil
	}}
}

// watermarkOf returns the newest event time of a ledger, zero if there is none. Events are learned before they are stored, so the live model knows
// those up to it.
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
