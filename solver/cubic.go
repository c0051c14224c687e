package solver

import "gonum.org/v1/gonum/floats"

// cubicBlock is how many basis vectors addTriples does at a time: their sums stay in the first-level cache.
const cubicBlock = 64

// addTriples adds A³(h_r, x) to dst[r] for the k basis vectors of a d×k block, in 3·nnz(x)·k multiplications. The elementary symmetric polynomials of the
// a_j = h_rj x_j are built up column by column, the third from the second before and that from the first (Blondel et al. 2016, equation (7)): all
// terms of one sign stay so, and a row of fewer than three columns has exactly 0, unlike with power sums.
func addTriples(dst, basis []float64, k int, index []int32, value []float64) {
	for lo := 0; lo < k; lo += cubicBlock {
		hi := min(k, lo+cubicBlock)
		var sums, pairs [cubicBlock]float64
		triples := dst[lo:hi]
		for e, j := range index {
			x := value[e]
			row := basis[int(j)*k+lo : int(j)*k+hi]
			for r, h := range row[:len(triples)] {
				a := h * x
				triples[r] += a * pairs[r]
				pairs[r] += a * sums[r]
				sums[r] += a
			}
		}
	}
}

// trilinearTo stores in column t of dst the vector Σ_c coef[c,t] T_c(a_t, b_t, ·) for each of the s columns of a and b, in O((nnz(X) + n m) s). T_c is
// the symmetric trilinear form with T_c(h, h, h) = Σ_i D_ic K(h, x_i):
//
//	T_c(a, b, ·) = Σ_i D_ic ⟨a, x_i⟩ ⟨b, x_i⟩ x_i                                         (homogeneous)
//	T_c(a, b, ·)_j = ⅙ Σ_i D_ic x_ij Σ_{l≠p, l≠j, p≠j} a_l x_il b_p x_ip                   (ANOVA)
//
// so that T_c(h, h, ·) is a third of the gradient. With coef nil there are s = m columns and column t belongs to T_t. a may be b; dst overlaps neither.
func (g *gamma) trilinearTo(dst, a, b []float64, s int, coef []float64) {
	clear(dst[:g.x.NumColumns*s])
	for first := 0; first < s; first += cubicColumns {
		w := trilinear{g: g, a: a, b: b, coef: coef, s: s, first: first, size: min(cubicColumns, s-first)}
		length := g.x.NumColumns * w.size
		g.workers.blocks(g.x.NumRows(), g.size, func(_, block, lo, hi int) {
			g.partials[block] = room(g.partials[block], length)
			w.rows(g.partials[block], lo, hi)
		})
		for _, part := range g.partials {
			w.addTo(dst, part)
		}
	}
}

// cubicColumns is how many columns trilinearTo does in a pass: more would take more memory for the sums of its blocks.
const cubicColumns = 8

// trilinear is a product with columns first … first+size−1 of the s columns of a and b.
type trilinear struct {
	g              *gamma
	a, b, coef     []float64
	s, first, size int
}

// addTo adds the d×size part of a block to the columns of dst. A block that was called off has none, or one of another product.
func (w *trilinear) addTo(dst, part []float64) {
	for j := range min(w.g.x.NumColumns, len(part)/w.size) {
		floats.Add(dst[j*w.s+w.first:j*w.s+w.first+w.size], part[j*w.size:(j+1)*w.size])
	}
}

// columnSums has a number for each column, of one row x: its weight, ⟨a, x⟩, ⟨b, x⟩ and Σ_j a_j b_j x_j².
type columnSums struct{ weight, left, right, both [cubicColumns]float64 }

// rows adds the contribution of rows lo..hi−1 to sum, d×size.
func (w *trilinear) rows(sum []float64, lo, hi int) {
	g, m := w.g, w.g.outputs
	for i := lo; i < hi; i++ {
		if i%fitBlock == 0 && !g.workers.yield() {
			return
		}
		index, value := g.x.Row(i)
		if g.kernel == ANOVA3 && len(index) < 3 {
			continue
		}
		var own columnSums
		for c, d := range g.grad[i*m : i*m+m] {
			switch {
			case w.coef != nil:
				for t, x := range w.coef[c*w.s+w.first : c*w.s+w.first+w.size] {
					own.weight[t] += d * x
				}
			case c >= w.first && c < w.first+w.size:
				own.weight[c-w.first] = d
			}
		}
		for e, j := range index {
			x, at := value[e], int(j)*w.s+w.first
			left, right := w.a[at:at+w.size], w.b[at:at+w.size]
			for t, h := range left {
				p, q := x*h, x*right[t]
				own.left[t] += p
				own.right[t] += q
				own.both[t] += p * q
			}
		}
		if g.kernel == ANOVA3 {
			w.addTriples(sum, &own, index, value)
		} else {
			w.addProducts(sum, &own, index, value)
		}
	}
}

func (w *trilinear) addTriples(sum []float64, own *columnSums, index []int32, value []float64) {
	for t := range own.weight {
		own.weight[t] /= 6
	}
	for e, j := range index {
		x, at := value[e], int(j)*w.s+w.first
		left, right := w.a[at:at+w.size], w.b[at:at+w.size]
		out := sum[int(j)*w.size : int(j)*w.size+w.size]
		for t, h := range left {
			p, q := x*h, x*right[t]
			out[t] += own.weight[t] * x * ((own.left[t]-p)*(own.right[t]-q) - (own.both[t] - p*q))
		}
	}
}

func (w *trilinear) addProducts(sum []float64, own *columnSums, index []int32, value []float64) {
	for t, weight := range own.weight {
		own.both[t] = weight * own.left[t] * own.right[t]
	}
	for e, j := range index {
		x := value[e]
		out := sum[int(j)*w.size : int(j)*w.size+w.size]
		for t := range out {
			out[t] += x * own.both[t]
		}
	}
}
