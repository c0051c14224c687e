package cycle

import (
	"math"
	"math/bits"

	"github.com/refitd/refitd/solver"
)

// fixed returns the constant of what versions can hold: the bias, and of each field that counts the weight of a name that never came.
func (l *namesLearner) fixed() float64 {
	sum := l.bias.mean
	for t := range l.terms {
		if x := &l.terms[t]; x.in && x.with < 0 {
			sum += x.counts[0].mean
		}
	}
	return sum
}

// over returns by how much the weight of a name is more than that of one that never came: with a weight of its own, and how often it has come.
func (x *term) over(own float64, bin int) float64 { return own + x.counts[bin].mean - x.counts[0].mean }

// freeze returns the learner without its pairs as an ordinary model over v: of fields and crosses, with the counts of names as they are now. Outputs are
// not shrunk by their variance.
func (l *namesLearner) freeze(v *Vocabulary, kernel solver.Kernel) *solver.Model {
	model := solver.NewModel(kernel, v.NumColumns(), 1, true)
	model.Bias[0] = l.fixed()
	column := 0
	for f, names := range v.Names {
		x := &l.terms[f]
		for i, name := range names {
			c := l.cells.find(mixHash(nameHash(name), 0, uint64(f)))
			if c != nil && x.in {
				bin := min(bits.Len32(c.count), countBins-1)
				model.Linear[column+i] = x.over(c.right/(c.evidence+x.precision), bin)
			}
		}
		column += len(names)
	}
	return model
}

// namesForVersions returns the learner on names if versions could hold it: its outputs are theirs, and the mixture judges it beside the fold-in.
func (c *Cycle) namesForVersions() *namesLearner {
	for _, beside := range c.companions {
		if l, ok := beside.learner.(*namesLearner); ok && l.label == nil {
			return l
		}
	}
	return nil
}

// compareNames takes up what the learner on names, as versions could hold it, and the fold-in lost on the event that was taken up last.
func (c *Cycle) compareNames() {
	l, foldIn := c.namesForVersions(), c.mixture.part("fold_in")
	if l == nil || c.champion == nil || foldIn == nil || !foldIn.present {
		return
	}
	c.namesLag.add(min(math.Log1p(math.Exp(-c.targets[0]*l.held)), mixtureLossMax), foldIn.loss)
}

// fromNames returns the learner on names as an ordinary model over v, the vocabulary of the fold-in, nil where there is none or where the fold-in has
// predicted recent events better.
func (c *Cycle) fromNames(v *Vocabulary) *solver.Model {
	l := c.namesForVersions()
	if l == nil || c.namesLag.n < updateEvents {
		return nil
	}
	if c.namesHeld = c.namesLag.prefers(c.namesHeld); !c.namesHeld {
		return nil
	}
	return l.freeze(v, c.champion.Model.Kernel)
}
