package loss

import "github.com/refitd/refitd/solver/internal/dense"

// Squared is ½ ‖o − target‖².
type Squared struct{}

func (Squared) Name() string { return "squared" }

// Curvature returns 1.
func (Squared) Curvature(int) float64 { return 1 }

// Eval costs O(m).
func (Squared) Eval(grad, pred, target []float64) float64 {
	target = target[:len(pred)]
	value := 0.0
	for c, o := range pred {
		r := o - target[c]
		value += r * r
		if grad != nil {
			grad[c] = r
		}
	}
	return 0.5 * value
}

func (Squared) evalTile(l *LossTile, grad, pred, target, weight []float64, n int) (value float64, ok bool) {
	total := 0.0
	for c := range l.m {
		p, t := pred[c*n:c*n+n], target[c*n:c*n+n]
		residual := l.exps[:n]
		if grad != nil {
			residual = grad[c*n : c*n+n]
		}
		for i, o := range p {
			residual[i] = o - t[i]
		}
		if weight == nil {
			total += dense.Dot(residual, residual)
			continue
		}
		for i, w := range weight[:n] {
			r := residual[i]
			total += w * r * r
			residual[i] = w * r
		}
	}
	return 0.5 * total, true
}
