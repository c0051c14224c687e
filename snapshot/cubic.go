package snapshot

import "slices"

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
		addTripleRow(dst, s.sum, s.pairs, s.kern, s.own.basis, s.own.linear, 1)
	}
}

// addTripleRow is addRow for the ANOVA kernel of degree 3: one step of the recurrence.
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
func (c *Contents) isCube() bool { return c.Degree == cubic && c.Kernel == Homogeneous }

// steps returns what the kernel of a basis vector gains per coordinate h of one more column of value 1, by h, by h² and
// by h³, given the sums of the event: (S + h)² − S² = 2 S h + h², (S + h)³ − S³ = 3 S² h + 3 S h² + h³, A²(S) + S h and
// A³(S) + A²(S) h.
func (c *Contents) steps(s *Scratch, r int) (first, second, third float64) {
	sum := s.sum[r]
	switch {
	case c.isCube():
		return 3 * sum * sum, 3 * sum, 1
	case c.Kernel == Homogeneous:
		return 2 * sum, 1, 0
	case c.Degree == cubic:
		return s.pairs[r], 0, 0
	}
	return sum, 0, 0
}

// cubes4 stores Σ_r h_r (w_r + h_r (q_r + h_r v_r)) of four outputs.
func cubes4(out, row, cross, square, cube []float64) {
	var a0, a1, a2, a3 float64
	for _, h := range row {
		w, q, v := (*[lanes]float64)(cross), (*[lanes]float64)(square), (*[lanes]float64)(cube)
		a0 += h * (w[0] + h*(q[0]+h*v[0]))
		a1 += h * (w[1] + h*(q[1]+h*v[1]))
		a2 += h * (w[2] + h*(q[2]+h*v[2]))
		a3 += h * (w[3] + h*(q[3]+h*v[3]))
		cross, square, cube = cross[lanes:], square[lanes:], cube[lanes:]
	}
	*(*[lanes]float64)(out) = [lanes]float64{a0, a1, a2, a3}
}

// cubeDots is dots for Σ_r h_r (w_r + h_r (q_r + h_r v_r)).
func cubeDots(dst, rows []float64, stride int, w, q, v []float64) {
	k, at := len(w), 0
	q, v = q[:k], v[:k]
	for i := range dst {
		even, odd, row := 0.0, 0.0, rows[at:at+k]
		r := 0
		for ; r+2 <= k; r += 2 { // two sums, so that additions wait for each other less
			h, g := row[r], row[r+1]
			even += h * (w[r] + h*(q[r]+h*v[r]))
			odd += g * (w[r+1] + g*(q[r+1]+g*v[r+1]))
		}
		if r < k {
			h := row[r]
			even += h * (w[r] + h*(q[r]+h*v[r]))
		}
		dst[i] = even + odd
		at += stride
	}
}
