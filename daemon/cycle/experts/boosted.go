package experts

import (
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/trees"
	"gonum.org/v1/gonum/floats"
)

// boostedFits are the ensembles that run side by side: few rows follow change, many have finer rules. Chosen by hand;
// rules 1 and 2 were looked at.
var boostedFits = [...]trees.Options{
	{Rows: 1024, Trees: 24, Depth: 4, Rate: 0.3},
	{Rows: 4096, Trees: 24, Depth: 6, Rate: 0.3},
}

// Bounds of boosted trees. All are chosen by hand.
const (
	boostedFirst   = 64      // events before the first fit
	boostedEvery   = 8       // an ensemble is fitted anew after this part of its rows
	boostedCells   = 1 << 17 // rows × inputs × (outputs+1)/2
	boostedOutputs = 10
	leastOfName    = 8 // rows of a name that is asked for
)

// Boosted predicts by rules of if and else on numbers and names: boosted trees, which are fitted to the newest events
// again and again. Lists do not count. What it predicts is the mean output of its ensembles, weighted by recent loss.
// Between fits an event takes O(trees · depth); a fit takes O(boostedCells · trees · depth).
type Boosted struct {
	numbers *encode.NumberScale
	judge   residuals // loss of outputs, and the scale of what numbers are missed by
	scaled  bool      // the label is a number, in units of a running scale
	window  *trees.Window
	fitter  trees.Fitter
	each    [len(boostedFits)]boosted
	experts Weights
	fits    int // so far

	inUse    [len(boostedFits)]*trees.Ensemble // scratch of refit
	codes    []uint8                           // of the event in hand
	mixed    []float64
	residual []float64
	target   []float64
}

// boosted is one of the ensembles.
type boosted struct {
	fit      trees.Options
	ensemble *trees.Ensemble // nil before the first fit
	since    int             // events since the last fit
	outputs  []float64       // for the event in hand
}

// boostedKind learns rules.
var boostedKind = Kind{
	Name:    PartBoosted,
	Doc:     "boosted trees over the newest events: rules on numbers and names; numeric fields, up to ten outputs",
	Memory:  numbersMemory,
	Lasting: true,
	Applies: func(s *Setting) bool { return s.learnsNumbers() && boostedRows(s) >= boostedFits[0].Rows },
	New: onNumbers(PartBoosted, func(s *Setting, n *encode.NumberScale, t *encode.Target) Learner {
		return newBoosted(n, t, s.Schema.NumGiven(), boostedRows(s))
	}),
	Footprint: func(s *Setting) int64 {
		return trees.Footprint(boostedRows(s), len(s.Schema.Numeric), s.Schema.NumGiven(),
			s.numberTarget().Outputs(), s.maxName(), slices.Repeat(boostedFits[:], 3)) // updates have two more
	},
}

// boostedRows returns how many events are kept, 0 with too many outputs.
func boostedRows(s *Setting) int {
	m := s.numberTarget().Outputs()
	if m > boostedOutputs {
		return 0
	}
	most := boostedFits[len(boostedFits)-1].Rows
	return min(most, 2*boostedCells/((len(s.Schema.Numeric)+s.Schema.NumGiven())*(m+1)))
}

func newBoosted(n *encode.NumberScale, t *encode.Target, names, rows int) *Boosted {
	m := 1
	if !t.IsNumeric() {
		m = t.Outputs()
	}
	l := &Boosted{numbers: n, judge: newResiduals(t), scaled: t.IsNumeric(),
		window: trees.NewWindow(rows, len(n.Z), names, m), experts: NewWeights(len(boostedFits)),
		codes: make([]uint8, names), mixed: make([]float64, m), residual: make([]float64, m), target: make([]float64, m)}
	for e := range l.each {
		l.each[e] = boosted{fit: boostedFits[e], outputs: make([]float64, m)}
	}
	return l
}

func (l *Boosted) Gather(ev *event.Event) {
	l.window.Codes(l.codes, l.given(ev))
	l.experts.Weigh()
	clear(l.mixed)
	for e := range l.each {
		x := &l.each[e]
		if clear(x.outputs); x.ensemble != nil {
			x.ensemble.Predict(x.outputs, ev.Numeric, l.codes)
		}
		floats.AddScaled(l.mixed, l.experts.Weights[e], x.outputs)
	}
}

func (l *Boosted) Outputs(dst []float64, ev *event.Event) {
	l.Gather(ev)
	copy(dst, l.mixed)
	l.numbers.Unscale(dst, l.scaled)
}

func (l *Boosted) Learn(ev *event.Event, targets []float64, weight float64) {
	l.setTarget(targets)
	for e := range l.each {
		loss, _ := l.judge.of(l.residual, l.each[e].outputs, l.target)
		l.experts.Add(e, loss)
	}
	l.judge.of(l.residual, l.mixed, l.target)
	l.judge.add(l.residual[0])
	l.window.Add(ev.Numeric, l.given(ev), l.target, min(weight, heaviest))
	for e := range l.each {
		l.refit(e)
	}
}

// given returns the names of an event but for those of crosses: trees ask for both of two names by themselves.
func (l *Boosted) given(ev *event.Event) []string { return ev.Categorical[:len(l.codes)] }

// setTarget stores targets in units.
func (l *Boosted) setTarget(targets []float64) {
	copy(l.target, targets)
	l.numbers.Scale(l.target, l.scaled)
}

// refit fits an ensemble anew if that is due. One of more rows than another waits for the first event beyond its rows.
func (l *Boosted) refit(e int) {
	x := &l.each[e]
	x.since++
	n, first := l.window.Len(), boostedFirst
	if e > 0 {
		first = l.each[e-1].fit.Rows + 1
	}
	if n < first || x.since < max(boostedFirst/2, min(n, x.fit.Rows)/boostedEvery) {
		return
	}
	x.since = 0
	for o := range l.each { // this one's codes may go
		l.inUse[o] = l.each[o].ensemble
	}
	l.inUse[e] = nil
	l.window.Forget(leastOfName, l.inUse[:]...)
	l.fits++
	x.ensemble = l.fitter.Fit(l.window, x.fit, l.slope)
}

// slope is a trees.Judge.
func (l *Boosted) slope(dst, outputs, targets []float64) float64 {
	_, curvature := l.judge.of(dst, outputs, targets)
	if l.scaled {
		floats.Scale(curvature, dst)
	}
	return curvature
}

// Correct puts the label into the window, from which the next fit takes it.
func (l *Boosted) Correct(of *admission.Correction) {
	if of.Counts.IsShared() {
		l.setTarget(of.To)
		l.window.Correct(int(of.Since), l.given(of.Is), l.target)
	}
}
