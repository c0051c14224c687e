package posteriortest

import (
	"math/rand/v2"

	"github.com/refitd/refitd/solver"
)

// Ratings draws n user-item examples with planted interactions; the first users columns are field 0, the rest field 1.
func Ratings(r *rand.Rand, n, users, items, k int, logistic bool) *solver.Problem {
	d := users + items
	h, w := make([]float64, d*k), make([]float64, d)
	for i := range h {
		h[i] = r.NormFloat64()
	}
	for i := range w {
		w[i] = 0.5 * r.NormFloat64()
	}
	field := make([]int32, d)
	for j := users; j < d; j++ {
		field[j] = 1
	}
	p := &solver.Problem{X: solver.NewRows(d, n, 2*n), Outputs: 1, Loss: solver.Squared{}, Field: field, NumFields: 2}
	if logistic {
		p.Outputs, p.Loss = 3, solver.BinaryLogistic{}
	}
	for range n {
		u, i := r.IntN(users), users+r.IntN(items)
		p.X.Append([]int32{int32(u), int32(i)}, []float64{1, 1})
		z := w[u] + w[i]
		for c := range k {
			z += h[u*k+c] * h[i*k+c]
		}
		z += 0.3 * r.NormFloat64()
		if !logistic {
			p.Targets = append(p.Targets, 3+z)
			continue
		}
		for c := range 3 {
			t := -1.0
			if z > float64(c-1) {
				t = 1
			}
			p.Targets = append(p.Targets, t)
		}
	}
	return p
}
