package cycle

import (
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
		for i, name := range names {
			model.Linear[column+i] = l.weightOf(f, name)
		}
		column += len(names)
	}
	return model
}

// weightOf returns the weight of a name in freeze, 0 of one that never came.
func (l *namesLearner) weightOf(field int, name string) float64 {
	x := &l.terms[field]
	c := l.cells.find(mixHash(nameHash(name), 0, uint64(field)))
	if c == nil || !x.in {
		return 0
	}
	return x.over(c.right/(c.evidence+x.precision), min(bits.Len32(c.count), countBins-1))
}
