package diff

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// What is shown of a version, and how much is looked at for it.
const (
	shownOutputs      = 20
	shownInteractions = 10
	maxPairs          = 5_000_000 // pairs or triples evaluated for one output: about 0.1 s at k = 20
)

// Believes returns what a version has learned, but for its lineage: the largest interactions of each output, the use of
// the basis, sizes.
func Believes(m *snapshot.Model) *report.Belief {
	c, manifest := m.Contents(), m.Manifest()
	b := &report.Belief{
		Outputs:      []report.OutputBelief{},
		OutputsTotal: c.NumOutputs,
		Basis:        []report.BasisUsage{},
		Lineage:      []report.Ancestor{},
	}
	names := columnNames(c)
	for o := range min(c.NumOutputs, shownOutputs) {
		x := report.OutputBelief{Output: outputName(c, o)}
		for r := range c.NumBasis {
			if c.Weights[r*c.NumOutputs+o] != 0 {
				x.BasisUsed++
			}
		}
		x.Interactions, x.Exact = interactions(m, o, names)
		b.Outputs = append(b.Outputs, x)
	}
	for r, share := range shares(m) {
		u := report.BasisUsage{BasisVector: vector(m, r, share)}
		for _, v := range c.Weights[r*c.NumOutputs : r*c.NumOutputs+len(b.Outputs)] {
			u.Weights = append(u.Weights, report.Number(v))
		}
		b.Basis = append(b.Basis, u)
	}
	slices.SortStableFunc(b.Basis, func(x, y report.BasisUsage) int { return cmp.Compare(y.Share, x.Share) })
	b.Sizes.Features = make(map[string]int)
	for f, field := range c.Schema.Named() {
		b.Sizes.Features[field] = len(c.Vocabulary[f])
	}
	b.Sizes.Bytes = manifest.Size()
	for _, list := range [][]float64{c.Basis, c.Weights, c.Linear, c.Bias, c.MapWeights} {
		b.Sizes.Parameters += len(list)
		for _, v := range list {
			if v != 0 {
				b.Sizes.Nonzero++
			}
		}
	}
	return b
}

// outputName says what an output is about.
func outputName(c *format.Contents, o int) string {
	switch {
	case len(c.Schema.Classes) > 0:
		return c.Schema.Classes[o]
	case c.Link == format.OrdinalLink:
		return fmt.Sprintf("%s ≤ %d", c.Schema.Label, o+1)
	}
	return c.Schema.Label
}

// candidate is a column with the bound on what it can be part of: |w_ij| = |Σ_r V_r h_ri h_rj| is at most its length
// times that of the other, with the length (Σ_r |V_r| |h_ri|²)^½, and of three columns the product of theirs with (Σ_r
// |V_r| |h_ri|³)^⅓ (Hölder).
type candidate struct {
	column, field int
	length        float64
}

// search looks for the interactions of one output with the largest |weight|.
type search struct {
	c         *format.Contents
	names     []string
	columns   []candidate // longest first
	scale     float64     // orders of a product of different features
	chosen    []int       // places in columns
	products  [][]float64 // of the output's weights and the coordinates of those chosen
	best      []report.Interaction
	least     float64 // a smaller weight is not among the best
	evaluated int
}

// interactions returns the pairs of features, of a kernel of degree 3 the triples, with the largest |weight| for an
// output, of those that can occur in one event: two names of one categorical field cannot. Columns are taken in the
// order of their bound, and none is looked at whose bound is below the least of the best so far; so the answer is exact
// unless maxPairs are reached.
func interactions(m *snapshot.Model, o int, names []string) (best []report.Interaction, exact bool) {
	c, degree := m.Contents(), m.Manifest().Degree
	s := &search{
		c:        c,
		names:    names,
		columns:  candidates(c, o, degree),
		scale:    1,
		products: make([][]float64, degree),
		best:     []report.Interaction{},
	}
	for t := range s.products {
		s.products[t] = make([]float64, c.NumBasis)
		if c.Kernel == format.Homogeneous {
			s.scale *= float64(t + 1)
		}
	}
	for r := range c.NumBasis {
		s.products[0][r] = c.Weights[r*c.NumOutputs+o]
	}
	exact = s.extend(s.scale)
	return s.best, exact
}

// extend looks at all that begins with the columns chosen, whose bounds multiply to bound. It returns false when
// maxPairs are reached.
func (s *search) extend(bound float64) bool {
	depth, degree := len(s.chosen), len(s.products)
	if depth == degree {
		return true
	}
	from := 0
	if depth > 0 {
		from = s.chosen[depth-1] + 1
	}
	for at := from; at < len(s.columns); at++ {
		x := &s.columns[at]
		most := bound
		for range degree - depth {
			most *= x.length
		}
		if most <= s.least {
			break
		}
		if s.excludes(x) {
			continue
		}
		row := s.c.Basis[x.column*s.c.NumBasis : (x.column+1)*s.c.NumBasis]
		s.chosen = append(s.chosen, at)
		if depth < degree-1 {
			for r, v := range s.products[depth] {
				s.products[depth+1][r] = v * row[r]
			}
			if !s.extend(bound * x.length) {
				return false
			}
		} else if s.evaluated++; s.evaluated > maxPairs {
			return false
		} else {
			weight := 0.0
			for r, v := range s.products[depth] {
				weight += v * row[r]
			}
			s.offer(weight * s.scale)
		}
		s.chosen = s.chosen[:depth]
	}
	return true
}

// excludes reports whether a column is a name of a field that one of those chosen has a name of, which no event has two
// of.
func (s *search) excludes(x *candidate) bool {
	return x.field < len(s.c.Schema.Categorical)+len(s.c.Schema.Cross) &&
		slices.ContainsFunc(s.chosen, func(at int) bool { return s.columns[at].field == x.field })
}

// offer keeps the columns chosen if they are among the best.
func (s *search) offer(weight float64) {
	if math.Abs(weight) <= s.least {
		return
	}
	var columns []int
	for _, at := range s.chosen {
		columns = append(columns, s.columns[at].column)
	}
	slices.Sort(columns)
	x := report.Interaction{Weight: report.Number(weight)}
	for _, j := range columns {
		x.Features = append(x.Features, s.names[j])
	}
	s.best = append(s.best, x)
	slices.SortStableFunc(s.best, func(p, q report.Interaction) int {
		return cmp.Compare(math.Abs(float64(q.Weight)), math.Abs(float64(p.Weight)))
	})
	if len(s.best) >= shownInteractions {
		s.best = s.best[:shownInteractions]
		s.least = math.Abs(float64(s.best[shownInteractions-1].Weight))
	}
}

// candidates returns the columns that interact, longest first.
func candidates(c *format.Contents, o, degree int) []candidate {
	var columns []candidate
	fields := len(c.Vocabulary)
	column := 0
	add := func(field int) {
		power := 0.0
		for r := range c.NumBasis {
			h := math.Abs(c.Basis[column*c.NumBasis+r])
			power += math.Abs(c.Weights[r*c.NumOutputs+o]) * math.Pow(h, float64(degree))
		}
		if power > 0 {
			columns = append(columns, candidate{column, field, math.Pow(power, 1/float64(degree)) * (1 + 1e-12)})
		}
		column++
	}
	for f, list := range c.Vocabulary {
		for range list {
			add(f)
		}
	}
	for range c.Schema.Numeric {
		add(fields)
		fields++
	}
	if c.Schema.Augment {
		add(fields)
	}
	slices.SortStableFunc(columns, func(a, b candidate) int { return cmp.Compare(b.length, a.length) })
	return columns
}
