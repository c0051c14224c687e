package ingest

import (
	"slices"
	"sync"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/sketch"
)

// How much waits for the store, which takes what there is in one transaction: one write to the disk costs as much for
// ten parts as for one. A transaction of some ten thousand rows is also about the largest that Badger takes in one
// piece.
const (
	maxQueued = 4    // parts, while there are others being stored
	minGroup  = 2048 // records that are worth a separate transaction before Flush
	maxGroup  = 8192 // records of several parts
)

// A job is a part on its way to the store.
type job struct {
	part     sketch.Part
	arenas   [][]byte // what its records point into
	sums     []byte   // progressive sums after it
	counts   Counts
	rejected int
	left     int64        // records after it in its partition
	thin     bool         // a share of it is learned
	aside    bool         // its records are of a table
	fed      bool         // it is of a backtest, which never continues: it has no sums
	passed   passed       // what is learned before it: a catch-up passed over it
	done     func(Counts) // may be nil
}

// queue stores parts in order, on a goroutine that is there as long as there are enough of them; what is left Flush
// stores itself.
type queue struct {
	store   *sketch.Store
	mu      sync.Mutex
	changed sync.Cond
	waiting []*job
	storing []*job
	free    []*job
	records int   // of waiting
	busy    bool  // run is running
	err     error // of it; what waited was dropped
}

func (q *queue) init(store *sketch.Store) {
	q.store = store
	q.changed.L = &q.mu
}

// next returns a job to fill, once there is room for it.
func (q *queue) next() (*job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.busy && len(q.waiting) >= maxQueued {
		q.changed.Wait()
	}
	if q.err != nil {
		return nil, q.failed()
	}
	n := len(q.free)
	if n == 0 {
		return new(job), nil
	}
	j := q.free[n-1]
	q.free = q.free[:n-1]
	return j, nil
}

// failed returns the error, once.
func (q *queue) failed() error {
	err := q.err
	q.err = nil
	return err
}

// drop takes back a job that will not be stored.
func (q *queue) drop(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free = append(q.free, j)
}

// add has a job stored and then calls done, unless that is nil.
func (q *queue) add(j *job, done func(Counts)) {
	j.done = done
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return // the next call returns it
	}
	q.waiting = append(q.waiting, j)
	q.records += len(j.part.Records)
	if !q.busy && q.records >= minGroup {
		q.busy = true
		go func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.run()
		}()
	}
}

// wait returns when nothing is queued any more, with the error that has happened since the last call of wait or next.
func (q *queue) wait() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.busy {
		q.changed.Wait()
	}
	if len(q.waiting) > 0 && q.err == nil {
		q.busy = true
		q.run()
	}
	return q.failed()
}

// rejected counts the rejected records of what is queued.
func (q *queue) rejected() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range slices.Concat(q.storing, q.waiting) {
		n += j.rejected
	}
	return n
}

// run stores what waits. The caller holds mu, which run releases while it stores.
func (q *queue) run() {
	var parts []*sketch.Part
	for len(q.waiting) > 0 && q.err == nil {
		q.group()
		q.changed.Broadcast()
		parts = parts[:0]
		for _, j := range q.storing {
			parts = append(parts, &j.part)
		}
		q.err = q.apply(parts)
		q.free = append(q.free, q.storing...)
		q.storing = q.storing[:0]
	}
	if q.err != nil {
		q.waiting, q.records = q.waiting[:0], 0
	}
	q.busy = false
	q.changed.Broadcast()
}

// group moves what goes into one transaction from waiting to storing.
func (q *queue) group() {
	n, records := 0, 0
	for _, j := range q.waiting {
		if records += len(j.part.Records); n > 0 && records > maxGroup {
			break
		}
		n++
	}
	q.storing = append(q.storing[:0], q.waiting[:n]...)
	for _, j := range q.storing {
		q.records -= len(j.part.Records)
	}
	q.waiting = slices.Delete(q.waiting, 0, n)
}

// apply stores the parts of storing without the lock.
func (q *queue) apply(parts []*sketch.Part) error {
	q.mu.Unlock()
	defer q.mu.Lock()
	if err := q.store.ApplyAll(parts, q.storing[len(q.storing)-1].sums); err != nil {
		return err
	}
	for _, j := range q.storing {
		if j.done != nil {
			j.done(j.counts)
		}
	}
	return nil
}

func (j *job) start(topic string, number int32, logStart, base, next int64, records int) {
	j.part = sketch.Part{
		Topic:     topic,
		Partition: number,
		LogStart:  logStart,
		Base:      base,
		Next:      next,
		Records:   slices.Grow(j.part.Records[:0], records),
	}
	j.counts = Counts{
		Topic:     topic,
		Partition: number,
		Rejected:  j.counts.Rejected,
		Base:      base,
		Next:      next,
		Began:     time.Now(),
	}
	clear(j.counts.Rejected)
	j.arenas, j.sums, j.rejected, j.thin, j.passed = j.arenas[:0], nil, 0, false, nil
	j.aside, j.fed, j.left = false, false, 0
}

// arena returns the i-th arena, empty.
func (j *job) arena(i int) []byte {
	if i < cap(j.arenas) {
		j.arenas = j.arenas[:i+1]
	} else {
		j.arenas = append(j.arenas, nil)
	}
	j.arenas[i] = j.arenas[i][:0]
	return j.arenas[i]
}

var _ consumer.Queue = (*Ingest)(nil)
