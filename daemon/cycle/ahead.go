package cycle

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/refitd/refitd/consumer/event"
)

// Observation is an event to observe, with what Observe is told of it.
type Observation struct {
	Event     *event.Event
	Learn     bool
	Position  Position
	Payload   []byte
	Prescored *Score
	First     bool // a choice of a name that was never chosen before: it is counted, and nothing else is learned from it

	counts *counted // what of it is learned
}

// How many events the fold-in learns ahead of the others at most, how many at a time, and how few are not worth a goroutine.
const (
	aheadMost  = 256
	aheadBlock = 16
	aheadLeast = 32
)

// ObserveAll observes events in order, as Observe does one by one and to the same bits: the fold-in, on which no other part of what is live has an
// influence, learns from them on a goroutine of its own where there is a processor for it, the others follow. A panic on an event leaves that one out;
// panicked, which must not call the cycle, is told of it. Installs and reports wait for aheadMost events at most.
func (c *Cycle) ObserveAll(events []Observation, panicked func(i int, value any)) {
	for i := 0; i < len(events); {
		n := c.observeChunk(events[i:], func(k int, value any) { panicked(i+k, value) })
		i += n
	}
}

// observeChunk observes the first events, at most aheadMost of them, and returns how many.
func (c *Cycle) observeChunk(events []Observation, panicked func(i int, value any)) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.figures.Lock()
	defer c.figures.Unlock()
	events = events[:c.chunk(events)]
	defer c.weigh(events)()
	for i := range events {
		c.admit(&events[i], &c.admitted[i])
	}
	a := &c.ahead
	if _, ok := c.learner.(*posteriorLearner); !ok || len(c.numbers.fields) > 0 { // numbers are scaled for all parts, event by event
		for i := range events {
			if fault := c.tryObserve(&events[i], nil); fault != nil {
				panicked(i, fault)
			}
		}
		return len(events)
	}
	a.start(c, events)
	var beside sync.WaitGroup
	if len(events) >= aheadLeast && runtime.GOMAXPROCS(0) > 1 {
		beside.Go(a.run)
	}
	defer beside.Wait()
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

// chunk returns how many events may be observed before something may change the fold-in from outside: checkLive after the last of them.
func (c *Cycle) chunk(events []Observation) int {
	n, left := 0, c.goodEnough
	for n < min(len(events), aheadMost) {
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
	outcome outcome
	label   float64 // as it is learned
	alarms  []alarm
	fault   any // a panic, nil without one
}

// predictAlone stores what the fold-in predicts for an event with the given targets.
func (c *Cycle) predictAlone(to *folded, ev *event.Event, targets []float64) {
	c.learner.outputs(to.outputs, ev)
	to.outcome = c.target.outcome(ev, to.outputs, targets)
}

// watchDrift returns the alarms on the event that the fold-in learned last. Without a posterior they are those of losses:
// of what was live, and of the last refit, NaN without one.
func (c *Cycle) watchDrift(live, refit float64) []alarm {
	if l, ok := c.learner.(*posteriorLearner); ok {
		return c.drift.learned(l)
	}
	if c.config.Train.Refit != "variational" && c.drift.lost(live, refit) {
		return []alarm{{DriftAlarm{c.drift.events, DriftLosses}, -1}}
	}
	return nil
}

// ahead has the fold-in predict and learn events ahead of the other parts. Whoever holds turn goes on with it: the goroutine beside, or who waits for
// the next event while that one has no processor.
type ahead struct {
	cycle   *Cycle
	events  []Observation
	folded  []folded // of events
	targets []float64

	turn    sync.Mutex
	done    atomic.Int64  // events
	further chan struct{} // one is in it after a block of the goroutine beside
}

func (a *ahead) start(c *Cycle, events []Observation) {
	if a.further == nil {
		a.further = make(chan struct{}, 1)
	}
	a.cycle, a.events = c, events
	for len(a.folded) < len(events) {
		a.folded = append(a.folded, folded{outputs: make([]float64, c.target.Outputs())})
	}
	a.targets = append(a.targets[:0], c.targets...)
	a.done.Store(0)
}

// run learns all events, unless who waits does.
func (a *ahead) run() {
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

// wait returns once event i is learned, the first that was not when it was called last. Who waits for a block does not wait for the turn, which the goroutine
// beside takes again at once: a few times it gives way, then it sleeps until the block is done.
func (a *ahead) wait(i int) {
	for tries := 0; int(a.done.Load()) <= i; tries++ {
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
func (a *ahead) block() {
	from := int(a.done.Load())
	for i := from; i < min(from+aheadBlock, len(a.events)); i++ {
		a.learn(&a.events[i], &a.folded[i])
		a.done.Store(int64(i + 1))
	}
}

// learn predicts an event and learns from it, as observe does.
func (a *ahead) learn(o *Observation, to *folded) {
	to.fault = nil
	defer func() { to.fault = recover() }()
	c, ev := a.cycle, o.Event
	if o.First || !c.target.Encode(a.targets, ev) {
		return
	}
	c.predictAlone(to, ev, a.targets)
	if !o.Learn || c.knows(o.Position) || o.counts.isNone() {
		return
	}
	if to.label = c.limited(ev.Label); to.label != ev.Label {
		as := *ev
		as.Label = to.label
		c.target.Encode(a.targets, &as)
	}
	if to.alarms = nil; c.config.Train.FoldIn.Enabled {
		if learnPart(c.learner, ev, a.targets, o.counts); o.counts.isShared() {
			c.numbers.learn(ev.Label)
			to.alarms = c.watchDrift(math.NaN(), math.NaN())
		}
	}
}
