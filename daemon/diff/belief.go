package diff

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// What is shown of a version, and how much is looked at for it.
const (
	shownOutputs      = 20
	shownInteractions = 10
	maxPairs          = 5_000_000 // pairs evaluated for one output: about 0.1 s at k = 20
)

// Believes returns what a version has learned, but for its lineage: the largest interactions of each output, the use of the basis, sizes.
func Believes(m *snapshot.Model) *report.Belief {
	c, manifest := m.Contents(), m.Manifest()
	b := &report.Belief{Outputs: []report.OutputBelief{}, OutputsTotal: c.NumOutputs, Basis: []report.BasisUsage{}, Lineage: []report.Ancestor{}}
	names := columnNames(c)
	for o := range min(c.NumOutputs, shownOutputs) {
		x := report.OutputBelief{Output: outputName(c, o)}
		for r := range c.NumBasis {
			if c.Weights[r*c.NumOutputs+o] != 0 {
				x.BasisUsed++
			}
		}
		x.Interactions, x.Exact = interactions(c, o, names)
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
	for _, f := range manifest.Files {
		b.Sizes.Bytes += f.Bytes
	}
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
func outputName(c *snapshot.Contents, o int) string {
	switch {
	case len(c.Schema.Classes) > 0:
		return c.Schema.Classes[o]
	case c.Link == snapshot.OrdinalLink:
		return fmt.Sprintf("%s ≤ %d", c.Schema.Label, o+1)
	}
	return c.Schema.Label
}

// candidate is a column with the bound on what it can be part of: |w_ij| = |Σ_r V_r h_ri h_rj| is at most its length times that of the other,
// with the coordinates √|V_r| h_ri (Cauchy and Schwarz).
type candidate struct {
	column, field int
	length        float64
}

// interactions returns the pairs of features with the largest |weight| for an output, of those that can occur in one event: two names of
// one categorical field cannot. Columns are taken in the order of their bound, and no pair is looked at whose bound is below the least of
// the best so far; so the answer is exact unless maxPairs are reached.
func interactions(c *snapshot.Contents, o int, names []string) (best []report.Interaction, exact bool) {
	k, m := c.NumBasis, c.NumOutputs
	scale := 1.0
	if c.Kernel == snapshot.Homogeneous {
		scale = 2 // both orders of a pair
	}
	columns := candidates(c, o)
	least, evaluated := 0.0, 0
	best = []report.Interaction{}
	for a := range columns {
		if columns[a].length*columns[a].length*scale <= least {
			break
		}
		for b := a + 1; b < len(columns); b++ {
			x, y := &columns[a], &columns[b]
			if x.length*y.length*scale <= least {
				break
			}
			if x.field == y.field && x.field < len(c.Schema.Categorical)+len(c.Schema.Cross) {
				continue
			}
			if evaluated++; evaluated > maxPairs {
				return best, false
			}
			weight := 0.0
			for r := range k {
				weight += c.Weights[r*m+o] * c.Basis[x.column*k+r] * c.Basis[y.column*k+r]
			}
			if weight *= scale; math.Abs(weight) <= least {
				continue
			}
			i, j := min(x.column, y.column), max(x.column, y.column)
			best = append(best, report.Interaction{Features: [2]string{names[i], names[j]}, Weight: report.Number(weight)})
			slices.SortStableFunc(best, func(p, q report.Interaction) int {
				return cmp.Compare(math.Abs(float64(q.Weight)), math.Abs(float64(p.Weight)))
			})
			if len(best) >= shownInteractions {
				best = best[:shownInteractions]
				least = math.Abs(float64(best[shownInteractions-1].Weight))
			}
		}
	}
	return best, true
}

// candidates returns the columns that interact, longest first.
func candidates(c *snapshot.Contents, o int) []candidate {
	var columns []candidate
	fields := len(c.Vocabulary)
	column := 0
	add := func(field int) {
		square := 0.0
		for r := range c.NumBasis {
			h := c.Basis[column*c.NumBasis+r]
			square += math.Abs(c.Weights[r*c.NumOutputs+o]) * h * h
		}
		if square > 0 {
			columns = append(columns, candidate{column, field, math.Sqrt(square)})
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
