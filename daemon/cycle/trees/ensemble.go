package trees

// Ensemble is a sum of symmetric trees: m outputs.
type Ensemble struct {
	Base  []float64 // m
	Trees []Tree
}

// Tree asks the same question in all nodes of a level (Kohavi 1994; Prokhorenkova and others 2018). The answers are the
// bits of the leaf, that of the first level the lowest.
type Tree struct {
	Splits []Split
	Leaves []float64 // 2^splits × m
}

// Split asks whether a number is at least an edge, or whether a name is a certain one.
type Split struct {
	Field int     // numeric, or −1 − field of names
	Edge  float64 // of a numeric field
	code  uint8   // of the name in the window
}

// Leaf returns the leaf of an event, given its numbers, NaN where it lacks one, and the codes of its names.
func (t *Tree) Leaf(numeric []float64, codes []uint8) (leaf int) {
	for d := range t.Splits {
		s := &t.Splits[d]
		yes := false
		if s.Field >= 0 {
			yes = numeric[s.Field] >= s.Edge
		} else {
			yes = codes[-1-s.Field] == s.code
		}
		if yes {
			leaf |= 1 << d
		}
	}
	return leaf
}

// Predict stores the m outputs of an event in dst.
func (e *Ensemble) Predict(dst, numeric []float64, codes []uint8) {
	m := copy(dst, e.Base)
	for i := range e.Trees {
		t := &e.Trees[i]
		at := t.Leaf(numeric, codes) * m
		for c, v := range t.Leaves[at : at+m] {
			dst[c] += v
		}
	}
}

// eachSplit calls yield for all questions of an ensemble, none if it is nil.
func (e *Ensemble) eachSplit(yield func(s *Split)) {
	if e == nil {
		return
	}
	for i := range e.Trees {
		for d := range e.Trees[i].Splits {
			yield(&e.Trees[i].Splits[d])
		}
	}
}
