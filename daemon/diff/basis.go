package diff

import (
	"cmp"
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// sameDirection is the |cosine| above which two basis vectors count as one that a refit has turned: more than half of
// the squared length of each lies along the other.
var sameDirection = math.Sqrt(0.5)

// topFeatures is how many features describe a basis vector.
const topFeatures = 5

// Basis matches the basis vectors of two versions by their direction, not by their place, best matches first and each
// once.
func Basis(a, b *snapshot.Model) report.BasisDiff {
	ca, cb := a.Contents(), b.Contents()
	shareA, shareB := shares(a), shares(b)
	columns := commonColumns(ca, cb)
	var pairs []report.BasisMatch
	normA, normB := norms(ca), norms(cb)
	for r := range ca.NumBasis {
		for s := range cb.NumBasis {
			dot := 0.0
			for _, c := range columns {
				dot += ca.Basis[c[0]*ca.NumBasis+r] * cb.Basis[c[1]*cb.NumBasis+s]
			}
			if cosine := math.Abs(dot) / (normA[r] * normB[s]); cosine >= sameDirection { // NaN for a vector of zeros
				pairs = append(
					pairs,
					report.BasisMatch{
						A:      r,
						B:      s,
						Cosine: report.Number(cosine),
						ShareA: report.Number(shareA[r]),
						ShareB: report.Number(shareB[s]),
					},
				)
			}
		}
	}
	slices.SortStableFunc(pairs, func(x, y report.BasisMatch) int { return cmp.Compare(y.Cosine, x.Cosine) })
	out := report.BasisDiff{Kept: []report.BasisMatch{}, In: []report.BasisVector{}, Out: []report.BasisVector{}}
	usedA, usedB := make([]bool, ca.NumBasis), make([]bool, cb.NumBasis)
	for _, p := range pairs {
		if !usedA[p.A] && !usedB[p.B] {
			usedA[p.A], usedB[p.B] = true, true
			out.Kept = append(out.Kept, p)
		}
	}
	for r, used := range usedA {
		if !used {
			out.Out = append(out.Out, vector(a, r, shareA[r]))
		}
	}
	for s, used := range usedB {
		if !used {
			out.In = append(out.In, vector(b, s, shareB[s]))
		}
	}
	return out
}

func vector(m *snapshot.Model, r int, share float64) report.BasisVector {
	return report.BasisVector{Index: r, Share: report.Number(share), Features: strongest(m, r, topFeatures)}
}

// commonColumns returns the pairs of columns of the same feature.
func commonColumns(a, b *format.Contents) [][2]int {
	index := make(map[string]int, b.NumFeatures)
	for j, name := range columnNames(b) {
		index[name] = j
	}
	var pairs [][2]int
	for j, name := range columnNames(a) {
		if other, ok := index[name]; ok {
			pairs = append(pairs, [2]int{j, other})
		}
	}
	return pairs
}

// columnNames names every column: user=u1, age, (constant).
func columnNames(c *format.Contents) []string {
	names := make([]string, 0, c.NumFeatures)
	fields := c.Schema.Named()
	for f, list := range c.Vocabulary {
		field := fields[f]
		for _, name := range list {
			names = append(names, field+"="+name)
		}
	}
	for _, f := range c.Schema.Numeric {
		names = append(names, f.Name)
	}
	if c.Schema.Augment {
		names = append(names, snapshot.Constant)
	}
	return names
}

// norms returns the Euclidean norm of each basis vector.
func norms(c *format.Contents) []float64 {
	out := make([]float64, c.NumBasis)
	for j := range c.NumFeatures {
		for r, h := range c.Basis[j*c.NumBasis : (j+1)*c.NumBasis] {
			out[r] += h * h
		}
	}
	for r := range out {
		out[r] = math.Sqrt(out[r])
	}
	return out
}

// shares returns what part of all interactions each basis vector is: ‖V_r‖·‖h_r‖^degree over the sum.
func shares(m *snapshot.Model) []float64 {
	c, degree := m.Contents(), float64(m.Manifest().Degree)
	out, total := norms(c), 0.0
	for r := range out {
		square := 0.0
		for _, v := range c.Weights[r*c.NumOutputs : (r+1)*c.NumOutputs] {
			square += v * v
		}
		out[r] = math.Sqrt(square) * math.Pow(out[r], degree)
		total += out[r]
	}
	for r := range out {
		if total > 0 {
			out[r] /= total
		}
	}
	return out
}

// strongest names the features with the largest coordinates of a basis vector, with their sign.
func strongest(m *snapshot.Model, r, limit int) []string {
	c := m.Contents()
	order := make([]int, c.NumFeatures)
	for j := range order {
		order[j] = j
	}
	at := func(j int) float64 { return c.Basis[j*c.NumBasis+r] }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(math.Abs(at(b)), math.Abs(at(a))) })
	names := columnNames(c)
	out := []string{}
	for _, j := range order[:min(limit, len(order))] {
		if at(j) == 0 {
			break
		}
		sign := "+"
		if at(j) < 0 {
			sign = "-"
		}
		out = append(out, sign+names[j])
	}
	return out
}
