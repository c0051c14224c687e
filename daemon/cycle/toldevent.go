package cycle

import (
	"slices"

	"github.com/refitd/refitd/consumer/event"
)

// ToldEvent is an event that a process has learned from, with what its fold-ins, the version of its consumers, its companions and its baselines said of it
// before. Others learn from it what no fold-in tells of: baselines, learners on names, and what the parts of mixture and blend are worth. So all that is live
// follows a change by the events of all processes. A part is judged by what it said there: here it would know events that came there after.
type ToldEvent struct {
	Payload []byte      // AppendEvent
	Outputs [][]float64 // of the mixture's learned parts, in their order, then predictions of its baselines; nil of one that had none
}

// eventFormat is the version of events as others read them. Another one has other parts under the same names, or other bytes.
const eventFormat = 1

// names returns the parts that Outputs are of.
func (m *mixture) names() []string {
	if m == nil {
		return nil
	}
	out := make([]string, m.judged())
	for i := range out {
		out[i] = m.parts[i].name
	}
	return out
}

const (
	maxTold   = 5000 // events that wait to be told; later ones are not
	toldBytes = 256  // of an event; one that takes more, as of many classes, counts as several
)

// counts returns as how many events this counts.
func (e *ToldEvent) counts() int {
	n := len(e.Payload)
	for _, out := range e.Outputs {
		n += 1 + 4*len(out)
	}
	return 1 + n/toldBytes
}

// tell keeps an event that the mixture has predicted and is about to learn, for TakeLearned. c.mu is held.
func (c *Cycle) tell(ev *event.Event, foldIn, published []float64) {
	if c.sharing == nil || c.sharing.waiting >= maxTold {
		return
	}
	told := ToldEvent{AppendEvent(nil, ev), make([][]float64, c.mixture.judged())}
	told.Outputs[partFoldIn], told.Outputs[partPublished] = slices.Clone(foldIn), slices.Clone(published)
	for i := numLearned; i < c.mixture.learned; i++ {
		if b := c.companion(c.mixture.parts[i].name); b != nil {
			told.Outputs[i] = slices.Clone(b.outputs)
		}
	}
	for i := c.mixture.learned; i < len(told.Outputs); i++ {
		if p := &c.mixture.parts[i]; p.present {
			told.Outputs[i] = slices.Clone(p.value)
		}
	}
	c.sharing.events = append(c.sharing.events, told)
	c.sharing.waiting += told.counts()
}

// takeEvents returns at most limit of the events that wait, the first ones, and forgets all of them.
func (s *sharing) takeEvents(limit int) []ToldEvent {
	n := 0
	for ; n < len(s.events); n++ {
		if limit -= s.events[n].counts(); limit < 0 {
			break
		}
	}
	events := s.events[:n]
	s.events, s.waiting = nil, 0
	return events
}

// hear learns from an event that another process has learned from, but for what its fold-ins tell. It reports false for one that does not fit, and leaves it
// out. ev is for its use. O(parts²), and O(pairs of names) where there is a learner on names. c.mu is held.
func (c *Cycle) hear(told *ToldEvent, ev *event.Event) bool {
	c.figures.Lock()
	defer c.figures.Unlock()
	if len(c.pool) >= maxPool {
		clear(c.pool)
	}
	m := c.mixture
	if m == nil || !c.config.Train.FoldIn.Enabled {
		return true // nothing is mixed here
	}
	if len(told.Outputs) != m.judged() || DecodeEvent(ev, told.Payload, c.pool) != nil || !c.target.Encode(c.targets, ev) {
		return false
	}
	c.learnAs(c.limited(ev.Label), ev)
	foldIn, published := told.Outputs[partFoldIn], told.Outputs[partPublished]
	if len(foldIn) != c.target.Outputs() || published != nil && len(published) != len(foldIn) {
		return false
	}
	for _, beside := range c.companions {
		if _, ok := beside.learner.(*namesLearner); ok { // others take up to hundreds of microseconds
			beside.learner.gather(ev)
			beside.learn(ev, nil)
		}
		out := told.of(m, beside)
		if copy(beside.outputs, out); out == nil { // its process had none
			beside.predict(ev)
		}
		beside.note(ev)
	}
	m.hear(ev, told, c.companions)
	c.predictMixed(foldIn, published)
	c.learnMixed(ev, nil)
	return true
}

// of returns the outputs of a companion, nil without.
func (e *ToldEvent) of(m *mixture, b *companion) []float64 {
	for i := numLearned; i < m.learned; i++ {
		if m.parts[i].name == b.name && len(e.Outputs[i]) == len(b.outputs) {
			return e.Outputs[i]
		}
	}
	return nil
}
