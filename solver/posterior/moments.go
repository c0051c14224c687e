package posterior

import "github.com/refitd/refitd/solver/internal/dense"

// RowView is one example as the updates see it: the posterior rows of its features, gathered, and the sums over them.
// What meets are its parts: its entries, each for itself, or with groups the sums of the entries of each group.
type RowView struct {
	Sign  []float64   // k
	Value []float64   // the example's values x_e
	Mean  [][]float64 // per entry, the mean row (q)
	Cov   [][]float64 // per entry, the packed covariance (q×q)
	Group []int32     // per entry, its group; empty without groups
	Alone []bool      // per entry, whether it has a linear weight alone; empty if none has
	Parts summands
	Sum   []float64 // k, S_r = Σ_p x_p E[h_pr]
	slope []float64 // q, scratch: ∂z/∂row of one feature
	cross []float64 // q, scratch: a covariance times a slope
	rest  []float64 // q, scratch: the slope of what is left without one feature
	total []float64 // packed q×q, scratch: Σ x_p² C_p over some parts

	Pairs []float64 // packed q×q: the products of two signs, 0 for the linear weight
}

func NewRowView(sign []float64) *RowView {
	q := len(sign) + 1
	v := &RowView{
		Sign:  sign,
		Sum:   make([]float64, q-1),
		slope: make([]float64, q),
		cross: make([]float64, q),
		rest:  make([]float64, q),
		total: make([]float64, PackedSize(q)),
		Pairs: make([]float64, PackedSize(q)),
	}
	for r, sr := range sign {
		row := (r + 1) * (r + 2) / 2
		for t, st := range sign[:r+1] {
			v.Pairs[row+1+t] = sr * st
		}
	}
	return v
}

// Gather points the view at an example of the state and returns the mean of z.
func (v *RowView) Gather(s *State, index []int32, value []float64) float64 {
	v.Value, v.Mean, v.Cov, v.Group, v.Alone = value, v.Mean[:0], v.Cov[:0], v.Group[:0], v.Alone[:0]
	for _, j := range index {
		m, c := s.Row(int(j))
		v.Mean, v.Cov = append(v.Mean, m), append(v.Cov, c)
		if s.Group != nil {
			v.Group = append(v.Group, s.Group[s.Field[j]])
		}
		if s.MainOnly != nil {
			v.Alone = append(v.Alone, s.MainOnly[s.Field[j]])
		}
	}
	return v.Predict()
}

// Predict refreshes the parts and sums from the gathered rows and returns the mean of z. O(nnz·k).
func (v *RowView) Predict() float64 {
	v.Parts.add(v)
	clear(v.Sum)
	z := 0.0
	for e, alone := range v.Alone {
		if alone {
			z += v.Value[e] * v.Mean[e][0]
		}
	}
	for p, x := range v.Parts.Value {
		row := v.Parts.Mean[p]
		z += x * row[0]
		for r, h := range row[1:] {
			// Σ_{i<j} a_i a_j grows by a·(sum so far).
			z += v.Sign[r] * x * h * v.Sum[r]
			v.Sum[r] += x * h
		}
	}
	return z
}

// isAlone reports whether entry e has a linear weight alone.
func (v *RowView) isAlone(e int) bool { return len(v.Alone) > 0 && v.Alone[e] }

// Gradient stores E[∂z/∂row_e] = x_e (1, s_r (S_r − what the part of e adds to it)) in dst, for entry e.
func (v *RowView) Gradient(dst []float64, e int) {
	if v.isAlone(e) {
		clear(dst)
		dst[0] = v.Value[e]
		return
	}
	v.slopeOf(dst, v.Value[e], v.Parts.of(e))
}

// slopeOf stores x (1, s_r (S_r − x_p h_pr)) in dst.
func (v *RowView) slopeOf(dst []float64, x float64, p int) {
	own := v.Parts.Value[p]
	dst[0] = x
	for r, h := range v.Parts.Mean[p][1:] {
		dst[r+1] = v.Sign[r] * x * (v.Sum[r] - own*h)
	}
}

// Variance returns Var z for independent rows: Σ_p g_pᵀ C_p g_p plus, for every pair of parts, the product of both
// covariances. O(nnz·k²).
func (v *RowView) Variance() float64 {
	total := 0.0
	for e, alone := range v.Alone {
		if alone {
			total += v.Value[e] * v.Value[e] * v.Cov[e][0]
		}
	}
	v.Parts.addCovariances(v)
	clear(v.total)
	for p, x := range v.Parts.Value {
		v.slopeOf(v.slope, x, p)
		total += Quadratic(v.Parts.Cov[p], v.slope)
		if p > 0 {
			total += x * x * v.basisInner(v.Parts.Cov[p], v.total)
		}
		if p+1 < len(v.Parts.Value) {
			dense.AddScaled(v.total, x*x, v.Parts.Cov[p])
		}
	}
	return total
}

// basisInner returns Σ_{r,t} s_r s_t a[r,t] b[r,t] over the basis coordinates of two packed covariances; the signs of
// both sides cancel on the pairs (r,t) only when equal, so they stay.
func (v *RowView) basisInner(a, b []float64) float64 {
	total := 0.0
	for r := 1; r <= len(v.Sign); r++ {
		row := r*(r+1)/2 + 1
		t, sign := 0.0, v.Pairs[row:row+r]
		c, d := a[row:row+r], b[row:row+r]
		for i, s := range sign {
			t += s * c[i] * d[i]
		}
		total += 2*t - c[r-1]*d[r-1]
	}
	return total
}

// Accumulate adds one example's ω E[y yᵀ] to the packed precision and right·E[y] − ω E[y·rest] to rightSide, for entry
// e; z is the mean that predict returned, right the product ω·t of the pseudo-observation.
func (v *RowView) Accumulate(precision, rightSide []float64, e int, z, omega, right float64) {
	q := len(v.Sign) + 1
	x, y := v.Value[e], v.slope
	if v.isAlone(e) {
		precision[0] += omega * x * x
		rightSide[0] += x * (right - omega*(z-x*v.Mean[e][0]))
		return
	}
	v.Gradient(y, e)
	own := 0.0 // y·E[row_e]: what this feature adds to z
	for r, g := range y {
		own += g * v.Mean[e][r]
	}
	t := right - omega*(z-own)
	for r, g := range y {
		rightSide[r] += t * g
	}
	// The partners' uncertainty: Cov(y) = x² Σ_l x_l² C_l (signs applied) and Cov(y, rest) = x Σ_l x_l s∘(C_l g_l), g_l
	// the gradient of the rest by row l.
	v.Parts.addCovariances(v)
	part := v.Parts.of(e)
	for l, xl := range v.Parts.Value {
		if l == part {
			continue
		}
		c := v.Parts.Cov[l]
		dense.AddScaledProduct(precision, omega*x*x*xl*xl, v.Pairs, c)
		v.crossWith(l, e, c)
		for r := 1; r < q; r++ {
			rightSide[r] -= omega * x * xl * v.Sign[r-1] * v.cross[r]
		}
	}
	AddOuter(precision, omega, y) // number by number, after the vectors above: they would wait for it
}

// crossWith stores C_l g_l in cross, where g_l is the gradient by row l of z without entry e: x_l (1, s_r (S_r − x_e
// h_er − x_l h_lr)).
func (v *RowView) crossWith(l, e int, c []float64) {
	xl := v.Parts.Value[l]
	if v.Parts.entries == 2 { // nothing but part l is left, so only its linear weight moves the rest
		for r := range v.cross {
			v.cross[r] = xl * c[r*(r+1)/2]
		}
		return
	}
	v.rest[0] = xl
	for r, s := range v.Sign {
		v.rest[r+1] = s * xl * (v.Sum[r] - v.Value[e]*v.Mean[e][r+1] - xl*v.Parts.Mean[l][r+1])
	}
	Multiply(v.cross, c, v.rest)
}
