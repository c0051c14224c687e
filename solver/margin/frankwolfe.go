package margin

import "github.com/refitd/refitd/solver/internal/dense"

// direct stores u − α in move, where u = −∂Φ(o + γα) is the vertex that the gradient of the dual points to (eq. 2.19
// and 2.25), and returns ⟨∇D, u − α⟩/w_i. The scores o are changed.
func (f *fit) direct(move, alpha, o []float64, y int, s *scratch) float64 {
	gamma := f.rule.gamma
	if gamma > 0 {
		for c, x := range alpha {
			o[c] += gamma * x
		}
	}
	f.rule.vertex(s.v, o, y, s)
	slope := 0.0
	for c, x := range alpha {
		move[c] = -s.v[c] - x
		slope -= move[c] * o[c]
	}
	return slope - f.rule.linear(move, y)
}

// frankWolfe takes the step t, from 0, along the direction of the last evaluation: 2/(t+2) of it, or as much as raises
// the dual most (eq. 2.20 and 2.26).
func (f *fit) frankWolfe(t int) {
	f.keep(f.all)
	f.sumTo(f.step, f.move)
	length := 2 / float64(t+2)
	if f.method == LineSearch {
		curve := f.s.Lambda * dense.Dot(f.step, f.step)
		if gamma := f.rule.gamma; gamma > 0 {
			for i := range f.n {
				row := f.move[i*f.m : (i+1)*f.m]
				curve += gamma * f.p.Weight(i) * dense.Dot(row, row)
			}
		}
		if length = 1; f.linear < curve {
			length = max(f.linear, 0) / curve
		}
	}
	dense.AddScaled(f.w, length, f.step)
	dense.AddScaled(f.alpha, length, f.move)
}
