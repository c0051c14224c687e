package cycle

import (
	"math"
	"math/bits"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/snapshot"
)

// What the learner on names starts from and how it chooses.
const (
	namesPairFields = 10     // of whose names pairs are taken
	namesCells      = 16     // times train.fold_in.max_rows, cells
	namesPrecision  = 4.0    // of weights, until their field has said more
	namesPrior      = 1.0    // events that this counts as
	namesPrecise    = 1e4    // at most
	countBins       = 8      // of how often a name has come: 0, 1, 2 or 3, 4 to 7 ...
	countVariance   = 0.25   // of their weights, before any event
	biasVariance    = 4.0    // of the bias
	namesWalk       = 1e-5   // by which variances of these grow at each event, up to what they were: change is followed
	namesCurvature  = 0.02   // of the loss, at least
	gainFade        = 0.9999 // of what a term gained
	gainEnters      = 20.0   // times the terms: what noise exceeds once in so many cases
	gainLeaves      = 0.0
	gainMost        = 5.0    // of one event
	namesEvery      = 500    // events, at least, between choices of precisions
	pairTrial       = 20_000 // events; a pair that is not in then is given up
	retrial         = 4      // times as many events, when it is tried again
)

// namesLearner is linear in names, in pairs of the names of two categorical fields, whether or not they are a cross of the schema, and in how often
// the name or pair has come before. Each weight has a Gaussian posterior of its own, learned as if the others were known but for their variance
// (assumed-density filtering; Opper 1998, Graepel et al. 2010), so that a name that is new moves what is known little. The precision of weights before any
// event is a field's, or pair of fields', own (MacKay 1992), and so is their mean, one for each power of two of the events before: what comes
// again is often not like what came by chance. A term of the sum is left out as long as it has not gained by more than noise does. It belongs to
// one goroutine. O(terms) an event.
type namesLearner struct {
	schema *event.Schema
	terms  []term
	cells  cells
	bias   weight
	enters float64 // gain with which a term comes in, nats
	events int
	next   int // events at which precisions are chosen again
	judge  residuals
	label  *location // of a number; nil for classes

	hashes   []uint64 // of the categorical names of the event, 0 if absent
	active   []activeName
	output   float64
	variance float64

	touched []*touchedPairs // a list for each update made of this that deltas follow
}

// term is a field or a pair of fields.
type term struct {
	field, with int // with is −1 of a field alone
	precision   float64
	counts      [countBins]weight
	gain        float64
	in          bool // the sum
	trial       int  // events at which it is decided about a pair
	off         bool // it is given up
}

// weight is a Gaussian.
type weight struct{ mean, variance, prior float64 }

// activeName is a name or pair of the event.
type activeName struct {
	key             uint64
	names           [2]uint32 // of a pair, as cells have them
	term            int
	place, with     int // of its names in counted.held; with is −1 of one
	value           float64
	bin             int
	mean, variance  float64 // of the cell's own weight
	evidence, right float64 // of the event
	cell            *cell   // nil if there is none; good until cells are inserted
}

// hasNames reports whether the learner on names is for a model: of binary labels with probabilities and two fields of names, or of numbers and three,
// where a fold-in of two fields says what their pairs do.
func hasNames(s *event.Schema, link string) bool {
	fields := len(s.Categorical) + len(s.Multi)
	return s.Task == event.Binary && link == snapshot.Logistic && fields > 1 || s.Task.IsNumeric() && fields > 2
}

func newNamesLearner(s *event.Schema, t *Target, limit int) *namesLearner {
	l := &namesLearner{schema: s, cells: newCells(namesCells * limit), judge: newResiduals(t), bias: weight{variance: biasVariance, prior: biasVariance},
		hashes: make([]uint64, len(s.Categorical))}
	if t.IsNumeric() {
		l.label = new(location)
	}
	for f := range len(s.Categorical) + len(s.Multi) {
		l.terms = append(l.terms, newTerm(f, -1))
	}
	pairs := min(s.NumGiven(), namesPairFields)
	for f := range pairs {
		for g := range f {
			if !isCrossOf(s, g, f) {
				l.terms = append(l.terms, newTerm(g, f))
			}
		}
	}
	l.enters = math.Log(gainEnters * float64(len(l.terms)))
	return l
}

func newTerm(field, with int) term {
	t := term{field: field, with: with, precision: namesPrecision, trial: pairTrial}
	for b := range t.counts {
		t.counts[b] = weight{variance: countVariance, prior: countVariance}
	}
	return t
}

// isCrossOf reports whether the schema has a cross of two fields.
func isCrossOf(s *event.Schema, a, b int) bool {
	for _, c := range s.Cross {
		if len(c) == 2 && (c[0] == a && c[1] == b || c[0] == b && c[1] == a) {
			return true
		}
	}
	return false
}

func (l *namesLearner) gather(ev *event.Event) {
	for f, name := range ev.Categorical {
		l.hashes[f] = 0
		if name != "" { // absent
			l.hashes[f] = nameHash(name)
		}
	}
	l.active = l.active[:0]
	for t := range l.terms {
		x := &l.terms[t]
		switch {
		case x.off:
		case x.field >= len(ev.Categorical):
			list := x.field - len(ev.Categorical)
			names, place := ev.Multi[list], placeOfList(ev, list)
			for i, name := range names {
				l.add(t, place+i, nameHash(name), 0, snapshot.MultiValue(l.schema.MultiWeights, list, len(names)))
			}
		case x.with < 0 && l.hashes[x.field] != 0:
			l.add(t, x.field, l.hashes[x.field], 0, 1)
		case x.with >= 0 && l.hashes[x.field] != 0 && l.hashes[x.with] != 0:
			l.add(t, x.field, l.hashes[x.field], l.hashes[x.with], 1)
		}
	}
	l.output, l.variance = l.bias.mean, l.bias.variance
	for i := range l.active {
		a := &l.active[i]
		x := &l.terms[a.term]
		c := l.cells.find(a.key)
		if a.cell = c; c == nil {
			a.bin, a.mean, a.variance = 0, 0, 1/x.precision
		} else {
			a.bin, a.variance = min(bits.Len32(c.count), countBins-1), 1/(x.precision+c.evidence)
			a.mean = c.right * a.variance
		}
		if x.in {
			l.output += a.value * (a.mean + x.counts[a.bin].mean)
			l.variance += a.value * a.value * (a.variance + x.counts[a.bin].variance)
		}
	}
}

func (l *namesLearner) add(term, place int, a, b uint64, value float64) {
	l.active = append(l.active, activeName{key: mixHash(a, b, uint64(term)), names: [2]uint32{uint32(a), uint32(b)}, term: term, place: place,
		with: l.terms[term].with, value: value})
}

// shrunk returns the output shrunk by its variance: the logistic of that is the mean probability, about (MacKay 1992).
func (l *namesLearner) shrunk() float64 {
	if l.label != nil {
		return l.output
	}
	return l.output / math.Sqrt(1+math.Pi/8*l.variance)
}

func (l *namesLearner) outputs(dst []float64, ev *event.Event) {
	l.gather(ev)
	if dst[0] = l.shrunk(); l.label != nil {
		mean, deviation := l.label.of()
		dst[0] = mean + deviation*dst[0]
	}
}

func (l *namesLearner) learn(ev *event.Event, targets []float64, eventWeight float64) {
	l.learnPart(ev, targets, eventWeight, nil)
}

func (l *namesLearner) learnPart(ev *event.Event, targets []float64, eventWeight float64, counts *counted) {
	shared := counts.isShared()
	slope, curvature := l.derive(targets[0], shared)
	if math.IsNaN(slope) || !(eventWeight > 0) {
		return
	}
	eventWeight = min(eventWeight, heaviest)
	miss := slope / curvature // of the sum of the terms that are in
	precision := curvature * eventWeight
	if shared {
		l.chooseTerms(slope, curvature)
		l.bias.learn(1, miss, precision, l.variance-l.bias.variance)
	}
	l.active = slices.DeleteFunc(l.active, func(a activeName) bool { return counts.holdsPair(a.place, a.with) })
	for i := range l.active {
		a := &l.active[i]
		a.learn(&l.terms[a.term], miss, precision, l.variance, shared)
	}
	for i := range l.active {
		if a := &l.active[i]; a.cell == nil {
			l.insert(a)
		}
		if x := &l.terms[l.active[i].term]; x.in && x.with >= 0 {
			for _, list := range l.touched {
				list.add(l.active[i].key, namePair{l.active[i].term, ev.Categorical[x.field], ev.Categorical[x.with]})
			}
		}
	}
	if !shared {
		return
	}
	if l.events++; l.events >= l.next {
		l.choosePrecisions()
	}
}

// derive returns the slope of the log likelihood in the sum, and its curvature. A label that is shared counts in the scale of numbers.
func (l *namesLearner) derive(target float64, shared bool) (slope, curvature float64) {
	if l.label == nil {
		p := 1 / (1 + math.Exp(-l.shrunk()))
		if slope = -p; target > 0 {
			slope++
		}
		return slope, max(p*(1-p), namesCurvature)
	}
	variance := l.judge.variance()
	reach := residualReach * math.Sqrt(variance)
	miss := min(max(l.label.standardise(target, labelReach)-l.output, -reach), reach)
	if shared {
		l.label.add(target)
		l.judge.add(miss)
	}
	return miss / variance, 1 / variance
}

// learn takes up that the sum of which this is a part, beside others of some variance, was short by miss, known with a precision.
func (w *weight) learn(value, miss, precision, others float64) {
	precision /= 1 + precision*max(others, 0)
	gain := w.variance * value * precision / (1 + precision*w.variance*value*value)
	w.mean += gain * miss
	w.variance -= gain * value * w.variance
	w.variance = min(w.variance+namesWalk, w.prior)
}

// learn learns the weights of a name of term x: its own, and if that is shared the one of how often it has come, where the sum with a variance was short by
// miss.
func (a *activeName) learn(x *term, miss, precision, variance float64, shared bool) {
	count := &x.counts[a.bin]
	square := a.value * a.value
	if x.in {
		variance -= square * (a.variance + count.variance)
	} else {
		miss -= a.value * (a.mean + count.mean) // as if it were in
	}
	own := precision / (1 + precision*max(variance+square*count.variance, 0))
	a.evidence, a.right = own*square, own*a.value*(miss+a.value*a.mean)
	if c := a.cell; c != nil {
		c.add(a.evidence, a.right)
	}
	if !shared {
		return
	}
	count.learn(a.value, miss, precision, variance+square*a.variance)
}

// insert gives a name of the event a cell, if there is room.
func (l *namesLearner) insert(a *activeName) {
	c := l.cells.find(a.key) // a list may have a name twice
	if c == nil {
		c = l.cells.insert(a.key, uint16(a.term))
	}
	if c != nil {
		c.names = a.names
		c.add(a.evidence, a.right)
	}
}

// chooseTerms takes up what each term gained by being in the sum, or would have gained, and decides which ones are: to second order, with slope the
// label less its prediction.
func (l *namesLearner) chooseTerms(slope, curvature float64) {
	for i := 0; i < len(l.active); {
		t, sum := l.active[i].term, 0.0
		x := &l.terms[t]
		for ; i < len(l.active) && l.active[i].term == t; i++ {
			a := &l.active[i]
			sum += a.value * (a.mean + x.counts[a.bin].mean)
		}
		half := curvature * sum * sum / 2
		if !x.in {
			half = -half
		}
		x.gain = gainFade*x.gain + max(min(sum*slope+half, gainMost), -gainMost)
		x.in = x.gain > l.enters || x.in && x.gain > gainLeaves
	}
	for t := range l.terms {
		if x := &l.terms[t]; x.with >= 0 && !x.in && l.events >= x.trial {
			l.try(t)
		}
	}
}

// try gives a pair up at the end of its trial, or tries it again when there were retrial times as many events.
func (l *namesLearner) try(t int) {
	x := &l.terms[t]
	fresh := newTerm(x.field, x.with)
	if x.off {
		fresh.trial = l.events + pairTrial
	} else {
		l.cells.remove(t)
		fresh.off, fresh.trial = true, retrial*l.events
	}
	*x = fresh
}

// choosePrecisions sets the precision of each term to what its weights say (MacKay 1992), after an eighth as many events as there
// were, or as there are cells: O(terms) an event.
func (l *namesLearner) choosePrecisions() {
	known, squares := make([]float64, len(l.terms)), make([]float64, len(l.terms)) // how many weights the events know, and squares of means
	for i := range l.cells.list {
		if c := &l.cells.list[i]; c.key != noKey {
			d := l.terms[c.term].precision
			mean := c.right / (c.evidence + d)
			known[c.term] += c.evidence / (c.evidence + d)
			squares[c.term] += mean * mean
		}
	}
	for t := range l.terms {
		precision := (known[t] + namesPrior) / (squares[t] + namesPrior/namesPrecision)
		l.terms[t].precision = min(max(precision, namesPrecision/100), namesPrecise)
	}
	l.next = l.events + max(namesEvery, min(l.events, len(l.cells.list))/8)
}
