package cycle

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/drift"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// Observation is an event to observe, with the other arguments of Observe.
type Observation struct {
	Event     *event.Event
	Learn     bool
	Position  rows.Position
	Payload   []byte
	Prescored *updates.Score
	First     bool // a choice of a name that was never chosen before: it is counted, and nothing else is learned from it

	counts *rows.Counted // what of it is learned
}

// How many events the fold-in learns ahead of the others at most, how many at a time, and how few are not worth a
// goroutine. Chosen by hand; no result depends on them.
const (
	pipelineMost = 256
	aheadBlock   = 16
	aheadLeast   = 32
)

// ObserveAll observes events in order, to the same bits as Observe one by one. The fold-in depends on no other part of
// the live model: it learns ahead of the others, on a separate goroutine if there is a processor for it. An event that
// panics is left out; panicked is called with it, and must not call the cycle.
// Installs and reports wait for pipelineMost events at most.
func (c *Cycle) ObserveAll(events []Observation, panicked func(i int, value any)) {
	for i := 0; i < len(events); {
		n := c.observeChunk(events[i:], func(k int, value any) { panicked(i+k, value) })
		i += n
	}
}

// observeChunk observes the first events, at most pipelineMost of them, and returns how many.
func (c *Cycle) observeChunk(events []Observation, panicked func(i int, value any)) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	// Chunks end where checkLive is due: it comes after the fold-in has learned the last event.
	events = events[:c.progress.chunk(events)]
	defer c.ensemble.weigh(events)()
	for i := range events {
		c.admit(&events[i], &c.ensemble.admitted[i])
	}
	a := &c.ensemble.pipeline
	if _, ok := c.ensemble.learner.(*experts.FoldIn); !ok ||
		len(c.ensemble.numbers.Fields) > 0 { // numbers are scaled for all parts, event by event
		for i := range events {
			if fault := c.tryObserve(&events[i], nil); fault != nil {
				panicked(i, fault)
			}
		}
		return len(events)
	}
	a.start(c, events)
	var worker sync.WaitGroup
	if len(events) >= aheadLeast && runtime.GOMAXPROCS(0) > 1 {
		worker.Go(a.run)
	}
	// The worker reads the ensemble under the lock of this function: it ends before this function gives up mu.
	defer worker.Wait()
	for i := range events {
		a.wait(i)
		fault := a.folded[i].fault
		if fault == nil {
			fault = c.tryObserve(&events[i], &a.folded[i])
		}
		if fault != nil {
			panicked(i, fault)
		}
	}
	return len(events)
}

// chunk returns how many events may be observed before something may change the fold-in from outside: checkLive after
// the last of them.
func (p *progress) chunk(events []Observation) int {
	n, left := 0, p.goodEnough
	for n < min(len(events), pipelineMost) {
		if events[n].Learn {
			left--
		}
		if n++; left <= 0 {
			break
		}
	}
	return n
}

// tryObserve returns what a panic was about, nil without one.
func (c *Cycle) tryObserve(o *Observation, ahead *folded) (fault any) {
	defer func() { fault = recover() }()
	c.observe(o, ahead)
	return nil
}

// folded is what the fold-in made of an event.
type folded struct {
	outputs []float64
	outcome evaluate.EventOutcome
	label   float64 // as it is learned
	alarms  []drift.Alarm
	fault   any // a panic, nil without one

	correction *experts.Correction // of an event that corrects another one; nil where that changes nothing
}

// predictFoldIn stores what the fold-in predicts for an event with the given targets.
func (e *ensemble) predictFoldIn(to *folded, ev *event.Event, targets []float64) {
	e.learner.Outputs(to.outputs, ev)
	to.outcome = evaluate.Outcome(e.target, ev, to.outputs, targets)
}

// watchDrift returns the alarms on the event that the fold-in learned last. live and refit are the losses of what was
// live and of the last refit, NaN without one. A model whose posterior is not known, as its version came from
// elsewhere, has none until the next refit.
func (c *Cycle) watchDrift(live, refit float64) []drift.Alarm {
	l, ok := c.ensemble.learner.(*experts.FoldIn)
	if !ok && c.config.Train.Refit == "variational" {
		return nil
	}
	return c.watch.drift.Learned(l, live, refit)
}

// pipeline has the fold-in predict and learn events ahead of the other parts. The holder of turn works on the next
// block: the worker, or the waiter for the next event while the worker has no processor.
type pipeline struct {
	cycle   *Cycle
	events  []Observation
	folded  []folded // of events
	targets []float64

	turn    sync.Mutex    // held while a block is learned: blocks are learned one after the other, in order
	done    atomic.Int64  // events
	further chan struct{} // holds one value after a block of the worker
}

func (a *pipeline) start(c *Cycle, events []Observation) {
	if a.further == nil {
		a.further = make(chan struct{}, 1)
	}
	a.cycle, a.events = c, events
	for len(a.folded) < len(events) {
		a.folded = append(a.folded, folded{outputs: make([]float64, c.target.Outputs())})
	}
	a.targets = append(a.targets[:0], c.ensemble.targets...)
	a.done.Store(0)
}

// run is the worker: it learns all events that no waiter learns.
func (a *pipeline) run() {
	for int(a.done.Load()) < len(a.events) {
		a.turn.Lock()
		a.block()
		a.turn.Unlock()
		select {
		case a.further <- struct{}{}:
		default:
		}
	}
}

// wait returns once event i is learned, the first that was not when it was called last. A waiter yields a few
// times, then sleeps until the worker has finished its block. It does not queue for turn, because the worker takes that
// again at once.
func (a *pipeline) wait(i int) {
	for tries := 0; int(a.done.Load()) <= i; tries++ {
		// While the worker has no processor the waiter does its work: nothing waits for a goroutine that does not run.
		if a.turn.TryLock() {
			if int(a.done.Load()) <= i {
				a.block()
			}
			a.turn.Unlock()
		} else if tries < 20 {
			runtime.Gosched()
		} else {
			<-a.further // of an earlier block, if it was not taken: then there is one more after it
		}
	}
}

// block learns the next events.
func (a *pipeline) block() {
	from := int(a.done.Load())
	for i := from; i < min(from+aheadBlock, len(a.events)); i++ {
		a.learn(&a.events[i], &a.folded[i])
		a.done.Store(int64(i + 1))
	}
}

// learn predicts an event and learns from it, as observe does.
func (a *pipeline) learn(o *Observation, to *folded) {
	to.fault = nil
	defer func() { to.fault = recover() }()
	c, ev := a.cycle, o.Event
	if o.First || !c.target.Encode(a.targets, ev) {
		return
	}
	c.ensemble.predictFoldIn(to, ev, a.targets)
	if o.Learn && o.counts.Corrects() != nil {
		to.correction = c.ensemble.correctFoldIn(o)
		return
	}
	if !o.Learn || c.knows(o.Position) || o.counts.IsNone() {
		return
	}
	if to.label = c.ensemble.winsorised(ev.Label); to.label != ev.Label {
		as := *ev
		as.Label = to.label
		c.target.Encode(a.targets, &as)
	}
	if to.alarms = nil; c.config.Train.FoldIn.Enabled {
		if experts.LearnPart(c.ensemble.learner, ev, a.targets, o.counts); o.counts.IsShared() {
			c.ensemble.numbers.Learn(ev.Label)
			to.alarms = c.watchDrift(math.NaN(), math.NaN())
		}
	}
}
