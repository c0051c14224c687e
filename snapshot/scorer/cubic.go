package scorer

import (
	"slices"

	"github.com/refitd/refitd/snapshot/format"
)

// Kernels of degree 3. With a_j = h_j x_j, the ANOVA kernel A³ = Σ_{i<j<l} a_i a_j a_l is made column by column
// (Blondel et al. 2016, the recurrence of section 5): a column adds a_j A² of those before it to A³, a_j A¹ to A²
// and a_j to A¹. Power sums, (p1³ − 3 p1 p2 + 2 p3)/6, take as many products and cancel: where one column is much
// larger than the others they lose the digits of what is left, and the recurrence does not.

// addTriples adds the linear weights of the encoded event to dst and leaves Σ a_j in s.sum, A² in s.pairs and A³ in
// s.kern, whose sums and kernels are zeros.
func (m *Model) addTriples(dst []float64, s *Scratch) {
	k := m.contents.NumBasis
	s.pairs = slices.Grow(s.pairs[:0], k)[:k]
	clear(s.pairs)
	for e, j := range s.index {
		basis, linear := m.row(int(j))
		addTripleRow(dst, s.sum, s.pairs, s.kern, basis, linear, s.value[e])
	}
	if s.own != nil {
		addTripleRow(dst, s.sum, s.pairs, s.kern, s.own.Basis, s.own.Linear, 1)
	}
}

// addTripleRow is AddRow for the ANOVA kernel of degree 3: one step of the recurrence.
func addTripleRow(dst, sum, pairs, triples, basis, linear []float64, x float64) {
	dst = dst[:len(linear)]
	for o, w := range linear {
		dst[o] += w * x
	}
	sum, pairs, triples = sum[:len(basis)], pairs[:len(basis)], triples[:len(basis)]
	for r, h := range basis {
		a := h * x
		triples[r] += a * pairs[r]
		pairs[r] += a * sum[r]
		sum[r] += a
	}
}

// isCube reports whether the kernel is ⟨h, x⟩³: what a name adds to it is not linear in its row, nor but for a
// part that no event changes.
func isCube(c *format.Contents) bool {
	return c.Degree == format.Cubic && c.Kernel == format.Homogeneous
}

// steps returns what the kernel of a basis vector gains per coordinate h of one more column of value 1, by h, by h² and
// by h³, given the sums of the event: (S + h)² − S² = 2 S h + h², (S + h)³ − S³ = 3 S² h + 3 S h² + h³, A²(S) + S h and
// A³(S) + A²(S) h.
func steps(c *format.Contents, s *Scratch, r int) (first, second, third float64) {
	sum := s.sum[r]
	switch {
	case isCube(c):
		return 3 * sum * sum, 3 * sum, 1
	case c.Kernel == format.Homogeneous:
		return 2 * sum, 1, 0
	case c.Degree == format.Cubic:
		return s.pairs[r], 0, 0
	}
	return sum, 0, 0
}
