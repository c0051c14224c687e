package experts

import (
	"math"
	"math/bits"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/snapshot/format"
)

// What the learner on names starts from and how it chooses. Derived: gainEnters, from the chance of noise. The others
// are chosen by hand.
const (
	namesPairFields = 10     // of whose names pairs are taken
	NamesCells      = 16     // times train.fold_in.max_rows, cells
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
	PairTrial       = 20_000 // events; a pair that is not in then is given up
	retrial         = 4      // times as many events, when it is tried again
)

// Pairwise is linear in names, in pairs of the names of two categorical fields, whether or not they are a cross of the
// schema, and in how often the name or pair has come before. Each weight has a separate Gaussian posterior, learned as
// if the others were known but for their variance (assumed-density filtering; Opper 1998, Graepel et al. 2010), so that
// a name that is new moves what is known little. The precision of weights before any event is a field's, or pair of
// fields', own (MacKay 1992), and so is their mean, one for each power of two of the events before: what comes again is
// often not like what came by chance. A term of the sum is left out as long as it has not gained by more than noise
// does. It belongs to one goroutine. O(terms) an event.
type Pairwise struct {
	schema *event.Schema
	Terms  []term  // fields first, then pairs; the place of a term is part of the key of its cells
	Cells  cells   // hash table of bounded size, by the hash of names and term
	bias   weight  // of the sum; standardised units for numbers, logits for classes
	enters float64 // gain with which a term comes in, nats
	events int
	next   int              // events at which precisions are chosen again
	judge  residuals        // scale of what a number is missed by
	Label  *encode.Location // of a number; nil for classes

	hashes   []uint64 // of the categorical names of the event, 0 if absent
	Active   []activeName
	Output   float64 // of the event in hand, before shrunk
	variance float64

	Touched []*TouchedPairs // a list for each update made of this that deltas follow
}

// term is a field or a pair of fields.
type term struct {
	Field, With int // with is −1 of a field alone
	Precision   float64
	counts      [countBins]weight // by how often the name has come, in powers of two
	gain        float64           // nats that the term has gained of late by being in, or would have
	In          bool              // the sum
	trial       int               // events at which it is decided about a pair
	Off         bool              // it is given up
}

// weight is a Gaussian.
type weight struct{ mean, variance, prior float64 }

// activeName is a name or pair of the event.
type activeName struct {
	key             uint64
	names           [2]uint32 // of a pair, as cells have them
	Term            int
	place, with     int // of its names in counted.held; with is −1 of one
	Value           float64
	bin             int
	mean, variance  float64 // of the cell's own weight
	evidence, right float64 // of the event
	Cell            *cell   // nil for a name or pair without a cell; valid until cells are inserted
}

// hasPairwise reports whether the learner on names is for a model: of binary labels with probabilities and two fields
// of names, or of numbers and three, where a fold-in of two fields says what their pairs do.
func hasPairwise(s *event.Schema, link string) bool {
	fields := len(s.Categorical) + len(s.Multi)
	return s.Task == event.Binary && link == format.Logistic && fields > 1 || s.Task.IsNumeric() && fields > 2
}

// pairwiseKind learns names and pairs of names.
var pairwiseKind = Kind{
	Name:    PartNames,
	Doc:     "names and pairs of names; binary labels with two fields of names, numbers and levels with three",
	Memory:  "names",
	Lasting: true,
	Applies: func(s *Setting) bool {
		return s.Model.Train.FoldIn.Enabled && hasPairwise(s.Schema, s.Target.Link)
	},
	New: func(s *Setting, _ *fitted.Fitted, _ *Expert) *Expert {
		t := s.numberTarget()
		return NewExpert(PartNames, t, NewPairwise(s.Schema, t, s.maxRows()))
	},
	Footprint: func(s *Setting) int64 {
		pairs := min(s.Schema.NumGiven(), namesPairFields)
		terms := s.numNames() + pairs*(pairs-1)/2
		growing := int64(cellBytes + cellBytes/2) // half of the cells, while the table grows
		return int64(cellLimit(NamesCells*s.maxRows()))*growing + int64(terms)*termBytes
	},
}

// NewPairwise returns a learner of a target on the names of events, which keeps NamesCells times limit cells.
func NewPairwise(s *event.Schema, t *encode.Target, limit int) *Pairwise {
	l := &Pairwise{
		schema: s,
		Cells:  newCells(NamesCells * limit),
		judge:  newResiduals(t),
		bias:   weight{variance: biasVariance, prior: biasVariance},
		hashes: make([]uint64, len(s.Categorical)),
	}
	if t.IsNumeric() {
		l.Label = new(encode.Location)
	}
	for f := range len(s.Categorical) + len(s.Multi) {
		l.Terms = append(l.Terms, newTerm(f, -1))
	}
	pairs := min(s.NumGiven(), namesPairFields)
	for f := range pairs {
		for g := range f {
			if !isCrossOf(s, g, f) {
				l.Terms = append(l.Terms, newTerm(g, f))
			}
		}
	}
	l.enters = math.Log(gainEnters * float64(len(l.Terms)))
	return l
}

func newTerm(field, with int) term {
	t := term{Field: field, With: with, Precision: namesPrecision, trial: PairTrial}
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

func (l *Pairwise) Gather(ev *event.Event) {
	for f, name := range ev.Categorical {
		l.hashes[f] = 0
		if name != "" { // absent
			l.hashes[f] = nameHash(name)
		}
	}
	l.Active = l.Active[:0]
	for t := range l.Terms {
		x := &l.Terms[t]
		switch {
		case x.Off:
		case x.Field >= len(ev.Categorical):
			list := x.Field - len(ev.Categorical)
			names, place := ev.Multi[list], rows.PlaceOfList(ev, list)
			for i, name := range names {
				l.add(t, place+i, nameHash(name), 0, format.MultiValue(l.schema.MultiWeights, list, len(names)))
			}
		case x.With < 0 && l.hashes[x.Field] != 0:
			l.add(t, x.Field, l.hashes[x.Field], 0, 1)
		case x.With >= 0 && l.hashes[x.Field] != 0 && l.hashes[x.With] != 0:
			l.add(t, x.Field, l.hashes[x.Field], l.hashes[x.With], 1)
		}
	}
	l.Output, l.variance = l.bias.mean, l.bias.variance
	for i := range l.Active {
		a := &l.Active[i]
		x := &l.Terms[a.Term]
		c := l.Cells.find(a.key)
		if a.Cell = c; c == nil {
			// Nothing is known but the prior: it predicts 0 with the variance of the field.
			a.bin, a.mean, a.variance = 0, 0, 1/x.Precision
		} else {
			a.bin, a.variance = min(bits.Len32(c.count), countBins-1), 1/(x.Precision+c.evidence)
			a.mean = c.right * a.variance
		}
		if x.In {
			// The weight of a name is that of its cell plus the mean of names as frequent as it.
			l.Output += a.Value * (a.mean + x.counts[a.bin].mean)
			l.variance += a.Value * a.Value * (a.variance + x.counts[a.bin].variance)
		}
	}
}

func (l *Pairwise) add(term, place int, a, b uint64, value float64) {
	l.Active = append(
		l.Active,
		activeName{key: rows.MixHash(a, b, uint64(term)), names: [2]uint32{uint32(a), uint32(b)}, Term: term, place: place,
			with: l.Terms[term].With, Value: value},
	)
}

// shrunk returns the output shrunk by its variance: the logistic of that is the mean probability, about (MacKay 1992).
func (l *Pairwise) shrunk() float64 {
	if l.Label != nil {
		return l.Output
	}
	return l.Output / math.Sqrt(1+math.Pi/8*l.variance)
}

func (l *Pairwise) Outputs(dst []float64, ev *event.Event) {
	l.Gather(ev)
	if dst[0] = l.shrunk(); l.Label != nil {
		mean, deviation := l.Label.Of()
		dst[0] = mean + deviation*dst[0]
	}
}

func (l *Pairwise) Learn(ev *event.Event, targets []float64, eventWeight float64) {
	l.learnPart(ev, targets, eventWeight, nil)
}

func (l *Pairwise) learnPart(ev *event.Event, targets []float64, eventWeight float64, counts *rows.Counted) {
	shared := counts.IsShared()
	slope, curvature := l.derive(targets[0], shared)
	if math.IsNaN(slope) || !(eventWeight > 0) {
		return
	}
	eventWeight = min(eventWeight, heaviest)
	// A step of Newton's on the sum: the target that a Gaussian of this curvature would have seen.
	miss := slope / curvature // of the sum of the terms that are in
	precision := curvature * eventWeight
	if shared {
		l.chooseTerms(slope, curvature)
		l.bias.learn(1, miss, precision, l.variance-l.bias.variance)
	}
	// From here on only of what the entity cap lets learn.
	l.Active = slices.DeleteFunc(l.Active, func(a activeName) bool { return counts.HoldsPair(a.place, a.with) })
	for i := range l.Active {
		a := &l.Active[i]
		a.learn(&l.Terms[a.Term], miss, precision, l.variance, shared)
	}
	for i := range l.Active {
		if a := &l.Active[i]; a.Cell == nil {
			l.insert(a)
		}
		// New cells come last: an insertion may move cells, after which pointers to them are stale.
		l.touch(&l.Active[i], ev)
	}
	if !shared {
		return
	}
	if l.events++; l.events >= l.next {
		l.choosePrecisions()
	}
}

// Correct moves the weights by the difference of the labels, where each is taken to be the only one that is not known,
// as it is learned, at the curvature that a label has at most: what is predicted depends on the label that was there.
func (l *Pairwise) Correct(of *admission.Correction) {
	l.Gather(of.Is)
	weight, by := min(of.Is.Weight, heaviest), [1]float64{}
	from, to := of.From, of.To
	if l.Label != nil {
		from = []float64{l.Label.Standardise(from[0], encode.LabelReach)}
		to = []float64{l.Label.Standardise(to[0], encode.LabelReach)}
	}
	curvature := l.judge.correction(by[:], from, to)
	slope := weight * by[0]
	if l.Label != nil {
		slope *= curvature
	}
	precision, shared := curvature*weight, of.Counts.IsShared()
	if shared {
		l.bias.correct(1, slope, precision, l.variance-l.bias.variance)
	}
	for i := range l.Active {
		a := &l.Active[i]
		if a.Cell == nil || of.Counts.HoldsPair(a.place, a.with) {
			continue
		}
		x, square, others := &l.Terms[a.Term], a.Value*a.Value, l.variance
		count := &x.counts[a.bin]
		if x.In {
			others -= square * (a.variance + count.variance)
		}
		a.Cell.right += a.Value * slope / (1 + precision*max(others+square*count.variance, 0))
		if shared {
			count.correct(a.Value, slope, precision, others+square*a.variance)
		}
		l.touch(a, of.Is)
	}
}

// derive returns the slope of the log likelihood in the sum, and its curvature. A label that is shared counts in the
// scale of numbers.
func (l *Pairwise) derive(target float64, shared bool) (slope, curvature float64) {
	if l.Label == nil {
		p := 1 / (1 + math.Exp(-l.shrunk()))
		if slope = -p; target > 0 {
			slope++
		}
		return slope, max(p*(1-p), namesCurvature)
	}
	variance := l.judge.variance()
	reach := residualReach * math.Sqrt(variance)
	miss := min(max(l.Label.Standardise(target, encode.LabelReach)-l.Output, -reach), reach)
	if shared {
		l.Label.Add(target)
		l.judge.add(miss)
	}
	return miss / variance, 1 / variance
}

// touch notes a pair whose weight has moved for the deltas.
func (l *Pairwise) touch(a *activeName, ev *event.Event) {
	if x := &l.Terms[a.Term]; x.In && x.With >= 0 {
		for _, list := range l.Touched {
			list.add(a.key, namePair{a.Term, ev.Categorical[x.Field], ev.Categorical[x.With]})
		}
	}
}

// correct moves the weight by a difference of slopes of the sum that contains it, which is known with a precision.
func (w *weight) correct(value, slope, precision, others float64) {
	w.mean += w.variance * value * slope / (1 + precision*max(others, 0))
}

// learn updates the weight after the sum that contains it was short by miss, known with a precision. others is the
// variance of the other terms.
func (w *weight) learn(value, miss, precision, others float64) {
	// Others are integrated out: what the sum says of this weight has the variance 1/precision + others.
	precision /= 1 + precision*max(others, 0)
	// Kalman's gain for one observation; the variance falls by gain·value·variance.
	gain := w.variance * value * precision / (1 + precision*w.variance*value*value)
	w.mean += gain * miss
	w.variance -= gain * value * w.variance
	// A random walk: what is certain stays movable, up to the prior.
	w.variance = min(w.variance+namesWalk, w.prior)
}

// learn learns the weights of a name of term x: its own, and if that is shared the one of how often it has come, where
// the sum with a variance was short by miss.
func (a *activeName) learn(x *term, miss, precision, variance float64, shared bool) {
	count := &x.counts[a.bin]
	square := a.Value * a.Value
	if x.In {
		variance -= square * (a.variance + count.variance)
	} else {
		miss -= a.Value * (a.mean + count.mean) // as if it were in
	}
	// Cells keep evidence and right side, not mean and variance: a change of the field's precision then needs no pass
	// over them.
	own := precision / (1 + precision*max(variance+square*count.variance, 0))
	a.evidence, a.right = own*square, own*a.Value*(miss+a.Value*a.mean)
	if c := a.Cell; c != nil {
		c.add(a.evidence, a.right)
	}
	if !shared {
		return
	}
	count.learn(a.Value, miss, precision, variance+square*a.variance)
}

// insert gives a name of the event a cell, if there is room.
func (l *Pairwise) insert(a *activeName) {
	c := l.Cells.find(a.key) // a list may have a name twice
	if c == nil {
		c = l.Cells.insert(a.key, uint16(a.Term))
	}
	if c != nil {
		c.names = a.names
		c.add(a.evidence, a.right)
	}
}

// chooseTerms takes up what each term gained by being in the sum, or would have gained, and decides which ones are: to
// second order, with slope the label less its prediction.
func (l *Pairwise) chooseTerms(slope, curvature float64) {
	// Names of one term follow each other in Active, as Gather adds them by term.
	for i := 0; i < len(l.Active); {
		t, sum := l.Active[i].Term, 0.0
		x := &l.Terms[t]
		for ; i < len(l.Active) && l.Active[i].Term == t; i++ {
			a := &l.Active[i]
			sum += a.Value * (a.mean + x.counts[a.bin].mean)
		}
		// log-likelihood with the term less that without, to second order: sum·slope + half of curvature·sum², with the
		// sign of which of the two the present slope is of.
		half := curvature * sum * sum / 2
		if !x.In {
			half = -half
		}
		// One event counts gainMost nats at most, so that an outlier does not decide.
		x.gain = gainFade*x.gain + max(min(sum*slope+half, gainMost), -gainMost)
		x.In = x.gain > l.enters || x.In && x.gain > gainLeaves
	}
	for t := range l.Terms {
		if x := &l.Terms[t]; x.With >= 0 && !x.In && l.events >= x.trial {
			l.try(t)
		}
	}
}

// try gives a pair up at the end of its trial, or tries it again when there were retrial times as many events.
func (l *Pairwise) try(t int) {
	x := &l.Terms[t]
	fresh := newTerm(x.Field, x.With)
	if x.Off {
		fresh.trial = l.events + PairTrial
	} else {
		// Its cells make room for those of other terms.
		l.Cells.remove(t)
		fresh.Off, fresh.trial = true, retrial*l.events
	}
	*x = fresh
}

// choosePrecisions sets the precision of each term to what its weights say (MacKay 1992), after an eighth as many
// events as there were, or as there are cells: O(terms) an event.
func (l *Pairwise) choosePrecisions() {
	known, squares := make([]float64, len(l.Terms)), make(
		[]float64,
		len(l.Terms),
	) // how many weights the events know, and squares of means
	for i := range l.Cells.List {
		if c := &l.Cells.List[i]; c.key != noKey {
			d := l.Terms[c.term].Precision
			mean := c.right / (c.evidence + d)
			known[c.term] += c.evidence / (c.evidence + d)
			squares[c.term] += mean * mean
		}
	}
	for t := range l.Terms {
		// MacKay's fixed point: precision = γ/Σ mean², where γ counts the weights that the events determine.
		precision := (known[t] + namesPrior) / (squares[t] + namesPrior/namesPrecision)
		l.Terms[t].Precision = min(max(precision, namesPrecision/100), namesPrecise)
	}
	l.next = l.events + max(namesEvery, min(l.events, len(l.Cells.List))/8)
}
