package scorer

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/answer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
)

// Constant names the column of an augmented model that is 1 in every event.
const Constant = "(constant)"

// Mapped names what a fourier feature map adds: one function of all numeric fields.
const Mapped = "(fourier)"

// Ruled names what trees add, with the fields that they ask behind it.
const Ruled = "(trees)"

// MaxExplained bounds the columns of an event that is explained: their pairs are 131,328. MaxTripled does with a kernel
// of degree 3: their triples are 121,485.
const (
	MaxExplained = 512
	MaxTripled   = 89
)

// Term is what some features of an event add to the outputs.
type Term struct {
	// Features are none for the bias, one for a linear term, two for an interaction, of a kernel of degree 3 three, and
	// the same one twice for a square: "user=u1" for a name, "age" for a number, "age=bin3" for a bin of one, Constant,
	// Mapped. Of trees they are the fields that these ask, behind Ruled.
	Features     []string
	Contribution []float64 // to each output
}

// Explanation takes a prediction apart: the contributions of the terms add up to the outputs before
// Manifest.OutputLimit, but for rounding.
type Explanation struct {
	answer.Prediction
	Terms []Term // with the largest contribution to any output first
}

// Explain returns the exact share of every bias, linear term and pair of features in the outputs of an event:
//
//	pair i < j   Σ_r V[r,c] h_r,i x_i h_r,j x_j, twice that in the homogeneous kernel, which has the squares i = j too
//
// and of a kernel of degree 3 every triple of features, the strongest by name first:
//
//	triple i < j < l   Σ_r V[r,c] h_r,i x_i h_r,j x_j h_r,l x_l, six times that in the homogeneous kernel, which has three times i = i < l and
//	i < l = l and once i = i = i, too
//
// Terms of zero for all outputs are left out. It takes O(nnz(x)²·k·m), of degree 3 O(nnz(x)³·k·m), and allocates. It
// returns ErrInput as Predict does, and for an event with more than MaxExplained known features, with a kernel of
// degree 3 MaxTripled.
func (m *Model) Explain(in *format.Input) (Explanation, error) {
	return m.explainOver(nil, in)
}

func (m *Model) explainOver(over *Overlay, in *format.Input) (Explanation, error) {
	p, err := m.predictWith(over, in)
	if err != nil {
		return Explanation{}, fmt.Errorf("snapshot: explain: %w", err)
	}
	var s Scratch
	in = m.join(in, &s)
	m.encodeOver(over, in, &s)
	most, isCubic := MaxExplained, m.contents.Degree == format.Cubic && m.contents.NumBasis > 0
	if isCubic {
		most = MaxTripled
	}
	if len(s.index) > most {
		return Explanation{}, fmt.Errorf("snapshot: explain: %w: %d known features, at most %d are explained",
			disk.ErrInput, len(s.index), most)
	}
	e := Explanation{Prediction: p}
	names := make([]string, len(s.index))
	for i, j := range s.index {
		names[i] = m.columnName(int(j))
	}
	if s.own != nil { // it is explained after the columns
		names = append(names, over.by.Name+"="+in.Categorical[over.field])
		s.value = append(s.value, 1)
	}
	e.add(m.contents.Bias)
	m.explainLinear(&e, names, &s)
	if isCubic {
		m.explainTriples(&e, names, &s)
	} else {
		m.explainPairs(&e, names, &s)
	}
	m.explainMap(&e, &s)
	m.explainTrees(&e, in)
	slices.SortStableFunc(
		e.Terms,
		func(a, b Term) int {
			return cmp.Compare(rowmath.Largest(b.Contribution), rowmath.Largest(a.Contribution))
		},
	)
	return e, nil
}

// add appends a term, with a copy of its contribution, unless that is zero.
func (e *Explanation) add(contribution []float64, features ...string) {
	if rowmath.Largest(contribution) > 0 {
		e.Terms = append(e.Terms, Term{append([]string{}, features...), slices.Clone(contribution)})
	}
}

func (m *Model) explainLinear(e *Explanation, names []string, s *Scratch) {
	c := &m.contents
	if s.own != nil {
		e.add(s.own.Linear, names[len(s.index)])
	}
	if c.Linear == nil {
		return
	}
	for i, j := range s.index {
		share := slices.Clone(m.linearRow(int(j)))
		for o := range share {
			share[o] *= s.value[i]
		}
		e.add(share, names[i])
	}
}

// explainMap adds what the feature map contributes: a term for each bin and each product, and one for all the cosines,
// which are functions of all numbers together.
func (m *Model) explainMap(e *Explanation, s *Scratch) {
	c := &m.contents
	sum := make([]float64, c.NumOutputs)
	for j, x := range s.phi {
		share := slices.Clone(c.MapWeights[j*c.NumOutputs : (j+1)*c.NumOutputs])
		for o := range share {
			share[o] *= x
			sum[o] += share[o]
		}
		switch fm := c.Schema.FeatureMap; fm.Kind {
		case format.Bins:
			e.add(share, fmt.Sprintf("%s=bin%d", c.Schema.Numeric[j/fm.Count].Name, j%fm.Count))
		case format.Products:
			e.add(share, factors(&c.Schema, j)...)
		}
	}
	if len(s.phi) > 0 && c.Schema.FeatureMap.Kind == format.Fourier {
		e.add(sum, Mapped)
	}
}

// explainTrees adds what trees contribute: a term for each set of fields that trees ask.
func (m *Model) explainTrees(e *Explanation, in *format.Input) {
	c := &m.contents
	if c.Trees == nil {
		return
	}
	shares, order := make(map[string][]float64), []string(nil)
	fieldsOf := make(map[string][]string)
	for i := range c.Trees.List {
		t := &c.Trees.List[i]
		fields := make([]string, 0, len(t.Splits))
		for d := range t.Splits {
			fields = append(fields, t.Splits[d].FieldName(&c.Schema))
		}
		slices.Sort(fields)
		fields = slices.Compact(fields)
		key := fmt.Sprintf("%q", fields)
		if shares[key] == nil {
			shares[key], fieldsOf[key] = make([]float64, c.NumOutputs), fields
			order = append(order, key)
		}
		at := t.Leaf(in.Categorical, in.Numeric) * c.NumOutputs
		for o, v := range t.Leaves[at : at+c.NumOutputs] {
			shares[key][o] += v
		}
	}
	for _, key := range order {
		e.add(shares[key], append([]string{Ruled}, fieldsOf[key]...)...)
	}
}

// factors returns the names of the numbers that column j of a map of products is made of: one, or two, the same for a
// square.
func factors(s *format.Schema, j int) []string {
	p := len(s.Numeric)
	if j < p {
		return []string{s.Numeric[j].Name}
	}
	i, first := 0, p // the products of field i with those up to it
	for ; j > first+i; i++ {
		first += i + 1
	}
	return []string{s.Numeric[i].Name, s.Numeric[j-first].Name}
}

func (m *Model) explainPairs(e *Explanation, names []string, s *Scratch) {
	c := &m.contents
	k, numOut := c.NumBasis, c.NumOutputs
	if k == 0 {
		return
	}
	share := make([]float64, numOut)
	for i := range names {
		for j := i; j < len(names); j++ {
			factor := s.value[i] * s.value[j]
			if c.Kernel == format.ANOVA {
				if i == j {
					continue
				}
			} else if i != j {
				factor *= 2
			}
			clear(share)
			hj := m.explainedRow(j, s)
			for r, h := range m.explainedRow(i, s) {
				a := factor * h * hj[r]
				for o, w := range c.Weights[r*numOut : (r+1)*numOut] {
					share[o] += w * a
				}
			}
			e.add(share, names[i], names[j])
		}
	}
}

// explainedRow returns the coordinates of a feature that is explained: that of a column, or behind them the entity's of
// an overlay.
func (m *Model) explainedRow(i int, s *Scratch) []float64 {
	if i == len(s.index) {
		return s.own.Basis
	}
	return m.basisRow(int(s.index[i]))
}

// tripled returns how often a kernel of degree 3 has the triple i ≤ j ≤ l.
func tripled(kernel string, i, j, l int) float64 {
	same := i == j || j == l
	switch {
	case kernel == format.ANOVA && same:
		return 0
	case kernel == format.ANOVA || i == l:
		return 1
	case same:
		return 3
	}
	return 6
}

// explainTriples is explainPairs for kernels of degree 3.
func (m *Model) explainTriples(e *Explanation, names []string, s *Scratch) {
	c := &m.contents
	numOut, share, pair := c.NumOutputs, make([]float64, c.NumOutputs), make([]float64, c.NumBasis)
	for i := range names {
		hi := m.explainedRow(i, s)
		for j := i; j < len(names); j++ {
			for r, h := range m.explainedRow(j, s) {
				pair[r] = s.value[i] * hi[r] * (s.value[j] * h)
			}
			for l := j; l < len(names); l++ {
				factor := s.value[l] * tripled(c.Kernel, i, j, l)
				if factor == 0 {
					continue
				}
				clear(share)
				for r, h := range m.explainedRow(l, s) {
					a := factor * pair[r] * h
					for o, w := range c.Weights[r*numOut : (r+1)*numOut] {
						share[o] += w * a
					}
				}
				e.add(share, names[i], names[j], names[l])
			}
		}
	}
}

func (m *Model) columnName(j int) string {
	s := &m.contents.Schema
	if j >= m.contents.NumFeatures {
		a := m.addedName(int32(j))
		return s.Named()[a.Field] + "=" + a.Name
	}
	fields := len(m.first)
	f := sort.Search(fields, func(f int) bool { return int(m.first[f]) > j }) - 1
	if f >= 0 {
		if i := j - int(m.first[f]); i < len(m.contents.Vocabulary[f]) {
			return s.Named()[f] + "=" + m.contents.Vocabulary[f][i]
		}
	}
	if i := j - (m.contents.NumFeatures - s.NumExtra()); i < len(s.Numeric) {
		return s.Numeric[i].Name
	}
	return Constant
}
