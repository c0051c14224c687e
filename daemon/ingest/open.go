package ingest

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/sketch"
)

// Learning between refits from labels that come later. Events whose label is not final are held in memory, each with
// what was said of it. One whose outcome comes is learned at once, and corrected where its label turns; one without is
// learned as the default once its window is over. Then it is judged. Outcomes that come before their event are held
// for it. Nothing of this is stored: after a restart the open rows of the sample are held again, without what was said
// of them.
//
// Where there are too many, a share of the keys is held: those whose hash is within a limit. Events and outcomes alike
// are held or not by their key, so that both labels keep their shares, as dropping the oldest would not: of these the
// positive ones are learned already.

// openEvent is an event whose label is not final, or what came of one that has not been read.
type openEvent struct {
	id       sketch.Identity
	payload  []byte // nil of an event that has not been read
	time     int64  // of the event, else of its first outcome; milliseconds
	due      int64  // when something is due: the default, then the end of the window
	outcomes []sketch.Outcome
	said     *cycle.Said // nil from before a restart
	label    float64     // as it was learned
	learned  bool
	gone     bool
}

// What an open event takes in addition to its payload and what was said, and each of its outcomes: the entry of the
// map, that of the heap, and the types. A test compares them.
const (
	openEventBytes   = 320
	openOutcomeBytes = 64
)

func (e *openEvent) size(said int64) int64 {
	n := openEventBytes + int64(len(e.payload)) + openOutcomeBytes*int64(len(e.outcomes))
	if e.said != nil {
		n += said
	}
	return n
}

// openEvents holds them. It belongs to the goroutine that learns.
type openEvents struct {
	model  *config.Model
	said   int64 // bytes of what was said of one
	window int64 // milliseconds
	most   int64 // bytes
	bytes  int64
	held   map[sketch.Identity]*openEvent
	due    dueHeap
	over   dueHeap // their window is over, but outcomes of its time wait to be read
	limit  uint64  // hashes of the keys that are held are at most this
	// Of an event up to lowTo an outcome may have come while the limit was low.
	low      uint64
	lowTo    int64
	raised   int64                       // when the limit was last raised, by the clock
	events   int64                       // newest time of events
	outcomes map[string]int64            // newest time by topic
	slowest  int64                       // least of outcomes
	newestOf map[rows.Position]int64     // newest time by partition of outcomes; the offset is 0
	waiting  map[rows.Position]time.Time // those of them in which records were left, and when that was
	come     *maturity
	filled   bool
	dropped  int64 // events that are neither learned nor judged, since it was last asked
	names    rows.Interner
}

func newOpenEvents(m *config.Model, said int64) *openEvents {
	if !m.Schema.LabelLater {
		return nil
	}
	return &openEvents{model: m, said: said, window: m.Input.Outcomes.Window.Std().Milliseconds(),
		most: int64(rows.OpenBytes(m)), held: make(map[sketch.Identity]*openEvent), limit: math.MaxUint64,
		low: math.MaxUint64, lowTo: sketch.NoTime, raised: sketch.NoTime, events: sketch.NoTime,
		outcomes: make(map[string]int64), newestOf: make(map[rows.Position]int64), waiting: make(map[rows.Position]time.Time),
		come: newMaturity(m), names: make(rows.Interner)}
}

// fill holds the open rows of the state: before anything new is learned, and after a catch-up, which passed some over.
func (o *openEvents) fill(store *sketch.Store) error {
	isFirst := !o.filled
	o.filled = true
	s, err := store.Sample()
	if err != nil {
		return fmt.Errorf("ingest: open rows of the state: %w", err)
	}
	for i := range s.Ledger {
		if l := &s.Ledger[i]; l.Watermark != sketch.NoTime && o.model.TableOf(l.Topic) < 0 {
			o.noteTime(l.Topic, l.Watermark)
		}
	}
	now := o.final()
	var open []*sketch.Row
	for _, list := range [][]sketch.Row{s.Train, s.Select, s.Gate} {
		for i := range list {
			r := &list[i]
			label := LabelOf(o.model, r.Time, r.Outcomes)
			switch isOver := now != sketch.NoTime && r.Time+o.window <= now; {
			case isOver:
				if isFirst {
					o.come.closed(label)
				}
			case label.Counted == 0 && o.held[r.ID] == nil && hashOf(r.ID) <= o.limit:
				open = append(open, r)
			}
		}
	}
	if isFirst && o.come.joins > 0 {
		o.come.refit(o)
	}
	for _, r := range open {
		if hashOf(r.ID) > o.limit { // which falls where there is no room
			o.dropped++
			continue
		}
		o.put(&openEvent{id: r.ID, payload: bytes.Clone(r.Payload), time: r.Time, due: o.defaultDue(r.ID, r.Time, -1)})
	}
	return nil
}

// noteTime takes up the time of an event or an outcome.
func (o *openEvents) noteTime(topic string, at int64) {
	if !o.model.Input.Outcomes.Has(topic) {
		o.events = max(o.events, at)
		return
	}
	if before, known := o.outcomes[topic]; known && before >= at {
		return
	}
	o.outcomes[topic], o.slowest = at, at
	for _, newest := range o.outcomes {
		o.slowest = min(o.slowest, newest)
	}
}

// clock is outcomeClock of what was read.
func (o *openEvents) clock() int64 {
	if len(o.outcomes) == 0 {
		return sketch.NoTime
	}
	return min(o.events, o.slowest)
}

// newest returns the newest time of an outcome.
func (o *openEvents) newest() int64 {
	at := int64(sketch.NoTime)
	for _, t := range o.outcomes {
		at = max(at, t)
	}
	return at
}

// hashOf is not that by which the sample and its roles are drawn, but depends on the key as well.
func hashOf(id sketch.Identity) uint64 {
	x := binary.BigEndian.Uint64(id[8:])
	x ^= x >> 31
	x *= 0xbf58476d1ce4e5b9 // SplitMix64, Steele et al. 2014
	return x ^ x>>29
}

// takeDropped returns how many events were dropped since it was last called.
func (o *openEvents) takeDropped() (n int64) {
	n, o.dropped = o.dropped, 0
	return n
}

func (o *openEvents) put(e *openEvent) {
	o.held[e.id] = e
	heap.Push(&o.due, e)
	o.add(e.size(o.said))
}

// add counts bytes more. Where there are too many, half of the keys are not held any more.
func (o *openEvents) add(n int64) {
	for o.bytes += n; o.bytes > o.most && o.limit > 0; {
		o.limit /= 2
		o.low, o.lowTo = min(o.low, o.limit), o.newest()
		for _, h := range []*dueHeap{&o.due, &o.over} {
			for _, e := range *h {
				if !e.gone && hashOf(e.id) > o.limit {
					o.remove(e)
					if e.payload != nil {
						o.dropped++
					}
				}
			}
			*h = slices.DeleteFunc(*h, func(e *openEvent) bool { return e.gone })
			heap.Init(h)
		}
	}
}

// raise holds twice as many keys again where there is much room, once in a window.
func (o *openEvents) raise(now int64) {
	if now > o.lowTo {
		o.low = o.limit
	}
	if o.limit == math.MaxUint64 || o.bytes > o.most/8 || now < o.raised+o.window {
		return
	}
	o.lowTo, o.raised = o.newest(), now
	o.limit = o.limit*2 + 1
}

func (o *openEvents) remove(e *openEvent) {
	e.gone = true
	delete(o.held, e.id)
	o.bytes -= e.size(o.said)
}

// show holds an event that was read, and appends what is observed of it.
func (o *openEvents) show(run []cycle.Observation, r *sketch.Record, of cycle.Observation) []cycle.Observation {
	id := r.ID()
	hash, e := hashOf(id), o.held[id]
	switch {
	case e != nil && e.payload != nil: // it came before, and is learned once
		return run
	case hash > o.limit || hash > o.low && r.Time <= o.lowTo || r.Time+o.window <= o.clock():
		if o.dropped++; e != nil {
			o.remove(e)
		}
		return run
	}
	chance := -1.0
	if of.Prescored != nil && of.Prescored.Of != nil {
		chance = of.Prescored.Chance
	}
	next := &openEvent{id: id, payload: bytes.Clone(r.Payload), time: r.Time, due: o.defaultDue(id, r.Time, chance),
		said: new(cycle.Said)}
	of.Stage, of.Said, of.Learn = cycle.Shown, next.said, false
	run = append(run, of)
	if e != nil {
		next.outcomes = e.outcomes
		o.remove(e)
	}
	o.put(next)
	if next.gone {
		return run
	}
	return o.relabel(run, next, of.Position)
}

// join takes up an outcome, or what takes outcomes back, and appends what is learned by it.
func (o *openEvents) join(run []cycle.Observation, p *sketch.Part, r *sketch.Record) []cycle.Observation {
	id := r.ID()
	e := o.held[id]
	if e == nil {
		if r.TakesBack || hashOf(id) > o.limit {
			return run
		}
		e = &openEvent{id: id, time: r.Time, due: r.Time + o.window}
		if o.put(e); e.gone {
			return run
		}
	}
	before := len(e.outcomes)
	if r.TakesBack {
		e.outcomes = slices.DeleteFunc(e.outcomes, func(of sketch.Outcome) bool {
			return of.Topic == p.Topic && of.Partition == p.Partition
		})
	} else {
		of := sketch.Outcome{Topic: p.Topic, Partition: p.Partition, Offset: r.Offset, Time: r.Time, Value: r.Value}
		at, _ := slices.BinarySearchFunc(e.outcomes, of, func(a, b sketch.Outcome) int { return a.Compare(&b) })
		e.outcomes = slices.Insert(e.outcomes, at, of)
		if n := len(e.outcomes); n > sketch.MaxOutcomes {
			from := 0 // the last is given up, or the first
			if o.model.Input.Outcomes.Reward != config.RewardLast {
				from = n - 1
			}
			e.outcomes = slices.Delete(e.outcomes, from, from+1)
		}
	}
	if o.add(openOutcomeBytes * int64(len(e.outcomes)-before)); e.gone || e.payload == nil {
		return run
	}
	return o.relabel(run, e, rows.Position{Topic: p.Topic, Partition: p.Partition, Offset: r.Offset})
}

// relabel appends what is learned of an event whose outcomes have changed.
func (o *openEvents) relabel(run []cycle.Observation, e *openEvent, at rows.Position) []cycle.Observation {
	switch label := LabelOf(o.model, e.time, e.outcomes); {
	case !e.learned && label.Counted == 0 || e.learned && label.Value == e.label:
		return run
	case e.learned: // the payload as it was learned is held by the cycle
		e.payload = bytes.Clone(e.payload)
		fallthrough
	default:
		e.label, e.learned = label.Value, true
	}
	o.come.joins++
	return o.observe(run, e, cycle.Observation{Stage: cycle.Joined, Learn: true, Position: at})
}

// close appends what is learned and judged, at a position, of the events of which something is due: the default of one
// that has no outcome yet, and the end of its window. What is over while outcomes of its time wait is not judged yet.
func (o *openEvents) close(run []cycle.Observation, at rows.Position) []cycle.Observation {
	now := o.clock()
	if now == sketch.NoTime {
		return run
	}
	final := o.final()
	for len(o.over) > 0 && o.over[0].due <= final {
		run = o.end(run, heap.Pop(&o.over).(*openEvent), at)
	}
	for len(o.due) > 0 && o.due[0].due <= now {
		e := heap.Pop(&o.due).(*openEvent)
		switch end := e.time + o.window; {
		case e.gone:
		case e.due < end:
			e.due = end
			if heap.Push(&o.due, e); !e.learned && e.payload != nil {
				e.label, e.learned = LabelOf(o.model, e.time, e.outcomes).Value, true
				run = o.observe(run, e, cycle.Observation{Stage: cycle.Joined, Learn: true, Position: at})
			}
		case e.due <= final:
			run = o.end(run, e, at)
		default:
			heap.Push(&o.over, e)
		}
		o.raise(now)
	}
	return run
}

// end appends what is learned and judged of an event whose label is final.
func (o *openEvents) end(run []cycle.Observation, e *openEvent, at rows.Position) []cycle.Observation {
	if e.gone {
		return run
	}
	if o.remove(e); e.payload == nil {
		return run
	}
	label := LabelOf(o.model, e.time, e.outcomes)
	o.come.closed(label)
	of := cycle.Observation{Stage: cycle.Final, Learn: !e.learned, Said: e.said, Position: at}
	e.label, e.learned = label.Value, true
	return o.observe(run, e, of)
}

// final returns up to where labels are final: the clock, or less while records wait in a partition of outcomes.
func (o *openEvents) final() int64 {
	final := o.clock()
	for at := range o.waiting {
		final = min(final, o.newestOf[at])
	}
	return final
}

// behind reports whether records wait in a partition of outcomes.
func (o *openEvents) behind(topic string, partition int32) bool {
	_, waits := o.waiting[rows.Position{Topic: topic, Partition: partition}]
	return waits
}

// haltedAfter is after how long without a part a partition in which records are left holds nothing back. Chosen by
// hand.
const haltedAfter = time.Minute

// wait notes how many records are left in a partition of outcomes after a part of it. One of which nothing comes any
// more has halted: it holds nothing back.
func (o *openEvents) wait(p *sketch.Part, left int64) {
	now := time.Now()
	maps.DeleteFunc(o.waiting, func(_ rows.Position, seen time.Time) bool { return now.Sub(seen) > haltedAfter })
	if !p.Outcomes {
		return
	}
	at := rows.Position{Topic: p.Topic, Partition: p.Partition}
	newest, known := o.newestOf[at]
	if !known {
		newest = sketch.NoTime
	}
	for i := range p.Records {
		if r := &p.Records[i]; r.Fate == sketch.Applied {
			newest = max(newest, r.Time)
		}
	}
	if o.newestOf[at] = newest; left > 0 {
		o.waiting[at] = now
	} else {
		delete(o.waiting, at)
	}
}

// defaultDue returns when the default of an event is learned, if there is no outcome by then: its age is drawn so that
// of the events of each age, those without an outcome are learned with the probability encode.OpenWeight. So at any
// time what was learned has the right share of outcomes. chance is that of an outcome, -1 where that of all counts.
func (o *openEvents) defaultDue(id sketch.Identity, at int64, chance float64) int64 {
	const fraction = 1.0 / (1 << 53)
	drawn := float64(hashOf(id)*0x9e3779b97f4a7c15>>11) * fraction
	return at + o.come.age(o, drawn, chance)
}

// observe appends the observation of an event with its label.
func (o *openEvents) observe(run []cycle.Observation, e *openEvent, of cycle.Observation) []cycle.Observation {
	if len(o.names) >= maxOpenNames {
		clear(o.names)
	}
	ev := new(event.Event)
	rows.SetLabel(e.payload, e.label)
	if rows.DecodeEvent(ev, e.payload, o.names) != nil {
		return run // a row of the state that Check finds
	}
	ev.Identity = string(e.id[:]) // by which the cycle knows what it corrects
	of.Event, of.Payload = ev, e.payload
	return append(run, of)
}

// maxOpenNames is how many names of open events are kept for the next ones. Chosen by hand.
const maxOpenNames = 4096

// dueHeap orders open events by when their label is final.
type dueHeap []*openEvent

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	return h[i].due < h[j].due || h[i].due == h[j].due && bytes.Compare(h[i].id[:], h[j].id[:]) < 0
}
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)   { *h = append(*h, x.(*openEvent)) }
func (h *dueHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}

// thinLimit is up to where the hashes are of the keys that are learned during a catch-up.
const thinLimit = math.MaxUint64 / CatchUpShare

// openRun is what is observed of a part of events or outcomes, in order. Of a thin part a share of the keys is, and how
// many events of the others there are is returned. What is held already is not passed over.
func (g *Ingest) openRun(p *sketch.Part, d *decoded, thin bool) (run []cycle.Observation, passed int64) {
	run = g.run[:0]
	for i := range p.Records {
		r := &p.Records[i]
		if r.Fate != sketch.Applied || r.Replayed {
			continue
		}
		at := rows.Position{Topic: p.Topic, Partition: p.Partition, Offset: r.Offset}
		g.open.noteTime(p.Topic, r.Time)
		run = g.open.close(run, at)
		switch {
		case r.Forgotten:
		case thin && g.open.passes(r.ID(), p.Outcomes):
			if !p.Outcomes {
				passed++
			}
		case p.Outcomes:
			run = g.open.join(run, p, r)
		default:
			of := cycle.Observation{Event: &d.events[i], Payload: r.Payload, Position: at}
			if i < len(d.scores) {
				of.Prescored = &d.scores[i]
			}
			run = g.open.show(run, r, of)
		}
	}
	for i := range run {
		if run[i].Stage != cycle.Shown {
			g.set.Join(run[i].Event)
		}
	}
	return run, passed
}

// passes reports whether a catch-up passes over a record. An event of which an outcome may have been passed over is
// not held after it: see low.
func (o *openEvents) passes(id sketch.Identity, isOutcome bool) bool {
	if hashOf(id) <= thinLimit {
		return false
	}
	e := o.held[id]
	switch {
	case e != nil && e.payload != nil:
		return false
	case isOutcome:
		o.low, o.lowTo = min(o.low, thinLimit), o.newest()
	case e != nil: // its outcomes came before the catch-up
		o.remove(e)
	}
	return true
}
