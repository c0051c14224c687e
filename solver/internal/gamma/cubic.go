package gamma

import (
	"github.com/refitd/refitd/solver/problem"
	"gonum.org/v1/gonum/floats"
)

// TrilinearTo stores in column t of dst the vector Σ_c coef[c,t] T_c(a_t, b_t, ·) for each of the s columns of a and b,
// in O((nnz(X) + n m) s). T_c is the symmetric trilinear form with T_c(h, h, h) = Σ_i D_ic K(h, x_i):
//
//	T_c(a, b, ·) = Σ_i D_ic ⟨a, x_i⟩ ⟨b, x_i⟩ x_i                                         (homogeneous)
//	T_c(a, b, ·)_j = ⅙ Σ_i D_ic x_ij Σ_{l≠p, l≠j, p≠j} a_l x_il b_p x_ip                   (ANOVA)
//
// so that T_c(h, h, ·) is a third of the gradient. With coef nil there are s = m columns and column t belongs to T_t.
// a may be b; dst overlaps neither.
func (g *Gamma) TrilinearTo(dst, a, b []float64, s int, coef []float64) {
	clear(dst[:g.X.NumColumns*s])
	for first := 0; first < s; first += CubicColumns {
		w := trilinear{g: g, a: a, b: b, coef: coef, s: s, first: first, size: min(CubicColumns, s-first)}
		length := g.X.NumColumns * w.size
		g.Workers.Blocks(g.X.NumRows(), g.size, func(_, block, lo, hi int) {
			g.partials[block] = problem.Room(g.partials[block], length)
			w.rows(g.partials[block], lo, hi)
		})
		for _, part := range g.partials {
			w.addTo(dst, part)
		}
	}
}

// CubicColumns is how many columns TrilinearTo does in a pass: more would take more memory for the sums of its blocks.
const CubicColumns = 8

// trilinear is a product with columns first … first+size−1 of the s columns of a and b.
type trilinear struct {
	g              *Gamma
	a, b, coef     []float64
	s, first, size int
}

// addTo adds the d×size part of a block to the columns of dst. A block that was called off has none, or one of another
// product.
func (w *trilinear) addTo(dst, part []float64) {
	for j := range min(w.g.X.NumColumns, len(part)/w.size) {
		floats.Add(dst[j*w.s+w.first:j*w.s+w.first+w.size], part[j*w.size:(j+1)*w.size])
	}
}

// columnSums has a number for each column, of one row x: its weight, ⟨a, x⟩, ⟨b, x⟩ and Σ_j a_j b_j x_j².
type columnSums struct{ weight, left, right, both [CubicColumns]float64 }

// rows adds the contribution of rows lo..hi−1 to sum, d×size.
func (w *trilinear) rows(sum []float64, lo, hi int) {
	g, m := w.g, w.g.Outputs
	for i := lo; i < hi; i++ {
		if i%problem.FitBlock == 0 && !g.Workers.Yield() {
			return
		}
		index, value := g.X.Row(i)
		if g.Kernel == problem.ANOVA3 && len(index) < 3 {
			continue
		}
		var own columnSums
		for c, d := range g.Grad[i*m : i*m+m] {
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
		if g.Kernel == problem.ANOVA3 {
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
