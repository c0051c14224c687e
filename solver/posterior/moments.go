package posterior

import "github.com/refitd/refitd/solver/internal/dense"

// rowView is one example as the updates see it: the posterior rows of its features, gathered, and the sums over them. What meets are its
// parts: its entries, each for itself, or with groups the sums of the entries of each group.
type rowView struct {
	sign  []float64   // k
	value []float64   // the example's values x_e
	mean  [][]float64 // per entry, the mean row (q)
	cov   [][]float64 // per entry, the packed covariance (q×q)
	group []int32     // per entry, its group; empty without groups
	alone []bool      // per entry, whether it has a linear weight alone; empty if none has
	parts parts
	sum   []float64 // k, S_r = Σ_p x_p E[h_pr]
	slope []float64 // q, scratch: ∂z/∂row of one feature
	cross []float64 // q, scratch: a covariance times a slope
	rest  []float64 // q, scratch: the slope of what is left without one feature
	total []float64 // packed q×q, scratch: Σ x_p² C_p over some parts

	pairs []float64 // packed q×q: the products of two signs, 0 for the linear weight
}

func newRowView(sign []float64) *rowView {
	q := len(sign) + 1
	v := &rowView{sign: sign, sum: make([]float64, q-1), slope: make([]float64, q), cross: make([]float64, q), rest: make([]float64, q),
		total: make([]float64, packedSize(q)), pairs: make([]float64, packedSize(q))}
	for r, sr := range sign {
		row := (r + 1) * (r + 2) / 2
		for t, st := range sign[:r+1] {
			v.pairs[row+1+t] = sr * st
		}
	}
	return v
}

// gather points the view at an example of the state and returns the mean of z.
func (v *rowView) gather(s *State, index []int32, value []float64) float64 {
	v.value, v.mean, v.cov, v.group, v.alone = value, v.mean[:0], v.cov[:0], v.group[:0], v.alone[:0]
	for _, j := range index {
		m, c := s.Row(int(j))
		v.mean, v.cov = append(v.mean, m), append(v.cov, c)
		if s.Group != nil {
			v.group = append(v.group, s.Group[s.Field[j]])
		}
		if s.MainOnly != nil {
			v.alone = append(v.alone, s.MainOnly[s.Field[j]])
		}
	}
	return v.predict()
}

// predict refreshes the parts and sums from the gathered rows and returns the mean of z. O(nnz·k).
func (v *rowView) predict() float64 {
	v.parts.add(v)
	clear(v.sum)
	z := 0.0
	for e, alone := range v.alone {
		if alone {
			z += v.value[e] * v.mean[e][0]
		}
	}
	for p, x := range v.parts.value {
		row := v.parts.mean[p]
		z += x * row[0]
		for r, h := range row[1:] {
			// Σ_{i<j} a_i a_j grows by a·(sum so far).
			z += v.sign[r] * x * h * v.sum[r]
			v.sum[r] += x * h
		}
	}
	return z
}

// isAlone reports whether entry e has a linear weight alone.
func (v *rowView) isAlone(e int) bool { return len(v.alone) > 0 && v.alone[e] }

// gradient stores E[∂z/∂row_e] = x_e (1, s_r (S_r − what the part of e adds to it)) in dst, for entry e.
func (v *rowView) gradient(dst []float64, e int) {
	if v.isAlone(e) {
		clear(dst)
		dst[0] = v.value[e]
		return
	}
	v.slopeOf(dst, v.value[e], v.parts.of(e))
}

// slopeOf stores x (1, s_r (S_r − x_p h_pr)) in dst.
func (v *rowView) slopeOf(dst []float64, x float64, p int) {
	own := v.parts.value[p]
	dst[0] = x
	for r, h := range v.parts.mean[p][1:] {
		dst[r+1] = v.sign[r] * x * (v.sum[r] - own*h)
	}
}

// variance returns Var z for independent rows: Σ_p g_pᵀ C_p g_p plus, for every pair of parts, the product of both covariances. O(nnz·k²).
func (v *rowView) variance() float64 {
	total := 0.0
	for e, alone := range v.alone {
		if alone {
			total += v.value[e] * v.value[e] * v.cov[e][0]
		}
	}
	v.parts.addCovariances(v)
	clear(v.total)
	for p, x := range v.parts.value {
		v.slopeOf(v.slope, x, p)
		total += quadratic(v.parts.cov[p], v.slope)
		if p > 0 {
			total += x * x * v.basisInner(v.parts.cov[p], v.total)
		}
		if p+1 < len(v.parts.value) {
			dense.AddScaled(v.total, x*x, v.parts.cov[p])
		}
	}
	return total
}

// basisInner returns Σ_{r,t} s_r s_t a[r,t] b[r,t] over the basis coordinates of two packed covariances; the signs of both sides cancel
// on the pairs (r,t) only when equal, so they stay.
func (v *rowView) basisInner(a, b []float64) float64 {
	total := 0.0
	for r := 1; r <= len(v.sign); r++ {
		row := r*(r+1)/2 + 1
		t, sign := 0.0, v.pairs[row:row+r]
		c, d := a[row:row+r], b[row:row+r]
		for i, s := range sign {
			t += s * c[i] * d[i]
		}
		total += 2*t - c[r-1]*d[r-1]
	}
	return total
}

// accumulate adds one example's ω E[y yᵀ] to the packed precision and right·E[y] − ω E[y·rest] to rightSide, for entry e; z is the mean
// that predict returned, right the product ω·t of the pseudo-observation.
func (v *rowView) accumulate(precision, rightSide []float64, e int, z, omega, right float64) {
	q := len(v.sign) + 1
	x, y := v.value[e], v.slope
	if v.isAlone(e) {
		precision[0] += omega * x * x
		rightSide[0] += x * (right - omega*(z-x*v.mean[e][0]))
		return
	}
	v.gradient(y, e)
	own := 0.0 // y·E[row_e]: what this feature adds to z
	for r, g := range y {
		own += g * v.mean[e][r]
	}
	t := right - omega*(z-own)
	for r, g := range y {
		rightSide[r] += t * g
	}
	// The partners' uncertainty: Cov(y) = x² Σ_l x_l² C_l (signs applied) and Cov(y, rest) = x Σ_l x_l s∘(C_l g_l), g_l the gradient of
	// the rest by row l.
	v.parts.addCovariances(v)
	part := v.parts.of(e)
	for l, xl := range v.parts.value {
		if l == part {
			continue
		}
		c := v.parts.cov[l]
		dense.AddScaledProduct(precision, omega*x*x*xl*xl, v.pairs, c)
		v.crossWith(l, e, c)
		for r := 1; r < q; r++ {
			rightSide[r] -= omega * x * xl * v.sign[r-1] * v.cross[r]
		}
	}
	addOuter(precision, omega, y) // number by number, after the vectors above: they would wait for it
}

// crossWith stores C_l g_l in cross, where g_l is the gradient by row l of z without entry e: x_l (1, s_r (S_r − x_e h_er − x_l h_lr)).
func (v *rowView) crossWith(l, e int, c []float64) {
	xl := v.parts.value[l]
	if v.parts.entries == 2 { // nothing but part l is left, so only its linear weight moves the rest
		for r := range v.cross {
			v.cross[r] = xl * c[r*(r+1)/2]
		}
		return
	}
	v.rest[0] = xl
	for r, s := range v.sign {
		v.rest[r+1] = s * xl * (v.sum[r] - v.value[e]*v.mean[e][r+1] - xl*v.parts.mean[l][r+1])
	}
	multiply(v.cross, c, v.rest)
}
