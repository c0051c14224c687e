package gamma

import "github.com/refitd/refitd/solver/problem"

// mulRows4 does what mulRows does for the four columns from t on, with their sums in registers: half the time on
// one-hot rows.
func (g *Gamma) mulRows4(sum, h []float64, s, t int, coef []float64, lo, hi int) {
	m := g.Outputs
	half, squares := 1.0, 0.0
	if g.Kernel == problem.ANOVA {
		half, squares = 0.5, 1
	}
	for i := lo; i < hi; i++ {
		d := g.Grad[i*m : i*m+m]
		var w0, w1, w2, w3 float64
		if coef == nil {
			w := (*[4]float64)(d[t:])
			w0, w1, w2, w3 = w[0], w[1], w[2], w[3]
		} else {
			for c, dc := range d {
				row := (*[4]float64)(coef[c*s+t:])
				w0 += dc * row[0]
				w1 += dc * row[1]
				w2 += dc * row[2]
				w3 += dc * row[3]
			}
		}
		w0, w1, w2, w3 = half*w0, half*w1, half*w2, half*w3
		first, last := g.X.Start[i], g.X.Start[i+1]
		index, value := g.X.Index[first:last], g.X.Value[first:last]
		value = value[:len(index)]
		var p0, p1, p2, p3 float64
		for e, j := range index {
			x := value[e]
			row := (*[4]float64)(h[int(j)*s+t:])
			p0 += x * row[0]
			p1 += x * row[1]
			p2 += x * row[2]
			p3 += x * row[3]
		}
		for e, j := range index {
			x := value[e]
			row, out := (*[4]float64)(h[int(j)*s+t:]), (*[4]float64)(sum[int(j)*s+t:])
			own := squares * x // ANOVA leaves out the square of the feature itself
			out[0] += w0 * x * (p0 - own*row[0])
			out[1] += w1 * x * (p1 - own*row[1])
			out[2] += w2 * x * (p2 - own*row[2])
			out[3] += w3 * x * (p3 - own*row[3])
		}
	}
}
