package experts

import (
	"math"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/trees"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

// Freeze returns the learner as a model without weights, whose vocabulary has the trees of all ensembles: their leaves
// count by the weights of the ensembles as they are now. Before the first fit, and where a leaf is not finite, the
// model is nil. O(leaves).
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

// Shares returns by how much each ensemble counts. The list is the learner's: read it only.
func (l *Boosted) Shares() []float64 {
	l.experts.Weigh()
	return l.experts.Weights
}

// Fits returns how often an ensemble was fitted anew.
func (l *Boosted) Fits() int { return l.fits }

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

// Lag is how much more something has lost of late than something else. The zero value has no events.
type Lag struct {
	n, loss, gain, squares float64 // of the events so far: its losses, and how much greater they are; fading
}

// When a lag is large: it is enough of the loss, and so many standard errors, over events that fade. All are chosen by
// hand; rules 1 was looked at.
const (
	lagFade   = 0.99
	lagLeast  = 30 // events
	lagGain   = 0.1
	lagErrors = 3.0

	// LagMost bounds logarithmic losses of one event, and squares in units of their mean.
	LagMost = 4.0
)

// Add takes up both losses on an event, bounded by most.
func (x *Lag) Add(loss, other, most float64) {
	gain := min(max(loss-other, -most), most)
	x.n, x.loss = lagFade*x.n+1, lagFade*x.loss+min(loss, most)
	x.gain, x.squares = lagFade*x.gain+gain, lagFade*x.squares+gain*gain
}

// IsKnown reports whether there were enough events for what they lost to say something.
func (x *Lag) IsKnown() bool { return x.n >= lagLeast }

// IsLarge reports whether the other one has lost much less.
func (x *Lag) IsLarge() bool {
	return x.IsKnown() && x.gain > lagGain*x.loss && x.gain > lagErrors*math.Sqrt(x.squares)
}

// Gain is by how much less the other one has lost.
func (x *Lag) Gain() float64 { return x.gain }

// Mean is the mean loss.
func (x *Lag) Mean() float64 { return x.loss / x.n }
