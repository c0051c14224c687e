package experts

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/trees"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
	"gonum.org/v1/gonum/floats"
)

// Freeze returns the learner as a model without weights, whose vocabulary has the trees of all ensembles: their leaves
// count by the weights of the ensembles as they are now. Before the first fit, and where a leaf is not finite, the model
// is nil. O(leaves).
func (l *Boosted) Freeze(v *encode.Vocabulary, kernel solver.Kernel) (*solver.Model, *encode.Vocabulary) {
	l.experts.Weigh()
	model := solver.NewModel(kernel, v.NumColumns(), len(l.mixed), false)
	out := *v
	out.Map, out.Trees = nil, new(format.Trees)
	mean, unit := 0.0, 1.0
	if l.scaled {
		mean, unit = l.numbers.Label.Of()
	}
	for c := range model.Bias {
		model.Bias[c] = mean
	}
	for e := range l.each {
		x, share := l.each[e].ensemble, l.experts.Weights[e]*unit
		if x == nil {
			continue
		}
		for c, v := range x.Base {
			model.Bias[c] += share * v
		}
		for i := range x.Trees {
			t := l.frozen(&x.Trees[i], share)
			if !encode.IsFinite(t.Leaves) {
				return nil, nil
			}
			out.Trees.List = append(out.Trees.List, t)
		}
	}
	if len(out.Trees.List) == 0 {
		return nil, nil
	}
	return model, &out
}

// frozen returns a tree whose leaves are multiplied by a share.
func (l *Boosted) frozen(t *trees.Tree, share float64) format.Tree {
	out := format.Tree{Splits: make([]format.Split, len(t.Splits)), Leaves: make([]float64, len(t.Leaves))}
	for d := range t.Splits {
		s := &t.Splits[d]
		out.Splits[d] = format.Split{Field: s.Field, Edge: s.Edge, Name: l.window.Name(s)}
	}
	for i, v := range t.Leaves {
		out.Leaves[i] = share * v
	}
	return out
}

// markedTrees are the ensembles of the newest update, with what they have lost since, compared with the current ones.
type markedTrees struct {
	each    [len(boostedFits)]*trees.Ensemble // nil where there was none
	weights [len(boostedFits)]float64
	outputs []float64 // scratch, as mixed
	mixed   []float64

	n, loss, gain, squares float64 // of the events since: their loss, and by how much less the current ones lose; fading
}

// When an early update is asked for: what the current trees lose less than the marked ones is enough of their loss, and
// so many standard errors, over events that fade. All are chosen by hand; rules 1 was looked at.
const (
	markedFade   = 0.99
	markedLeast  = 30 // events
	markedGain   = 0.1
	markedErrors = 3.0
	markedMost   = 4.0 // of the difference on one event
)

// Mark notes that an update is made of the trees as they are now.
func (l *Boosted) Mark() {
	l.experts.Weigh()
	l.marked = markedTrees{outputs: make([]float64, len(l.mixed)), mixed: make([]float64, len(l.mixed))}
	for e := range l.each {
		l.marked.each[e], l.marked.weights[e] = l.each[e].ensemble, l.experts.Weights[e]
	}
}

// compare takes up the loss of the current trees on the event in hand.
func (x *markedTrees) compare(l *Boosted, ev *event.Event, loss float64) {
	if x.mixed == nil {
		return
	}
	clear(x.mixed)
	for e, ensemble := range x.each {
		if ensemble != nil {
			ensemble.Predict(x.outputs, ev.Numeric, l.codes)
			floats.AddScaled(x.mixed, x.weights[e], x.outputs)
		}
	}
	last, _ := l.judge.of(l.residual, x.mixed, l.target)
	gain := min(max(last-loss, -markedMost), markedMost)
	x.n, x.loss = markedFade*x.n+1, markedFade*x.loss+min(last, markedMost)
	x.gain, x.squares = markedFade*x.gain+gain, markedFade*x.squares+gain*gain
}

// HasMoved reports whether the trees of the newest update have predicted much worse than the current ones.
func (l *Boosted) HasMoved() bool {
	x := &l.marked
	return x.n >= markedLeast && x.gain > markedGain*x.loss && x.gain > markedErrors*math.Sqrt(x.squares)
}
