package gamma

import (
	"sort"

	"github.com/refitd/refitd/solver/problem"
)

// pairs holds the operators of rows of exactly two features in ANOVA form, where a row adds to two entries of Γ_c only:
// its own weight ½ x_j x_l D_ic at (j, l) and (l, j). Sorted by the first feature, a pass keeps the numbers of that
// feature in registers: on ratings of users and items it takes about half the time of one over the rows. Building it
// takes one pass.
type pairs struct {
	order []int32   // row of each entry, sorted by first feature, then by row
	first []int     // entries of feature j are first[j] … first[j+1]−1
	other []int32   // second feature of each entry
	scale []float64 // ½ x_j x_l
	value []float64 // n×m, set by prepare
}

// newPairs returns nil unless all rows have exactly two features.
func newPairs(x *problem.Rows) *pairs {
	n := x.NumRows()
	if len(x.Index) != 2*n || n == 0 {
		return nil
	}
	for i := range n {
		if x.Start[i] != 2*i {
			return nil
		}
	}
	p := &pairs{
		order: make([]int32, n),
		first: make([]int, x.NumColumns+1),
		other: make([]int32, n),
		scale: make([]float64, n),
	}
	for i := range n {
		p.first[x.Index[2*i]+1]++
	}
	for j := range x.NumColumns {
		p.first[j+1] += p.first[j]
	}
	next := append([]int(nil), p.first...)
	for i := range n {
		j := x.Index[2*i]
		e := next[j]
		next[j]++
		p.order[e], p.other[e], p.scale[e] = int32(i), x.Index[2*i+1], 0.5*x.Value[2*i]*x.Value[2*i+1]
	}
	return p
}

// prepare sets the values from the gradients.
func (p *pairs) prepare(g *Gamma) {
	m := g.Outputs
	if p.value == nil {
		p.value = make([]float64, len(p.order)*m)
	}
	g.Workers.Blocks(len(p.order), problem.FitBlock, func(_, _, lo, hi int) {
		for e := lo; e < hi; e++ {
			i, scale := int(p.order[e]), p.scale[e]
			row := p.value[e*m : e*m+m]
			for c, d := range g.Grad[i*m : i*m+m] {
				row[c] = scale * d
			}
		}
	})
}

// each calls f for the runs of entries lo..hi−1 of one first feature.
func (p *pairs) each(lo, hi int, f func(j, lo, hi int)) {
	j := sort.Search(len(p.first)-1, func(j int) bool { return p.first[j+1] > lo })
	for ; lo < hi; j++ {
		end := min(hi, p.first[j+1])
		if end > lo {
			f(j, lo, end)
		}
		lo = end
	}
}

// mul adds the contribution of entries lo..hi−1 to column t of sum, as mulRows does.
func (p *pairs) mul(sum, h []float64, m, s, t int, coef []float64, lo, hi int) {
	p.each(lo, hi, func(j, lo, hi int) {
		own, total := h[j*s+t], 0.0
		for e := lo; e < hi; e++ {
			w := 0.0
			if coef == nil {
				w = p.value[e*m+t]
			} else {
				for c, v := range p.value[e*m : e*m+m] {
					w += v * coef[c*s+t]
				}
			}
			at := int(p.other[e])*s + t
			total += w * h[at]
			sum[at] += w * own
		}
		sum[j*s+t] += total
	})
}

// mul4 does what mul does for the four columns from t on.
func (p *pairs) mul4(sum, h []float64, m, s, t int, coef []float64, lo, hi int) {
	p.each(lo, hi, func(j, lo, hi int) {
		own := *(*[4]float64)(h[j*s+t:])
		var t0, t1, t2, t3 float64
		for e := lo; e < hi; e++ {
			var w0, w1, w2, w3 float64
			if coef == nil {
				w := (*[4]float64)(p.value[e*m+t:])
				w0, w1, w2, w3 = w[0], w[1], w[2], w[3]
			} else {
				for c, v := range p.value[e*m : e*m+m] {
					row := (*[4]float64)(coef[c*s+t:])
					w0 += v * row[0]
					w1 += v * row[1]
					w2 += v * row[2]
					w3 += v * row[3]
				}
			}
			at := int(p.other[e])*s + t
			row, out := (*[4]float64)(h[at:]), (*[4]float64)(sum[at:])
			t0 += w0 * row[0]
			t1 += w1 * row[1]
			t2 += w2 * row[2]
			t3 += w3 * row[3]
			out[0] += w0 * own[0]
			out[1] += w1 * own[1]
			out[2] += w2 * own[2]
			out[3] += w3 * own[3]
		}
		out := (*[4]float64)(sum[j*s+t:])
		out[0] += t0
		out[1] += t1
		out[2] += t2
		out[3] += t3
	})
}

// quadratic adds the contribution of entries lo..hi−1 to q (s×m): 2 h_j h_l times the value, for all columns and
// outputs. Work has length m·s.
func (p *pairs) quadratic(q, work, h []float64, m, s, lo, hi int) {
	p.each(lo, hi, func(j, lo, hi int) {
		clear(work)
		for e := lo; e < hi; e++ {
			at := int(p.other[e]) * s
			row := h[at : at+s]
			for c, v := range p.value[e*m : e*m+m] {
				part := work[c*s : c*s+s]
				part = part[:len(row)]
				for t, x := range row {
					part[t] += v * x
				}
			}
		}
		for t, x := range h[j*s : j*s+s] {
			for c := range m {
				q[t*m+c] += 2 * x * work[c*s+t]
			}
		}
	})
}
