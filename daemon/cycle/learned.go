package cycle

import (
	"errors"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/solver/posterior"
)

// ErrOtherChampion is returned for what was learned on a champion that is not the one at hand.
var ErrOtherChampion = errors.New("cycle: learned on another champion")

// Learned is what the fold-ins of a process have learned from its events, as changes of rows in natural parameters. Others that stand on the same champion
// apply it, so that all have one live model between them.
type Learned struct {
	Champion  string       // payload digest of the refit that it stands on
	Version   int64        // of that refit
	From, To  []report.Cut // its events, by partition
	Watermark int64        // newest event time, milliseconds since 1970
	Parts     []LearnedPart
	Events    []ToldEvent // some of its events, none where nothing is mixed
	Format    int         // eventFormat of those
	Judged    []string    // the parts that their outputs are of
}

// LearnedPart is what one fold-in has learned: the first, then that of gaussianTarget where there is one.
type LearnedPart struct {
	Rates []posterior.RateIncrement // by field
	Rows  []LearnedRow
}

// LearnedRow is what became of the row of a name, or of a numeric field or the constant, whose name is empty.
type LearnedRow struct {
	Field     int
	Name      string
	Increment *posterior.Increment
}

// sharing is what of the fold-ins is told to others. c.mu guards it.
type sharing struct {
	champion string // payload digest
	version  int64
	parts    []*sharedPart
	known    reached // up to which events are learned from, and told or heard of
	events   []ToldEvent
	waiting  int // as how many these count
}

// sharedPart is one fold-in, with the slots of it that events have touched and nobody was told.
type sharedPart struct {
	learner *posteriorLearner
	list    *touched
}

// share begins to share what the fold-ins of a champion learn from now on. It returns nil where nobody asks for it or they have no posterior.
func (c *Cycle) share(ch *Champion, l learner, beside []*companion) *sharing {
	main, ok := l.(*posteriorLearner)
	if !c.Shares || !ok || main.vocab == nil {
		return nil
	}
	s := &sharing{champion: ch.Version.PayloadDigest, version: ch.Version.Version, parts: []*sharedPart{newSharedPart(main)}}
	for _, b := range beside {
		if p, ok := b.learner.(*posteriorLearner); ok && b.name == partGaussian {
			s.parts = append(s.parts, newSharedPart(p))
		}
	}
	s.known.reach(ch.Version.Cut, ch.Watermark)
	return s
}

func newSharedPart(l *posteriorLearner) *sharedPart {
	p := &sharedPart{l, new(touched)}
	l.foldIn.Track()
	l.slots.touched = append(l.slots.touched, p.list)
	return p
}

// reshare goes on with another first fold-in on the same champion. c.mu is held.
func (c *Cycle) reshare() {
	if l, ok := c.learner.(*posteriorLearner); ok && c.sharing != nil {
		c.sharing.parts[0] = newSharedPart(l)
	}
}

// knows reports whether an event is in what was told or heard of, or in the champion.
func (s *sharing) knows(p Position) bool {
	return s != nil && p.Offset < s.known.next(p.Topic, p.Partition)
}

// next returns how far a partition is reached.
func (r *reached) next(topic string, partition int32) int64 {
	for i := range r.cut {
		if c := &r.cut[i]; c.Partition == partition && c.Topic == topic {
			return c.Next
		}
	}
	return 0
}

// reach is add of all events before a cut.
func (r *reached) reach(cut []report.Cut, watermark int64) {
	for _, c := range cut {
		if c.Next > 0 {
			r.add(Position{c.Topic, c.Partition, c.Next - 1}, &event.Event{Time: watermark})
		}
	}
}

// TakeLearned returns what was learned from the events observed since it was called last, of each fold-in at most limit rows, and whether more rows wait, with
// some of the events. It returns nil where there is nothing, or no champion with a posterior. Shares asks for it.
func (c *Cycle) TakeLearned(limit, events int) (l *Learned, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sharing
	if s == nil {
		return nil, false
	}
	l = &Learned{Champion: s.champion, Version: s.version, Watermark: c.observed.watermark, Events: s.takeEvents(events),
		Format: eventFormat, Judged: c.mixture.names()}
	rows := 0
	for _, p := range s.parts {
		part := LearnedPart{Rates: p.learner.foldIn.RateIncrements()}
		for _, at := range p.list.take(nil, limit) {
			if inc := p.learner.foldIn.Increment(at); inc != nil {
				item := &p.learner.slots.items[at]
				part.Rows = append(part.Rows, LearnedRow{int(item.field), item.name, inc})
			}
		}
		rows += len(part.Rows)
		more = more || len(p.list.list) > 0
		l.Parts = append(l.Parts, part)
	}
	for _, to := range c.observed.cut {
		if from := s.known.next(to.Topic, to.Partition); to.Next > from {
			l.From, l.To = append(l.From, report.Cut{Topic: to.Topic, Partition: to.Partition, Next: from}), append(l.To, to)
		}
	}
	s.known.reach(l.To, l.Watermark)
	if rows == 0 && len(l.To) == 0 {
		return nil, false
	}
	return l, more
}

// applyBatch is how many events and rows are applied while Observe waits.
const applyBatch = 64

// Apply learns what another process has learned, and returns how many offsets were missed before it. What begins before what is known already is left out,
// without an error: it was told twice. The error is ErrOtherChampion, or says what does not fit.
func (c *Cycle) Apply(l *Learned) (missed int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sharing
	if s == nil || s.champion != l.Champion {
		return 0, ErrOtherChampion
	}
	if len(l.Parts) != len(s.parts) || len(l.From) != len(l.To) {
		return 0, errors.New("cycle: what was learned has other parts than the champion")
	}
	for _, from := range l.From {
		known := s.known.next(from.Topic, from.Partition)
		if from.Next < known {
			return 0, nil
		}
		if from.Next-known > maxStretch {
			return 0, errStretch
		}
		missed += from.Next - known
	}
	done := 0
	goesOn := func() bool { // lets Observe in between, which may have another champion then
		if done++; done%applyBatch == 0 {
			c.mu.Unlock()
			c.mu.Lock()
		}
		return c.sharing == s
	}
	var ev event.Event
	fits := l.Format == eventFormat && slices.Equal(l.Judged, c.mixture.names())
	for i := range l.Events {
		if !goesOn() {
			return 0, ErrOtherChampion
		}
		if c.mixture != nil && !fits || !c.hear(&l.Events[i], &ev) {
			c.unheard.Events++
		}
	}
	for i, part := range l.Parts {
		p := s.parts[i]
		for field := range part.Rates[:min(len(part.Rates), p.learner.foldIn.Base().NumFields)] {
			p.learner.foldIn.ApplyRates(int32(field), &part.Rates[field])
		}
		for j := range part.Rows {
			if !goesOn() {
				return 0, ErrOtherChampion
			}
			p.apply(&part.Rows[j])
		}
	}
	s.known.reach(l.To, l.Watermark)
	if c.followed != nil || c.making != nil {
		c.reached.reach(l.To, l.Watermark)
	}
	return missed, nil
}

// apply changes the row of a name. What does not fit, as of a field that there is none of, is left out.
func (p *sharedPart) apply(row *LearnedRow) {
	l := p.learner
	feature := posterior.Feature{Field: int32(row.Field), Base: -1}
	switch {
	case row.Field < 0 || row.Field >= l.vocab.NumFields() || (row.Name == "") != (row.Field >= len(l.vocab.Names)):
		return
	case row.Name == "":
		feature.Base = int32(l.vocab.NumColumns() - l.vocab.NumFields() + row.Field)
	default:
		feature.Base = l.vocab.Column(row.Field, row.Name)
	}
	at, fresh := l.slots.place(-1, row.Field, row.Name)
	if fresh {
		l.foldIn.Place(at, feature)
	}
	if !l.foldIn.Apply(at, row.Increment) {
		return
	}
	for _, list := range l.slots.touched {
		if list != p.list {
			list.add(at)
		}
	}
}

// Known returns up to which events the live model has learned, here or elsewhere, and the newest event time of these in milliseconds since 1970.
func (c *Cycle) Known() (cut []report.Cut, watermark int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sharing == nil {
		return nil, 0
	}
	return slices.Clone(c.sharing.known.cut), c.sharing.known.watermark
}

// StandsOn returns the payload digest and the version of the champion that what is learned stands on, none without one that has a posterior.
func (c *Cycle) StandsOn() (digest string, version int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sharing == nil {
		return "", 0
	}
	return c.sharing.champion, c.sharing.version
}
