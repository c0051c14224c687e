package experts

import (
	"math"
	"sort"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/kdtree"
	"github.com/refitd/refitd/snapshot/format"
)

// What nearest neighbours are looked for in: the newest events, in windows of two lengths, of which the longer holds
// fewer the more fields there are. Derived: nameDistance, from indicators; the trees depend on the windows. The others
// are chosen by hand.
const (
	neighbourCount = 8
	shortWindow    = 2000
	longWindow     = 20_000
	windowPerField = 1250    // more fields need more events for neighbours that are as near
	windowValues   = 320_000 // numbers and names in all
	windowLabels   = 1 << 20 // of all classes in all
	leastWindow    = 500
	nameDistance   = 2   // the squared distance of two different names: that of their indicators
	neighbourPrior = 0.5 // weight of the overall mean; that of a neighbour is at most 10
	neighbourNear  = 0.1 // of the distance of the farthest: what is nearer weighs no more
	frequencyFade  = 0.999
	shortEvents    = shortWindow / 8 // between two trees of the short window
	longEvents     = shortWindow / 2 // and of all
	treeTrials     = 16
	treeSlack      = 1 - 1e-5 // of distances from boxes, for rounding
)

// Neighbours predicts from the labels of the nearest of the newest events, by squared distance of standardised numbers
// and names, each weighted by its inverse distance. Names of lists do not count. Two windows run side by side, weighted
// by recent loss: the shorter follows change, the longer has nearer neighbours. Both are kept in trees, which are
// rebuilt every few events. Events since then are all compared, each up to the field where its distance is too large.
// O(window·d) an event at most.
type Neighbours struct {
	numbers *encode.NumberScale
	judge   residuals // loss of outputs, and the scale of what numbers are missed by
	scaled  bool      // the label is a number, in units of a running scale

	values  []float32 // window × d, a ring
	names   []uint32  // window × categorical fields, hashes
	labels  []float32 // window × m, the label in units or 1 of classes that hold, else 0
	window  int
	next    int
	n       int        // in the ring
	short   windowTree // of the newest shortWindow events
	long    windowTree // of all events of the ring
	value   []float32  // of the event in hand
	name    []uint32
	nearest []neighbour  // nearest first; of equal distance the newer first. At most neighbourCount.
	rates   []float64    // m, of labels, fading
	experts Weights      // of the means of the two windows
	each    [2][]float64 // means of labels, of the short and the long window
	loss    []float64
	target  []float64
}

// windowTree is a tree of the rows of a window as they were some events ago.
type windowTree struct {
	kdtree.Tree
	since int // events since it was made
	tried int // events for which it was tried since, at most treeTrials
	seen  int // rows that were looked at for them
}

type neighbour struct {
	distance float32
	at       int
}

// neighbourWindow returns how many events are kept of d numbers and names and the labels of m outputs.
func neighbourWindow(d, m int) int {
	return min(max(windowPerField*d, longWindow/2), max(windowValues/max(d, 1), leastWindow),
		max(windowLabels/m, leastWindow), longWindow)
}

func newNeighbours(n *encode.NumberScale, t *encode.Target, fields int) *Neighbours {
	outputs := 1
	if !t.IsNumeric() {
		outputs = t.Outputs()
	}
	d := len(n.Z)
	l := &Neighbours{
		numbers: n,
		judge:   newResiduals(t),
		scaled:  t.IsNumeric(),
		window:  neighbourWindow(d+fields, outputs),
		experts: NewWeights(2),
	}
	l.values, l.value = make([]float32, l.window*d), make([]float32, d)
	l.names, l.name = make([]uint32, l.window*fields), make([]uint32, fields)
	l.labels = make([]float32, l.window*outputs)
	l.rates, l.loss, l.target = make([]float64, outputs), make([]float64, outputs), make([]float64, outputs)
	for c := range l.rates {
		if !l.scaled {
			l.rates[c] = 1 / float64(max(2, outputs))
		}
	}
	for w := range l.each {
		l.each[w] = make([]float64, outputs)
	}
	return l
}

func (l *Neighbours) Gather(ev *event.Event) {
	l.take(ev)
	l.nearest = l.nearest[:0]
	// Events after the newest tree are in none: they are looked at one by one, then the tree has the rest.
	newest := min(shortWindow, l.n)
	if len(l.short.Rows) > 0 {
		newest = min(newest, l.short.since)
	}
	l.search(0, newest)
	l.within(&l.short, newest, min(shortWindow, l.n))
	l.mean(l.each[0])
	// The longer window continues with what the shorter one found.
	l.within(&l.long, shortWindow, l.n)
	l.mean(l.each[1])
	l.experts.Weigh()
}

// take takes up the numbers and names of an event.
func (l *Neighbours) take(ev *event.Event) {
	for f, z := range l.numbers.Z {
		l.value[f] = float32(z)
	}
	for f, name := range ev.Categorical {
		l.name[f] = hashName(name)
	}
}

// hashName is FNV-1a.
func hashName(name string) uint32 {
	h := uint32(2166136261)
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	return h
}

// within looks among the events that came from from to to before the newest, which a tree has.
func (l *Neighbours) within(t *windowTree, from, to int) {
	switch {
	case from >= to:
		return
	case t.tried < treeTrials:
		t.tried++
	case 2*t.seen > t.tried*len(t.Rows): // too many fields for a tree
		l.search(from, to)
		return
	}
	l.descend(t, 0, 0, from, to)
}

// search looks among the events that came from to to before the newest.
func (l *Neighbours) search(from, to int) {
	for from < to { // the ring in two pieces
		last := (l.next - 1 - from + 2*l.window) % l.window
		n := min(to-from, last+1)
		l.scan(last, last-n)
		from += n
	}
}

// scan looks at the rows from last down to the one after end.
func (l *Neighbours) scan(last, end int) {
	d, k := len(l.value), len(l.name)
	farthest := l.farthest()
	for at := last; at > end; at-- {
		if sum := l.distance(l.values[at*d:at*d+d], l.names[at*k:at*k+k], farthest); sum < farthest {
			farthest = l.insert(neighbour{sum, at})
		}
	}
}

// farthest returns the distance of the farthest of the nearest, +Inf before there are enough.
func (l *Neighbours) farthest() float32 {
	if len(l.nearest) < neighbourCount {
		return float32(math.Inf(1))
	}
	return l.nearest[neighbourCount-1].distance
}

// distance returns the squared distance of a row from the event, or a number above limit if it is more.
func (l *Neighbours) distance(row []float32, names []uint32, limit float32) float32 {
	sum := float32(0)
	for f, name := range names {
		if name != l.name[f] {
			sum += nameDistance
		}
	}
	d := len(row)
	value, j := l.value[:d], 0
	// Four at a time, in a fixed order of additions: the tree and the scan come to the same bits.
	for ; j+4 <= d && sum <= limit; j += 4 {
		r, v := row[j:j+4:j+4], value[j:j+4:j+4]
		a, b, c, e := r[0]-v[0], r[1]-v[1], r[2]-v[2], r[3]-v[3]
		sum += (a*a + b*b) + (c*c + e*e)
	}
	for ; j < d && sum <= limit; j++ {
		a := row[j] - value[j]
		sum += a * a
	}
	return sum
}

// age returns how many events came after the one in a row.
func (l *Neighbours) age(at int) int {
	if at < l.next {
		return l.next - 1 - at
	}
	return l.next - 1 - at + l.window
}

// descend looks among the rows of a node of a tree, at a distance from it, of events that came from from to to before
// the newest. Of rows at the same distance the newer one is nearer, as where all are looked at from the newest on.
func (l *Neighbours) descend(t *windowTree, at int, distance float32, from, to int) {
	if distance*treeSlack > l.farthest() {
		return
	}
	node := &t.Nodes[at]
	if node.Second > 0 {
		near, far := at+1, int(node.Second)
		limit := l.farthest() / treeSlack
		a, b := t.DistanceTo(near, l.value, limit), t.DistanceTo(far, l.value, limit)
		if b < a {
			near, far, a, b = far, near, b, a
		}
		l.descend(t, near, a, from, to)
		l.descend(t, far, b, from, to)
		return
	}
	d, k, farthest := len(l.value), len(l.name), l.farthest()
	if t.tried < treeTrials {
		t.seen += int(node.To - node.From)
	}
	for i := int(node.From); i < int(node.To); i++ {
		row := int(t.Rows[i])
		sum := l.distance(t.Values[i*d:i*d+d], l.names[row*k:row*k+k], farthest)
		if sum > farthest {
			continue
		}
		age := l.age(row)
		if age < from || age >= to ||
			sum == farthest && len(l.nearest) == neighbourCount && l.age(l.nearest[neighbourCount-1].at) < age {
			continue
		}
		farthest = l.insert(neighbour{sum, row})
	}
}

// insert adds a neighbour that is nearer than the farthest, and returns the distance of the farthest then.
func (l *Neighbours) insert(n neighbour) float32 {
	age := l.age(n.at)
	at := sort.Search(len(l.nearest), func(i int) bool {
		o := &l.nearest[i]
		return o.distance > n.distance || o.distance == n.distance && l.age(o.at) > age
	})
	if len(l.nearest) < neighbourCount {
		l.nearest = append(l.nearest, n)
	}
	copy(l.nearest[at+1:], l.nearest[at:])
	l.nearest[at] = n
	return l.farthest()
}

// mean stores the weighted mean of the labels of the neighbours found so far in dst.
func (l *Neighbours) mean(dst []float64) {
	total := neighbourPrior
	for c, r := range l.rates {
		dst[c] = neighbourPrior * r
	}
	if n := len(l.nearest); n > 0 {
		// Distances count relative to the farthest, so that weights do not depend on the scale of numbers.
		scale := float64(l.nearest[n-1].distance) + 1e-12
		for _, near := range l.nearest {
			w := 1 / (neighbourNear + float64(near.distance)/scale)
			total += w
			for c, y := range l.labels[near.at*len(dst) : (near.at+1)*len(dst)] {
				dst[c] += w * float64(y)
			}
		}
	}
	for c := range dst {
		dst[c] /= total
	}
}

func (l *Neighbours) Outputs(dst []float64, ev *event.Event) {
	l.Gather(ev)
	clear(dst)
	for w, p := range l.experts.Weights {
		for c, v := range l.each[w] {
			dst[c] += p * v
		}
	}
	l.numbers.Unscale(dst, l.scaled)
	if !l.scaled {
		toOutputs(dst, l.judge.link)
	}
}

// toOutputs turns probabilities into outputs of a link.
func toOutputs(p []float64, link string) {
	for c, v := range p {
		v = min(max(v, evaluate.LeastProbability), 1-evaluate.LeastProbability)
		if p[c] = math.Log(v); link != format.Softmax {
			p[c] -= math.Log1p(-v)
		}
	}
}

func (l *Neighbours) Learn(_ *event.Event, targets []float64, _ float64) {
	copy(l.target, targets)
	l.numbers.Scale(l.target, l.scaled)
	for w, p := range l.each {
		if !l.scaled {
			toOutputs(p, l.judge.link)
		}
		loss, _ := l.judge.of(l.loss, p, l.target)
		l.experts.Add(w, loss)
	}
	l.judge.add(l.loss[0])
	l.store()
	l.build()
}

// store puts the event in hand, with its target, in the place of the oldest.
func (l *Neighbours) store() {
	m := len(l.target)
	for c, t := range l.target {
		if !l.scaled {
			t = max(t, 0)
			l.rates[c] += (1 - frequencyFade) * (t - l.rates[c])
		}
		l.labels[l.next*m+c] = float32(t)
	}
	copy(l.values[l.next*len(l.value):], l.value)
	copy(l.names[l.next*len(l.name):], l.name)
	l.next, l.n = (l.next+1)%l.window, min(l.n+1, l.window)
	l.short.since++
	l.long.since++
}

// build builds the trees that are due.
func (l *Neighbours) build() {
	if l.n > shortEvents {
		l.keepUp(&l.short, shortWindow, shortEvents)
	}
	if l.n > shortWindow {
		l.keepUp(&l.long, l.n, longEvents)
	}
}

// Correct changes the label of the event in the window, as long as it is there.
func (l *Neighbours) Correct(of *admission.Correction) {
	if !of.Counts.IsShared() || int(of.Since) >= l.n {
		return
	}
	// The label of the event Since events ago, if it is still the one: names have to agree, as a check.
	at := (l.next - 1 - int(of.Since) + l.window) % l.window
	for f, name := range of.Is.Categorical {
		if l.names[at*len(l.name)+f] != hashName(name) {
			return
		}
	}
	l.numbers.Scale(of.From, l.scaled)
	l.numbers.Scale(of.To, l.scaled)
	m := len(l.rates)
	for c, t := range of.To {
		if !l.scaled {
			t = encode.One(t)
			l.rates[c] += (1 - frequencyFade) * admission.Fades(frequencyFade, of.Since) * (t - encode.One(of.From[c]))
		}
		l.labels[at*m+c] = float32(t)
	}
}

// keepUp builds the tree of the newest n events if it is empty, and again every so many events.
func (l *Neighbours) keepUp(t *windowTree, n, every int) {
	if t.since < every && len(t.Rows) > 0 {
		return
	}
	rows := t.Rows[:0]
	for age := range min(n, l.n) {
		rows = append(rows, int32((l.next-1-age+l.window)%l.window))
	}
	t.Build(l.values[:l.n*len(l.value)], rows, len(l.value))
	// A new tree is tried again: the data may have become easier to part.
	t.since, t.tried, t.seen = 0, 0, 0
}
