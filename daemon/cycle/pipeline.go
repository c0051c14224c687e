package cycle

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/admission"
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
	Stage     Stage
	Said      *Said // of Shown and Final
	First     bool  // a choice of a name that was never chosen before: it is counted, and nothing else is learned from it

	counts *rows.Counted // what of it is learned
}

// How many events the fold-in and the experts learn ahead of the rest at most, how many at a time, how few are not
// worth a goroutine, and how many goroutines there are at most in addition to the caller's. Chosen by hand; no result
// depends on them.
const (
	pipelineMost = 256
	aheadBlock   = 16
	aheadLeast   = 32
	aheadWorkers = 2
)

// ObserveAll observes events in order, to the same bits as Observe one by one. The fold-in depends on no other part of
// the live model, and an expert on the fold-in alone: they learn ahead of the rest, side by side on as many processors
// as there are. An event that panics is left out; panicked is called with it, and must not call the cycle.
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
	events = events[:min(c.progress.chunk(events), c.ensemble.untilSleepCheck())]
	defer c.ensemble.weigh(events)()
	for i := range events {
		c.admit(&events[i], &c.ensemble.admitted[i])
	}
	a := &c.ensemble.pipeline
	a.start(c, events)
	var workers sync.WaitGroup
	if len(events) >= aheadLeast {
		for range min(aheadWorkers, len(a.lanes), runtime.GOMAXPROCS(0)-1) {
			workers.Go(a.run)
		}
	}
	// Workers read the ensemble under the lock of this function: they end before this function gives up mu, and before an
	// expert falls asleep or wakes.
	defer c.ensemble.checkSleep(len(events), c.neededPart())
	defer workers.Wait()
	for i := range events {
		a.wait(i)
		fault := a.fault(i)
		if fault == nil {
			fault = c.tryObserve(&events[i], i)
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
func (c *Cycle) tryObserve(o *Observation, i int) (fault any) {
	defer func() { fault = recover() }()
	c.observe(o, i)
	return nil
}

// folded is what the fold-in made of an event.
type folded struct {
	outputs []float64
	outcome evaluate.EventOutcome
	scored  bool    // the target has a place for the label
	learned bool    // the event is learned, by all parts
	label   float64 // as it is learned
	alarms  []drift.Alarm

	correction *admission.Correction // of an event that corrects another one; nil where that changes nothing
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

// pipeline has the fold-in and the experts predict and learn events ahead of the other parts. Each has a lane, on which
// events come in order. Who has nothing else to do learns the next block of the lane that is farthest behind: a worker,
// or the caller while it waits for an event. So results depend neither on workers nor on processors.
type pipeline struct {
	cycle  *Cycle
	events []Observation
	folded []folded // of events
	lanes  []lane   // the fold-in's, then one for each expert

	mu    sync.Mutex // guards busy and done of lanes
	moved *sync.Cond // a block was learned
	ready atomic.Int64
}

// lane is a learner on its way through the events of a chunk.
type lane struct {
	expert  *experts.Expert // nil of the fold-in
	outputs []float64       // of the expert, event by event
	targets []float64       // of the fold-in, scratch
	faults  []any           // by event, a panic; nil without one
	busy    bool
	done    int // events
}

// start takes up events, of which none is learned yet.
func (a *pipeline) start(c *Cycle, events []Observation) {
	if a.moved == nil {
		a.moved = sync.NewCond(&a.mu)
	}
	a.cycle, a.events = c, events
	for len(a.folded) < len(events) {
		a.folded = append(a.folded, folded{outputs: make([]float64, c.target.Outputs())})
	}
	all := c.ensemble.experts
	for len(a.lanes) < 1+len(all) {
		a.lanes = append(a.lanes, lane{targets: make([]float64, c.target.Outputs())})
	}
	a.lanes = a.lanes[:1+len(all)]
	for k := range a.lanes {
		l := &a.lanes[k]
		l.done, l.faults = 0, slices.Grow(l.faults[:0], len(events))[:len(events)]
		clear(l.faults)
		if k > 0 {
			l.expert = all[k-1]
			size := len(events) * len(l.expert.Outputs)
			l.outputs = slices.Grow(l.outputs[:0], size)[:size]
		}
	}
	a.ready.Store(0)
}

// run is a worker: it learns until all lanes are at the end.
func (a *pipeline) run() { a.work(len(a.events)) }

// wait returns once event i is learned on all lanes.
func (a *pipeline) wait(i int) {
	if int(a.ready.Load()) <= i {
		a.work(i + 1)
	}
}

// work learns blocks until all lanes have learned so many events. Where others are at all blocks that there are, it
// yields a few times, then sleeps until one of them is learned.
func (a *pipeline) work(events int) {
	for tries := 0; ; tries++ {
		a.mu.Lock()
		if int(a.ready.Load()) >= events {
			a.mu.Unlock()
			return
		}
		l, to := a.next()
		if l != nil {
			l.busy = true
			a.mu.Unlock()
			for i := l.done; i < to; i++ {
				l.faults[i] = a.try(l, i)
			}
			a.mu.Lock()
			l.busy, l.done, tries = false, to, 0
			a.ready.Store(int64(a.least()))
			a.moved.Broadcast()
		} else if tries > aheadYields {
			a.moved.Wait()
		}
		a.mu.Unlock()
		if l == nil {
			runtime.Gosched()
		}
	}
}

// aheadYields is how often a goroutine without a block yields before it sleeps: to wake it takes longer than a block of
// names. Chosen by hand; no result depends on it.
const aheadYields = 20

// next returns the lane that is farthest behind of those that nobody is at, and up to where it may learn: experts
// follow the fold-in. It returns nil where all lanes are busy or at their ends. a.mu is held.
func (a *pipeline) next() (behind *lane, to int) {
	limit := len(a.events)
	for k := range a.lanes {
		if l := &a.lanes[k]; !l.busy && l.done < limit && (behind == nil || l.done < behind.done) {
			behind, to = l, min(l.done+aheadBlock, limit)
		}
		if k == 0 {
			limit = a.lanes[0].done
		}
	}
	return behind, to
}

// least returns how many events all lanes have learned. a.mu is held.
func (a *pipeline) least() int {
	n := len(a.events)
	for k := range a.lanes {
		n = min(n, a.lanes[k].done)
	}
	return n
}

// fault returns what a panic on event i was about, nil without one.
func (a *pipeline) fault(i int) any {
	for k := range a.lanes {
		if f := a.lanes[k].faults[i]; f != nil {
			return f
		}
	}
	return nil
}

// outputsOf returns the outputs of expert k for event i, nil of one that is asleep.
func (a *pipeline) outputsOf(k, i int) []float64 {
	l := &a.lanes[1+k]
	if l.expert.Asleep {
		return nil
	}
	m := len(l.expert.Outputs)
	return l.outputs[i*m : i*m+m]
}

// try has a lane learn event i, and returns what a panic was about, nil without one. Experts leave out an event on
// which the fold-in panicked.
func (a *pipeline) try(l *lane, i int) (fault any) {
	defer func() { fault = recover() }()
	switch {
	case l.expert == nil:
		a.fold(i, l.targets)
	case a.lanes[0].faults[i] == nil && a.folded[i].scored:
		a.follow(l.expert, i, l.outputs[i*len(l.expert.Outputs):])
	}
	return nil
}

// fold has the fold-in predict an event and learn from it.
func (a *pipeline) fold(i int, targets []float64) {
	c, o, to := a.cycle, &a.events[i], &a.folded[i]
	e, ev := &c.ensemble, o.Event
	to.scored, to.learned, to.alarms, to.correction = false, false, nil, nil
	if o.First || !c.target.Encode(targets, ev) {
		return // a class the model does not know: the decoder rejects those, unless the schema lists none
	}
	to.scored = true
	if !o.isPredicted() {
		return
	}
	e.numbers.Take(ev)
	e.learner.Outputs(to.outputs, ev)
	to.outcome = evaluate.Outcome(e.target, ev, to.outputs, targets)
	if o.Learn && o.counts.Corrects() != nil {
		to.correction = e.correctFoldIn(o)
		return
	}
	if to.learned = o.Learn && !c.knows(o.Position) && !o.counts.IsNone(); !to.learned {
		return
	}
	if to.label = e.winsorised(ev.Label); to.label != ev.Label {
		as := *ev
		as.Label = to.label
		c.target.Encode(targets, &as)
	}
	if !c.config.Train.FoldIn.Enabled {
		return
	}
	if experts.LearnPart(e.learner, ev, targets, o.counts); o.counts.IsShared() {
		e.numbers.Learn(ev.Label)
		if _, closed := e.learner.(*experts.FoldIn); closed && o.Stage == Whole {
			to.alarms = c.watchDrift(math.NaN(), math.NaN())
		}
	}
}

// follow has an expert predict an event that the fold-in has learned, to the start of outputs, and learn from it. An
// alarm of the fold-in widens its rows.
func (a *pipeline) follow(x *experts.Expert, i int, outputs []float64) {
	c, o, of := a.cycle, &a.events[i], &a.folded[i]
	if !o.isPredicted() {
		return
	}
	x.Take(o.Event)
	if !x.Asleep {
		copy(outputs, x.Predict(o.Event))
	}
	if !c.config.Train.FoldIn.Enabled {
		return
	}
	if of.correction != nil {
		x.Take(of.correction.Is)
		x.Correct(*of.correction)
	}
	if !of.learned {
		return
	}
	ev := o.Event
	if of.label != ev.Label {
		as := *ev
		as.Label = of.label
		ev = &as
	}
	switch {
	case x.Asleep:
		x.Keep(ev, o.counts)
	case o.counts.IsShared():
		x.Note(ev)
		fallthrough
	default:
		x.Learn(ev, o.counts)
	}
	if o.counts.IsShared() {
		x.LearnNumbers(o.Event.Label)
	}
	for _, alarm := range of.alarms {
		if p, ok := x.Learner.(*experts.FoldIn); ok && alarm.Field >= 0 {
			p.FoldIn.Widen(alarm.Field, drift.DriftWiden)
		}
	}
}
